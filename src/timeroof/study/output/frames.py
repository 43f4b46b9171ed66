"""Frames of charts with a line of text per row: room for words on the left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from timeroof.views.pictures.frame import (
    GUIDE_COLOUR,
    TEXT_COLOUR,
    FigureSize,
    Legend,
    Margins,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 5.0
ROW = 0.3
LEFT = 1.95


def plain_axes(
    title: str, rows: int, legend: Legend, *, right: float = 0.15
) -> tuple[Figure, Axes]:
    """Linear axes with `rows` lines, the first on top."""
    height = 1.0 + ROW * max(rows, 1)
    margins = Margins(left=LEFT, right=right, top=0.3, bottom=0.46)
    figure, axes = new_figure(FigureSize(width=WIDTH, height=height), title, legend, margins)
    axes.set_xscale("linear")
    axes.set_yscale("linear")
    axes.set_ylim(rows - 0.5, -0.5)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="x", color="#ECECEC", lw=0.6, zorder=0)
    axes.set_axisbelow(True)
    return figure, axes


def row_labels(axes: Axes, names: Sequence[tuple[str, str]]) -> None:
    """Two lines of text left of every row: what, and of which case."""
    axes.set_yticks([])
    for place, (what, case) in enumerate(names):
        where: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "ha": "right"}
        axes.text(-0.015, place - 0.02, what, va="bottom", fontsize=6.5, color=TEXT_COLOUR, **where)
        axes.text(-0.015, place + 0.06, case, va="top", fontsize=5, color=GUIDE_COLOUR, **where)
