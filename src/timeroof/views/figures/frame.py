"""Frame of every chart: size, fonts, log axes, legend, saving."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from timeroof.core.writing import atomic_path
from timeroof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from timeroof.views.figures.points import Look

FORMATS = ("png", "svg", "pdf")
GRID_COLOUR = "#D5D5D5"
GUIDE_COLOUR = "#7A7A7A"
TEXT_COLOUR = "#202020"

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 7,
    "axes.labelsize": 7,
    "axes.titlesize": 8,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5,
    "axes.linewidth": 0.6,
    "lines.linewidth": 0.9,
    "svg.fonttype": "none",
    "svg.hashsalt": "timeroof",
    "pdf.fonttype": 42,
    "text.parse_math": False,
}


@dataclass(frozen=True)
class FigureSize:
    """Size in inches; the default is one column of a two-column paper."""

    width: float = 3.5
    height: float = 3.6
    dpi: int = 220


@dataclass(frozen=True)
class LegendEntry:
    """One line of a legend."""

    text: str
    look: Look


def new_figure(size: FigureSize, title: str) -> tuple[Figure, Axes]:
    """An empty chart with log axes; callers wrap their drawing in `styled()`."""
    figure = Figure(figsize=(size.width, size.height), dpi=size.dpi, layout="constrained")
    axes = figure.add_subplot()
    axes.set_xscale("log")
    axes.set_yscale("log")
    if title:
        axes.set_title(title, pad=6, color=TEXT_COLOUR, wrap=True)
    return figure, axes


def styled() -> Any:
    """The style of all charts, for a `with`."""
    return rc_context(STYLE)


def log_limits(values: Sequence[float], pad: float = 1.6) -> tuple[float, float]:
    """Axis limits around positive values with room on both sides, at least a decade wide."""
    known = [v for v in values if v > 0 and math.isfinite(v)]
    low, high = (min(known), max(known)) if known else (1.0, 10.0)
    low, high = low / pad, high * pad
    missing = 10 / (high / low)
    if missing > 1:
        low, high = low / math.sqrt(missing), high * math.sqrt(missing)
    return low, high


def decade_axis(axis: Any, unit: str) -> None:
    """Ticks at decades with SI prefixes, at 2 and 5 too where the axis is short."""
    low, high = axis.get_view_interval()
    decades = math.log10(high / low)
    subs = (1.0, 2.0, 5.0) if decades < 1.7 else (1.0, 3.0) if decades < 2.6 else (1.0,)
    axis.set_major_locator(LogLocator(base=10, subs=subs, numticks=30))
    axis.set_minor_locator(LogLocator(base=10, subs=tuple(range(2, 10)), numticks=60))
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value, unit)))


_PREFIX = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}


def short_number(value: float, unit: str = "") -> str:
    """A tick's text.

    >>> short_number(3e9, "B"), short_number(2e-5, "s"), short_number(0.5)
    ('3 GB', '20 µs', '0.5')
    """
    if value <= 0 or not math.isfinite(value):
        return ""
    power = math.floor(math.log10(value) + 1e-9)
    third = max(-9, min(18, 3 * (power // 3)))
    if not unit and -3 <= power < 0:
        third = 0
    return f"{value / 10.0**third:.3g} {_PREFIX[third]}{unit}".strip()


def add_legend(figure: Figure, entries: Sequence[LegendEntry], columns: int = 3) -> None:
    """The legend under the chart, where it hides no point."""
    if not entries:
        return
    handles = [
        Line2D(
            [],
            [],
            linestyle="",
            marker=e.look.marker,
            markersize=4.5,
            color=e.look.colour,
            markerfacecolor=e.look.colour if e.look.filled else "white",
            markeredgecolor=e.look.colour,
            label=e.text,
        )
        for e in entries
    ]
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=min(columns, len(handles)),
        frameon=False,
        handletextpad=0.3,
        columnspacing=1.0,
        borderpad=0.2,
    )


def save_figure(figure: Figure, path: Path) -> None:
    """Write a picture as PNG, SVG or PDF by its suffix, whole or not at all."""
    kind = path.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise UsageError(
            f"{path.name} is no picture's name", advice=f"end it in .{', .'.join(FORMATS)}"
        )
    # No date, so that the same numbers give the same file.
    dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with styled(), atomic_path(path) as part:
        figure.savefig(part, format=kind, metadata=dated.get(kind))
