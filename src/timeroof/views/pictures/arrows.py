"""The combined chart with arrows: where units were, and where they are (or would be)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timeroof.views.pictures import frame
from timeroof.views.pictures.charts import MARGINS, chart_points, second_axes, work_axes
from timeroof.views.pictures.marks import LabelPlacer, corner_note, intensity_diagonals
from timeroof.views.pictures.points import Roofs, Unit, drawable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FASTER, SLOWER, SAME = "#009E73", "#D55E00", "#8A8A8A"
# A time that moves by less than this share has not moved.
UNCHANGED = 0.01
# More arrows than this cross one another; more symbols hide one another.
MOST_ARROWS, MOST_UNITS = 8, 60
SIZE = frame.FigureSize(width=7.0, height=5.6)
KEY_ROW = 0.15
KEY_COLUMNS = 2
NUMBER_SIZE = 7.0


@dataclass(frozen=True)
class Move:
    """A unit before and after, and what the key under the chart says of it."""

    before: Unit
    after: Unit
    text: str
    arrow: bool = True


def arrow_chart(
    moves: Sequence[Move], roofs: Roofs, *, title: str = "", notes: Sequence[str] = ()
) -> Figure:
    """Time points before (open) and after (filled) in the combined chart, joined by arrows.

    The axes' seconds are those of one machine, so that times of both sides can be read off.
    Arrows are numbered; the key below names them.
    """
    shown = [m for m in moves if all(drawable(u, roofs.level) for u in (m.before, m.after))]
    shown = shown[:MOST_UNITS]
    arrows = [m for m in shown if m.arrow][:MOST_ARROWS]
    rows = math.ceil(len(arrows) / KEY_COLUMNS)
    margins = frame.Margins(
        left=0.72, right=0.78, top=MARGINS.top, bottom=MARGINS.bottom + 0.2 + KEY_ROW * rows
    )
    with frame.styled():
        figure, axes = frame.new_figure(SIZE, title, (), margins)
        units = [u for m in shown for u in (m.before, m.after)]
        points = [point for pair in chart_points(units, roofs) for point in pair]
        work_axes(axes, points, units, roofs)
        second_axes(axes, roofs)
        places = [_place(axes, u, roofs) for u in units]
        intensity_diagonals(axes, roofs.balance, LabelPlacer(axes, places))
        for move in shown:
            _draw(axes, move, roofs, arrows.index(move) + 1 if move in arrows else None)
        _key(figure, arrows)
        corner_note(axes, [*_not_drawn(moves, shown), *notes])
    return figure


def colour_of(move: Move) -> str:
    """Green where it got faster, vermilion where slower, grey where nothing is known to change."""
    after, before = move.after.time_s, move.before.time_s
    if not move.arrow or abs(after - before) <= UNCHANGED * before:
        return SAME
    return FASTER if move.after.time_s < move.before.time_s else SLOWER


def _not_drawn(moves: Sequence[Move], shown: Sequence[Move]) -> list[str]:
    lost = len(moves) - len(shown)
    if not lost:
        return []
    full = len(shown) == MOST_UNITS
    return [f"not drawn: {lost} {'smaller ones' if full else 'whose work or time is not known'}"]


def _place(axes: Axes, unit: Unit, roofs: Roofs) -> tuple[float, float]:
    """The time point of a unit; one without FLOPs stands on the lower axis."""
    [(_, (x, y))] = chart_points([unit], roofs)
    return x, y if unit.flops > 0 else axes.get_ylim()[0]


def _draw(axes: Axes, move: Move, roofs: Roofs, number: int | None) -> None:
    colour = colour_of(move)
    start, end = (_place(axes, u, roofs) for u in (move.before, move.after))
    for unit, point in ((move.before, start), (move.after, end)):
        low = (unit.bytes_at(roofs.level), unit.flops or axes.get_ylim()[0])
        axes.plot(*zip(low, point, strict=True), color=colour, lw=0.6, alpha=0.35, zorder=2)
        axes.plot(*low, ls="", marker=".", ms=2.5, color=colour, alpha=0.6, zorder=2, clip_on=False)
    if number is not None:
        axes.annotate(
            "",
            xy=end,
            xytext=start,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.3, "shrinkA": 2.5,
                        "shrinkB": 2.0, "mutation_scale": 8},
            zorder=5,
        )  # fmt: skip
        axes.annotate(
            str(number), end, (5, -8), textcoords="offset points", color=colour,
            fontsize=NUMBER_SIZE, fontweight="bold", zorder=6,
        )  # fmt: skip
    for point, filled in ((start, False), (end, True)):
        axes.plot(
            *point, ls="", marker="o", ms=4.2, mew=0.9, mec=colour,
            mfc=colour if filled else "white", zorder=4, clip_on=False,
        )  # fmt: skip


def _key(figure: Figure, arrows: Sequence[Move]) -> None:
    """What the numbers mean, under the chart."""
    width, height = figure.get_size_inches()
    rows = math.ceil(len(arrows) / KEY_COLUMNS)
    for index, move in enumerate(arrows):
        column, row = divmod(index, rows)
        x = (0.25 + column * (width - 0.4) / KEY_COLUMNS) / width
        y = (0.1 + KEY_ROW * (rows - 1 - row)) / height
        figure.text(x, y, f"{index + 1}", color=colour_of(move), fontsize=7, fontweight="bold")
        figure.text(x + 0.16 / width, y, move.text, fontsize=6.5, color=frame.TEXT_COLOUR)
    if arrows:
        _colour_key(figure, (0.16 + KEY_ROW * rows) / height)


def _colour_key(figure: Figure, y: float) -> None:
    """What symbols and colours mean, in one line of small letters."""
    width = figure.get_size_inches()[0]
    words = "open: before, filled: after; down the diagonal is faster"
    figure.text(0.25 / width, y, words, fontsize=6, color=frame.GUIDE_COLOUR)
    for place, (colour, word) in enumerate(
        ((FASTER, "faster"), (SLOWER, "slower"), (SAME, "unchanged"))
    ):
        figure.text((3.2 + 0.5 * place) / width, y, word, fontsize=6, color=colour)
