"""Marks of units on a chart, and the texts beside them: further away, with a line to the symbol."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from timeroof.core.columns import Row
from timeroof.views.pictures.frame import GRID_COLOUR, GUIDE_COLOUR, LegendEntry, Look, Roofs, Unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timeroof.views.pictures import frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SIZE = 4.2


def mark(axes: Axes, x: float, y: float, look: Look, *, size: float = SIZE) -> None:
    """One unit's symbol: open or filled, with an edge of its own colour."""
    inside = look.colour if look.filled else "white"
    axes.plot(
        [x], [y], ls="", marker=look.marker, ms=size, mew=0.8, mfc=inside, mec=look.colour,
        zorder=4, clip_on=False,
    )  # fmt: skip


def mark_on_axis(axes: Axes, x: float, look: Look) -> None:
    """A unit without FLOPs, clamped to the lower axis with a symbol of its own."""
    inside = look.colour if look.filled else "white"
    axes.plot(
        [x], [0], ls="", marker=7, ms=6, mew=0.8, mfc=inside, mec=look.colour,
        transform=axes.get_xaxis_transform(), zorder=5, clip_on=False,
    )  # fmt: skip


def say_what_is_missing(axes: Axes, units: Sequence[Unit], level: str) -> None:
    """A line on the chart for units without FLOPs, and for units that have no place on it."""
    zero = sum(u.flops == 0 and u.bytes_at(level) > 0 for u in units)
    none = sum(u.bytes_at(level) == 0 for u in units)
    unknown = sum(math.isnan(u.bytes_at(level)) for u in units)
    texts = [
        f"▼ on the axis: {zero} without FLOPs" if zero else "",
        f"not drawn: {none} without bytes at {level.upper()}" if none else "",
        f"not drawn: {unknown} without known bytes" if unknown else "",
    ]
    corner_note(axes, [text for text in texts if text])


def corner_note(axes: Axes, lines: Sequence[str]) -> None:
    """Small words in the lower right corner of a chart."""
    if lines:
        axes.text(
            0.985, 0.015, "\n".join(lines), transform=axes.transAxes, ha="right", va="bottom",
            fontsize=FONT_SIZE, color=GUIDE_COLOUR, zorder=6,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
        )  # fmt: skip


# Texts along lines, placed where they hide no symbol and no other text.

Point = tuple[float, float]
Points = NDArray[np.float64]

FONT_SIZE = 5.5
# Width of a letter over the font's size, and the room a symbol takes, in points.
LETTER = 0.56
SYMBOL = 3.5
# Where along a line a text may stand, best first: near its upper end, then further down.
PLACES = (0.97, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)


class LabelPlacer:
    """Places texts along lines of one chart, each clear of symbols and of earlier texts."""

    def __init__(self, axes: Axes, symbols: Sequence[Point]) -> None:
        self._axes = axes
        known = [p for p in symbols if p[0] > 0 and p[1] > 0]
        self._taken: Points = axes.transData.transform(known) if known else np.empty((0, 2))
        self._scale = axes.figure.dpi / 72.0

    def write(self, start: Point, end: Point, text: str, places: Sequence[float] = PLACES) -> bool:
        """Write along the line from start to end; leave it out where there is no room."""
        first, last = self._axes.transData.transform([start, end])
        line = last - first
        length = float(np.hypot(*line))
        wide = len(text) * LETTER * FONT_SIZE * self._scale
        if length < wide * 1.1:
            return False
        along = line / length
        for place in places:
            for side in (1, -1):
                tail = first + along * max(place * length - wide, 0.02 * length)
                points = self._box_points(tail, along, side, wide)
                if self._free(points):
                    self._put(points, along, text)
                    return True
        return False

    def _box_points(self, tail: Points, along: Points, side: int, wide: float) -> Points:
        across = np.array([-along[1], along[0]]) * side * 0.65 * FONT_SIZE * self._scale
        steps = np.linspace(0.0, wide, max(3, int(wide // 6)))
        points: Points = tail + across + steps[:, None] * along
        return points

    def _free(self, points: Points) -> bool:
        frame = self._axes.get_window_extent()
        margin = 0.6 * FONT_SIZE * self._scale
        low = (frame.x0 + margin, frame.y0 + margin)
        high = (frame.x1 - margin, frame.y1 - margin)
        if (points < low).any() or (points > high).any():
            return False
        if not len(self._taken):
            return True
        gaps = np.hypot(*(points[:, None, :] - self._taken[None, :, :]).transpose(2, 0, 1))
        return bool(gaps.min() > (0.5 * FONT_SIZE + SYMBOL) * self._scale)

    def _put(self, points: Points, along: Points, text: str) -> None:
        middle = self._axes.transData.inverted().transform(points.mean(axis=0))
        self._axes.text(
            float(middle[0]), float(middle[1]), text, fontsize=FONT_SIZE, color=GUIDE_COLOUR,
            rotation=math.degrees(math.atan2(along[1], along[0])), rotation_mode="anchor",
            va="center", ha="center", zorder=2,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.3},
        )  # fmt: skip
        self._taken = np.vstack([self._taken, points])


# Lines that guide the eye: constant intensity, machine balance, overhead boxes, equal times.


def intensity_diagonals(axes: Axes, balance: float, labels: LabelPlacer) -> None:
    """Thin lines of constant intensity per decade and a strong one at the machine balance."""
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    if y0 / x1 < balance < y1 / x0:
        _diagonal(axes, balance, GUIDE_COLOUR, 1.1)
        _label(axes, balance, f"balance {balance:.3g} FLOP/B", labels)
    low, high = math.ceil(math.log10(y0 / x1)), math.floor(math.log10(y1 / x0))
    step = max(1, (high - low) // 6)
    for power in range(low, high + 1, step):
        if abs(power - math.log10(balance)) > 0.3:
            _diagonal(axes, 10.0**power, GRID_COLOUR, 0.6)
            _label(axes, 10.0**power, _power_text(power), labels)


def _power_text(power: int) -> str:
    """A power of ten as a person writes it.

    >>> _power_text(-2), _power_text(3), _power_text(6)
    ('0.01', '1000', '10⁶')
    """
    if -4 < power < 5:
        return f"{10.0**power:g}"
    return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def balance_diagonal(axes: Axes) -> None:
    """The line of equal compute and bandwidth time."""
    _diagonal(axes, 1.0, GUIDE_COLOUR, 1.1)


def _span(axes: Axes, slope: float) -> tuple[float, float]:
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    return max(x0, y0 / slope), min(x1, y1 / slope)


def _diagonal(axes: Axes, slope: float, colour: str, width: float) -> None:
    left, right = _span(axes, slope)
    if right > left:
        axes.plot([left, right], [slope * left, slope * right], color=colour, lw=width, zorder=0.5)


def _label(axes: Axes, slope: float, text: str, labels: LabelPlacer) -> None:
    left, right = _span(axes, slope)
    if right > left:
        labels.write((left, slope * left), (right, slope * right), text)


def overhead_boxes(axes: Axes, units: Iterable[Unit], roofs: Roofs, *, seconds: bool) -> None:
    """Dashed boxes that a unit's launches fill, one per colour and number of launches."""
    if roofs.launch_s is None:
        return
    drawn = {(u.look.colour, u.launches) for u in units if u.launches > 0}
    (x0, _), (y0, _) = axes.get_xlim(), axes.get_ylim()
    for colour, launches in sorted(drawn):
        time_s = launches * roofs.launch_s
        x, y = (
            (time_s, time_s)
            if seconds
            else (time_s * roofs.bytes_per_s, time_s * roofs.flops_per_s)
        )
        axes.plot(
            [x0, x, x], [y, y, y0], ls=(0, (4, 2.5)), lw=0.7, color=colour, alpha=0.75, zorder=1
        )


def equal_time_corners(axes: Axes) -> None:
    """L-shaped lines of equal run time, one per decade."""
    low = min(axes.get_xlim()[0], axes.get_ylim()[0])
    high = max(axes.get_xlim()[1], axes.get_ylim()[1])
    for power in np.arange(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1):
        t = 10.0**power
        ends = ([axes.get_xlim()[0], t, t], [t, t, axes.get_ylim()[0]])
        axes.plot(*ends, color=GRID_COLOUR, lw=0.6, zorder=0.5)


# What charts of measured series share: a judged row as a unit, and the parts of their legends.

GREY = "#555555"


def row_unit(row: Row, look: Look) -> Unit:
    """A row of judged rows as a unit of a chart; an amount that is not known is NaN.

    >>> row_unit({"name": "a", "time_s": 1.0, "launches": 2.0, "owed_flops": 8.0, "byte/dram": 4.0},
    ...          Look()).bytes_at("dram")
    4.0
    """
    traffic = {k.removeprefix("byte/"): v for k, v in row.items() if k.startswith("byte/")}
    return Unit(
        name=row["name"],
        flops=math.nan if row["owed_flops"] is None else row["owed_flops"],
        bytes_by_level={level: float(v) for level, v in traffic.items() if v is not None},
        time_s=row["time_s"],
        launches=row["launches"] or 0.0,
        look=look,
    )


def box_entry() -> LegendEntry:
    """The dashed box that launches fill."""
    return LegendEntry("launch box", Look(GREY, "o"), dashed=True)


def size_entries() -> list[LegendEntry]:
    """Work and time of the combined chart, told by size."""
    return [
        LegendEntry("small: work", Look(GREY, "o"), size=SIZE - 1.2),
        LegendEntry("large: time", Look(GREY, "o"), size=SIZE + 0.6),
    ]


def value_text(parameter: str, value: object) -> str:
    """A parameter's value on a chart.

    >>> value_text("kernel", 3), value_text("batch", 16)
    ('3x3', '16')
    """
    return f"{value}x{value}" if parameter == "kernel" else str(value)


Value = TypeVar("Value")


def value_entries(word: str, parameter: str, markers: Mapping[Value, str]) -> list[LegendEntry]:
    """Values of a swept parameter, told by marker."""
    return [
        LegendEntry(f"{word} {value_text(parameter, value)}", Look(GREY, marker))
        for value, marker in markers.items()
    ]


FONT = 6.2
LINE = 7.8
# Width of a letter over the size of its font.
LABEL_LETTER = 0.65
DISTANCES = (3.0, 9.0, 18.0, 30.0, 45.0, 65.0, 90.0, 120.0)
SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
# Further away than this a line leads to the symbol.
NEAR = 10.0

# A halo by path effects would turn letters of an SVG into outlines.
BEHIND = {"facecolor": "white", "edgecolor": "none", "alpha": 0.6, "pad": 0.2}

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Label:
    """A text that wants to stand near a place of the data; `radius` is its symbol's, in points."""

    at: tuple[float, float]
    radius: float
    lines: Sequence[str]
    callout: bool = False
    colour: str = frame.TEXT_COLOUR


def place_labels(
    axes: Axes, labels: Sequence[Label], symbols: Sequence[tuple[tuple[float, float], float]]
) -> None:
    """Write all labels, the first ones nearest; none covers a symbol or another where it can.

    Symbols are places of the data with their radius in points.
    """
    scale = 72 / axes.figure.dpi
    pixel = axes.transData.transform
    extent = axes.get_window_extent()
    area = tuple(v * scale for v in (extent.x0 + 4, extent.y0 + 4, extent.x1 - 4, extent.y1 - 4))
    taken = []
    for at, radius in symbols:
        if min(at) > 0:
            x, y = pixel(at) * scale
            taken.append((x - radius, y - radius, x + radius, y + radius))
    back = axes.transData.inverted().transform
    for label in labels:
        x, y = pixel(label.at) * scale
        box, distance = _best(label, (x, y), taken, area)
        taken.append(box)
        left, bottom, right, top = box
        if label.callout or distance >= NEAR:
            end = (min(max(x, left), right), min(max(y, bottom), top))
            axes.annotate(
                "", label.at, xytext=tuple(back([v / scale for v in end])), zorder=6,
                arrowprops={
                    "arrowstyle": "-|>" if label.callout else "-", "lw": 0.6, "shrinkA": 0,
                    "shrinkB": 0, "mutation_scale": 6,
                    "color": frame.TEXT_COLOUR if label.callout else frame.GUIDE_COLOUR,
                },
            )  # fmt: skip
        for line, text in enumerate(label.lines):
            at_x, at_y = back([v / scale for v in (left, top - LINE * (line + 0.85))])
            axes.text(
                at_x, at_y, text, fontsize=FONT, color=label.colour, zorder=7, va="baseline",
                fontweight="bold" if line == 0 or label.callout else "normal", bbox=BEHIND,
            )  # fmt: skip


def _best(
    label: Label, at: tuple[float, float], taken: Sequence[Box], area: Sequence[float]
) -> tuple[Box, float]:
    """The box that covers least, near ones before far ones; inside of the chart where it can be."""
    wide = max(len(line) for line in label.lines) * LABEL_LETTER * FONT
    high = LINE * len(label.lines)
    best, least, away = _at(at, (1, 0), label.radius + 3, wide, high), math.inf, 3.0
    for distance in DISTANCES:
        for side in SIDES:
            box = _at(at, side, label.radius + distance, wide, high)
            outside = sum(
                max(0.0, area[k] - box[k]) + max(0.0, box[k + 2] - area[k + 2]) for k in (0, 1)
            )
            cost = sum(_overlap(box, other) for other in taken) + 4 * distance + 1e3 * outside
            if cost < least:
                best, least, away = box, cost, distance
    return best, away


def _at(
    at: tuple[float, float], side: tuple[int, int], reach: float, wide: float, high: float
) -> Box:
    slant = 0.75 if side[0] and side[1] else 1.0
    x, y = at[0] + side[0] * reach * slant, at[1] + side[1] * reach * slant
    left = x - (0 if side[0] > 0 else wide if side[0] < 0 else wide / 2)
    bottom = y - (0 if side[1] > 0 else high if side[1] < 0 else high / 2)
    return left, bottom, left + wide, bottom + high


def _overlap(a: Box, b: Box) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
