"""Texts along lines, placed where they hide no symbol and no other text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from timeroof.views.pictures.frame import GUIDE_COLOUR

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

Point = tuple[float, float]

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
        self._taken: NDArray[np.float64] = (
            axes.transData.transform(known) if known else np.empty((0, 2))
        )
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
                if self._free(tail, along, side, wide):
                    self._put(tail, along, side, wide, text)
                    return True
        return False

    def _box_points(
        self, tail: NDArray[np.float64], along: NDArray[np.float64], side: int, wide: float
    ) -> NDArray[np.float64]:
        across = np.array([-along[1], along[0]]) * side * 0.65 * FONT_SIZE * self._scale
        steps = np.linspace(0.0, wide, max(3, int(wide // 6)))
        points: NDArray[np.float64] = tail + across + steps[:, None] * along
        return points

    def _free(
        self, tail: NDArray[np.float64], along: NDArray[np.float64], side: int, wide: float
    ) -> bool:
        points = self._box_points(tail, along, side, wide)
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

    def _put(
        self,
        tail: NDArray[np.float64],
        along: NDArray[np.float64],
        side: int,
        wide: float,
        text: str,
    ) -> None:
        points = self._box_points(tail, along, side, wide)
        middle = self._axes.transData.inverted().transform(points.mean(axis=0))
        self._axes.text(
            float(middle[0]),
            float(middle[1]),
            text,
            rotation=math.degrees(math.atan2(along[1], along[0])),
            rotation_mode="anchor",
            fontsize=FONT_SIZE,
            color=GUIDE_COLOUR,
            va="center",
            ha="center",
            zorder=2,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.3},
        )
        self._taken = np.vstack([self._taken, points])
