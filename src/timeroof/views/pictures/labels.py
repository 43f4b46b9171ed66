"""Texts beside symbols of a picture: each is placed, further away with a line to its symbol."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timeroof.views.pictures import frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FONT = 6.2
LINE = 7.8
# Width of a letter over the size of its font.
LETTER = 0.65
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
    wide = max(len(line) for line in label.lines) * LETTER * FONT
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
