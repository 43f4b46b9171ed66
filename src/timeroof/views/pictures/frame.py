"""What every chart shares: units with their work and time, the roofs they meet, and the frame.

The frame is size, fonts, logarithmic axes, legend, saving.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from timeroof.core.errors import UsageError
from timeroof.core.files import atomic_path
from timeroof.views.style import LIMITERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

from dataclasses import field

import polars as pl

from timeroof.model.judge import time_coordinates
from timeroof.views.style import PALETTE

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")


@dataclass(frozen=True)
class Look:
    """How a unit is drawn: which colour and marker of the chart's, open or filled."""

    colour: str = PALETTE[0]
    marker: str = "o"
    filled: bool = True


@dataclass(frozen=True)
class Unit:
    """A kernel or a whole pass: FLOPs that had to be done, bytes per level, seconds, launches."""

    name: str
    flops: float
    bytes_by_level: dict[str, float]
    time_s: float
    launches: float = 0.0
    look: Look = field(default_factory=Look)

    def bytes_at(self, level: str) -> float:
        """Bytes moved at one level, NaN where they are not known."""
        return self.bytes_by_level.get(level, math.nan)


@dataclass(frozen=True)
class Roofs:
    """The pair of roofs behind a chart's second axes, and the cost of a launch."""

    compute_name: str
    flops_per_s: float
    memory_name: str
    bytes_per_s: float
    launch_s: float | None = None
    level: str = "dram"

    @property
    def balance(self) -> float:
        """Machine balance in FLOP per byte."""
        return self.flops_per_s / self.bytes_per_s

    def time_points_s(self, units: Sequence[Unit]) -> list[tuple[float, float]]:
        """Bandwidth and compute time of units as the model places them on these roofs."""
        work = {
            "flops": [u.flops for u in units],
            "bytes": [u.bytes_at(self.level) for u in units],
            "time_s": [u.time_s for u in units],
        }
        table = pl.DataFrame(work, schema=dict.fromkeys(work, pl.Float64)).fill_nan(None)
        places = table.select(
            time_coordinates(
                pl.col("flops") / self.flops_per_s,
                pl.col("bytes") / self.bytes_per_s,
                pl.col("time_s"),
            )
        ).fill_null(math.nan)
        return list(places.select("bandwidth_time_s", "compute_time_s").iter_rows())


def drawable(unit: Unit, level: str) -> bool:
    """Whether a unit has a place on a plane: its bytes are known and it took time."""
    return unit.bytes_at(level) > 0 and unit.time_s > 0 and unit.flops >= 0


# Height of a line of the legend in inches.
LEGEND_ROW = 0.128

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
    """One line of a legend: a symbol, or a dashed line where `dashed`."""

    text: str
    look: Look
    size: float = 4.5
    dashed: bool = False


# A legend is a sequence of groups; each group is a column of its own.
Legend = Sequence[Sequence[LegendEntry]]


@dataclass(frozen=True)
class Margins:
    """Room around the plot in inches; fixed, so that charts of one kind line up in a paper."""

    left: float = 0.58
    right: float = 0.12
    top: float = 0.28
    bottom: float = 0.42


def new_figure(
    size: FigureSize, title: str, legend: Legend, margins: Margins | None = None
) -> tuple[Figure, Axes]:
    """A chart with log axes and its legend; callers wrap their drawing in `styled()`."""
    room = margins or Margins()
    figure = Figure(figsize=(size.width, size.height), dpi=size.dpi)
    rows = max((len(group) for group in legend), default=0)
    bottom = room.bottom + rows * LEGEND_ROW
    wide, high = 1 - (room.left + room.right) / size.width, 1 - (bottom + room.top) / size.height
    axes = figure.add_axes((room.left / size.width, bottom / size.height, wide, high))
    axes.set_xscale("log")
    axes.set_yscale("log")
    if title:
        figure.text(
            0.5, 1 - 0.05 / size.height, title, ha="center", va="top", fontsize=8, color=TEXT_COLOUR
        )
    _add_legend(figure, legend)
    return figure, axes


def styled() -> Any:
    """The style of all charts, for a `with`."""
    return rc_context(STYLE)  # type: ignore[arg-type]


def log_limits(values: Sequence[float], pad: float = 1.6) -> tuple[float, float]:
    """Axis limits around positive values with room on both sides, at least a decade wide."""
    known = [v for v in values if v > 0 and math.isfinite(v)]
    low, high = (min(known), max(known)) if known else (1.0, 10.0)
    low, high = low / pad, high * pad
    missing = 10 / (high / low)
    if missing > 1:
        low, high = low / math.sqrt(missing), high * math.sqrt(missing)
    return low, high


def decade_axis(axis: Any, unit: str, limits: tuple[float, float]) -> None:
    """Ticks at decades with SI prefixes, at 2 and 5 too where the axis is short."""
    low, high = limits
    decades = math.log10(high / low)
    subs = (1.0, 2.0, 5.0) if decades < 1.7 else (1.0, 3.0) if decades < 2.6 else (1.0,)
    axis.set_major_locator(LogLocator(base=10, subs=subs, numticks=30))
    axis.set_minor_locator(LogLocator(base=10, subs=tuple(range(2, 10)), numticks=60))
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value, unit)))


_PREFIX = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}


def short_number(value: float, unit: str = "") -> str:
    """A tick's text.

    >>> short_number(3e9, "B"), short_number(2e-5, "s"), short_number(0.5), short_number(3e10)
    ('3 GB', '20 µs', '0.5', '30 G')
    """
    if value <= 0 or not math.isfinite(value):
        return ""
    power = math.floor(math.log10(value) + 1e-9)
    third = max(-9, min(18, 3 * (power // 3)))
    if not unit and -3 <= power < 4:
        third = 0
    return f"{value / 10.0**third:.4g} {_PREFIX[third]}{unit}".strip()


def _add_legend(figure: Figure, legend: Legend) -> None:
    """The legend under the chart, where it hides no point; a column per group."""
    groups = [group for group in legend if group]
    if not groups:
        return
    rows = max(len(group) for group in groups)
    # Matplotlib fills columns from the top: blanks keep every group in its own.
    handles = [
        _handle(group[row]) if row < len(group) else Line2D([], [], ls="", label=" ")
        for group in groups
        for row in range(rows)
    ]
    figure.legend(
        handles=handles, loc="lower center", ncols=len(groups), frameon=False, handletextpad=0.4,
        columnspacing=1.2, borderpad=0.1, borderaxespad=0.2, labelspacing=0.35,
    )  # fmt: skip


def _handle(entry: LegendEntry) -> Line2D:
    look = entry.look
    if entry.dashed:
        return Line2D([], [], ls=(0, (4, 2.5)), lw=0.8, color=look.colour, label=entry.text)
    inside = look.colour if look.filled else "white"
    return Line2D(
        [], [], ls="", marker=look.marker, ms=entry.size, mew=0.8, mfc=inside, mec=look.colour,
        label=entry.text,
    )  # fmt: skip


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


# A picture inside a page: SVG whose colours are the page's, so that it can be light or dark.

# Colours that all charts share, and what a page calls them.
THEME = {
    "#ffffff": "var(--paper)",
    "#000000": "var(--ink)",
    "#202020": "var(--ink)",
    "#7a7a7a": "var(--soft)",
    "#d5d5d5": "var(--line)",
    **{look.print.lower(): f"var(--{kind})" for kind, look in LIMITERS.items()},
}


def themed_svg(figure: Figure, name: str, description: str) -> str:
    """The figure as an SVG element of a page; `name` keeps its ids apart from other pictures'."""
    from markupsafe import escape

    target = io.StringIO()
    with styled():
        figure.savefig(target, format="svg", metadata={"Date": None}, transparent=True)
    svg = target.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    # Without this, texts have the browser's default colour whatever the page's theme is.
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(description)}" ', 1)
    for colour, variable in THEME.items():
        svg = re.sub(re.escape(colour) + r"(?![0-9a-f])", variable, svg, flags=re.I)
    return _own_ids(svg, name)


def _own_ids(svg: str, name: str) -> str:
    """Ids of one picture that no other picture of the page has."""
    svg = re.sub(r'(\bid=")', rf"\1{name}-", svg)
    svg = re.sub(r"(url\(#)", rf"\1{name}-", svg)
    return re.sub(r'(href="#)', rf"\1{name}-", svg)
