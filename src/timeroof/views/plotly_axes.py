"""Logarithmic axes and lines for plotly, in units that people read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from timeroof.views.pictures.frame import short_number

Range = tuple[float, float]


def log_range(values: Sequence[float]) -> Range:
    """Limits around positive values as powers of ten, at least a decade apart.

    >>> log_range([10.0, 1000.0])
    (0.85, 3.15)
    """
    known = [v for v in values if v > 0 and math.isfinite(v)]
    low, high = (math.log10(min(known)), math.log10(max(known))) if known else (0.0, 1.0)
    if high - low < 1:
        low, high = (low + high - 1) / 2, (low + high + 1) / 2
    room = max(0.15, 0.06 * (high - low))
    return low - room, high + room


def zero_at(values: Sequence[float]) -> float:
    """Where zero stands on an axis that has none: somewhat below the smallest value."""
    known = [v for v in values if v > 0 and math.isfinite(v)]
    if not known:
        return 1.0
    decades = math.log10(max(known) / min(known))
    return min(known) / 10 ** max(0.35, 0.07 * decades)


def amount_axis(title: str, unit: str, limits: Range) -> dict[str, Any]:
    """An axis of bytes, FLOPs or seconds."""
    values = _decades(limits)
    return {
        "type": "log",
        "range": list(limits),
        "title": {"text": title},
        "tickvals": values,
        "ticktext": [short_number(v, unit) for v in values],
        "showgrid": False,
        "zeroline": False,
        "showline": True,
        "linecolor": "#aaaaaa",
        "ticks": "outside",
    }


def second_axis(title: str, rate: float, limits: Range, axis: str) -> dict[str, Any]:
    """Seconds at a rate on the other side; it follows the first axis when one zooms."""
    shift = math.log10(rate)
    seconds = _decades((limits[0] - shift, limits[1] - shift))
    return {
        "type": "log",
        "overlaying": axis,
        "matches": axis,
        "side": "top" if axis == "x" else "right",
        "title": {"text": title},
        "tickvals": [s * rate for s in seconds],
        "ticktext": [short_number(s, "s") for s in seconds],
        "showgrid": False,
        "zeroline": False,
        "showline": True,
        "linecolor": "#aaaaaa",
        "ticks": "outside",
    }


def on_second_axes(at: tuple[float, float]) -> dict[str, Any]:
    """A symbol that nobody sees: plotly draws no axis without data."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [at[0]],
        "y": [at[1]],
        "xaxis": "x2",
        "yaxis": "y2",
        "marker": {"opacity": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _decades(limits: Range) -> list[float]:
    low, high = math.floor(limits[0]) - 3, math.ceil(limits[1]) + 3
    step = max(1, math.ceil((limits[1] - limits[0]) / 10))
    return [10.0**power for power in range(low, high + 1, step)]


Values = Sequence[float | None]


def line(x: Values, y: Values, colour: str, width: float) -> dict[str, Any]:
    """A line that says nothing when one points at it."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": list(x),
        "y": list(y),
        "line": {"color": colour, "width": width},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def box_trace(x: float, y: float, x_range: Range, y_range: Range) -> dict[str, Any]:
    """The dashed box that one launch fills."""
    trace = line([10 ** (x_range[0] - 6), x, x], [y, y, 10 ** (y_range[0] - 6)], "#888888", 1)
    trace["line"]["dash"] = "dash"
    return {**trace, "name": "one launch", "showlegend": True}
