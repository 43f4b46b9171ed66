"""Marks of units on a chart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from timeroof.views.pictures.frame import GUIDE_COLOUR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from timeroof.views.pictures.points import Look, Unit

SIZE = 4.2


def mark(axes: Axes, x: float, y: float, look: Look, *, size: float = SIZE) -> None:
    """One unit's symbol: open or filled, with an edge of its own colour."""
    axes.plot(
        [x],
        [y],
        ls="",
        marker=look.marker,
        ms=size,
        mew=0.8,
        mfc=look.colour if look.filled else "white",
        mec=look.colour,
        zorder=4,
        clip_on=False,
    )


def mark_on_axis(axes: Axes, x: float, look: Look) -> None:
    """A unit without FLOPs, clamped to the lower axis with a symbol of its own."""
    axes.plot(
        [x],
        [0],
        transform=axes.get_xaxis_transform(),
        ls="",
        marker=7,
        ms=6,
        mfc=look.colour if look.filled else "white",
        mec=look.colour,
        mew=0.8,
        zorder=5,
        clip_on=False,
    )


def say_what_is_missing(axes: Axes, units: Sequence[Unit], level: str) -> None:
    """A line on the chart for units without FLOPs, and for units that have no place on it."""
    zero = sum(u.flops == 0 and u.bytes_at(level) > 0 for u in units)
    none = sum(u.bytes_at(level) == 0 for u in units)
    unknown = sum(math.isnan(u.bytes_at(level)) for u in units)
    texts = []
    if zero:
        texts.append(f"▼ on the axis: {zero} without FLOPs")
    if none:
        texts.append(f"not drawn: {none} without bytes at {level.upper()}")
    if unknown:
        texts.append(f"not drawn: {unknown} without known bytes")
    if texts:
        axes.text(
            0.985,
            0.015,
            "\n".join(texts),
            transform=axes.transAxes,
            ha="right",
            va="bottom",
            fontsize=5.5,
            color=GUIDE_COLOUR,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
            zorder=6,
        )
