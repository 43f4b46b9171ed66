"""Bytes per second over the working set, with cache sizes and the ceilings of their levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from timeroof.core.units import format_amount
from timeroof.views.pictures.frame import GUIDE_COLOUR
from timeroof.views.pictures.labels import LabelPlacer
from timeroof.views.pictures.machine import CurvePoint, bandwidth_curve
from timeroof.views.pictures.points import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def working_set_chart(curve: Sequence[dict[str, float]], facts: dict[str, Any]) -> Figure:
    """The kernel's rate over its working set; bars where a level's ceiling lies."""
    from timeroof.views.pictures.frame import styled

    points = [CurvePoint("element-wise", int(p["size_bytes"]), p["bytes_per_s"]) for p in curve]
    sizes = {level: int(size) for level, size in facts["cache_sizes"].items()}
    figure = bandwidth_curve(points, sizes, "bytes per second over the working set")
    axes = figure.axes[0]
    ceilings = [c for c in facts["ceilings"].values() if c]
    axes.set_xlim(right=1.8 * axes.get_xlim()[1])
    low, high = axes.get_ylim()
    axes.set_ylim(low, max(high, 1.4 * max(ceilings, default=high)))
    with styled():
        _draw_ceilings(axes, sizes, facts["ceilings"], points)
    return figure


def _draw_ceilings(
    axes: Axes,
    sizes: dict[str, int],
    ceilings: dict[str, float | None],
    points: Sequence[CurvePoint],
) -> None:
    """A bar per level over the sets that it holds, named where there is room."""
    labels = LabelPlacer(axes, _along(points))
    left, right = axes.get_xlim()
    ordered = [*sorted(sizes.items(), key=lambda item: item[1]), ("dram", right)]
    start = left
    for level, end in ordered:
        rate = ceilings.get(level)
        stop = min(float(end), right)
        if rate and stop > start:
            axes.plot([start, stop], [rate, rate], color=PALETTE[1], lw=1.6, alpha=0.8, zorder=1)
            text = f"{level.upper()} {format_amount(rate, 'B/s', 2)}"
            labels.write(
                (left, rate), (right, rate), text, places=_places(start, stop, left, right)
            )
        start = max(start, stop)
    axes.tick_params(colors=GUIDE_COLOUR)


def _along(points: Sequence[CurvePoint]) -> list[tuple[float, float]]:
    """Points along the drawn curve, close enough that no text lies on it."""
    import numpy as np

    ordered = sorted((p.size_bytes, p.rate_per_s) for p in points)
    x, y = np.log(np.array(ordered, dtype=np.float64)).T
    dense = np.linspace(x[0], x[-1], 120)
    return list(zip(np.exp(dense), np.exp(np.interp(dense, x, y)), strict=True))


def _places(start: float, stop: float, left: float, right: float) -> tuple[float, ...]:
    """Where along the whole width a level's name may stand: near the end of its own bar."""
    import math

    whole = math.log(right / left)
    end = math.log(stop / left) / whole
    middle = math.log(math.sqrt(start * stop) / left) / whole
    return (end, middle + 0.1, 0.98, 0.96, min(1.0, end + 0.1))
