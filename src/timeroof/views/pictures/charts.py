"""The combined chart: work and time of every unit in one picture with four axes.

With arrows it says where units were, and where they are (or would be).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timeroof.core.units import format_amount, format_rate
from timeroof.views.pictures import frame, marks
from timeroof.views.pictures.frame import Roofs, Unit, drawable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timeroof.views.pictures.marks import LabelPlacer, corner_note, intensity_diagonals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Room for the second axes above and to the right.
MARGINS = frame.Margins(left=0.55, right=0.62, top=0.58)

Place = tuple[float, float]


def chart_points(units: Sequence[Unit], roofs: Roofs) -> list[tuple[Place, Place]]:
    """The two symbols of every unit in bytes and FLOPs: its work, and its time times the roofs."""
    return [
        (
            (unit.bytes_at(roofs.level), unit.flops),
            (bandwidth_s * roofs.bytes_per_s, compute_s * roofs.flops_per_s),
        )
        for unit, (bandwidth_s, compute_s) in zip(units, roofs.time_points_s(units), strict=True)
    ]


def combined_chart(
    units: Sequence[Unit], roofs: Roofs, *, title: str = "", legend: frame.Legend = (),
    size: frame.FigureSize | None = None,
) -> Figure:  # fmt: skip
    """Two symbols per unit on one diagonal: work below, time above; the segment is headroom."""
    with frame.styled():
        figure, axes = frame.new_figure(
            size or frame.FigureSize(height=3.9), title, legend, MARGINS
        )
        shown = [u for u in units if drawable(u, roofs.level)]
        places = chart_points(shown, roofs)
        symbols = [point for pair in places for point in pair]
        work_axes(axes, symbols, shown, roofs)
        second_axes(axes, roofs)
        marks.intensity_diagonals(axes, roofs.balance, marks.LabelPlacer(axes, symbols))
        marks.overhead_boxes(axes, shown, roofs, seconds=False)
        for unit, (work, timed) in zip(shown, places, strict=True):
            _draw(axes, unit, work, timed)
        marks.say_what_is_missing(axes, units, roofs.level)
    return figure


def work_axes(axes: Axes, points: Sequence[Place], units: Sequence[Unit], roofs: Roofs) -> None:
    """Axes of bytes and FLOPs around points and the boxes that launches of units fill."""
    rates = (roofs.bytes_per_s, roofs.flops_per_s)
    _axes_around(axes, points, units, roofs, rates, ("B", ""))
    axes.set_xlabel(f"bytes ({roofs.memory_name})")
    axes.set_ylabel("FLOPs")


def _axes_around(
    axes: Axes, points: Sequence[Place], units: Sequence[Unit], roofs: Roofs,
    rates: Place, names: tuple[str, str],
) -> None:  # fmt: skip
    boxes = [u.launches * (roofs.launch_s or 0) for u in units]
    axes.set_xlim(frame.log_limits([x for x, _ in points] + [b * rates[0] for b in boxes]))
    axes.set_ylim(frame.log_limits([y for _, y in points] + [b * rates[1] for b in boxes]))
    frame.decade_axis(axes.xaxis, names[0], axes.get_xlim())
    frame.decade_axis(axes.yaxis, names[1], axes.get_ylim())


def second_axes(axes: Axes, roofs: Roofs, titles: tuple[str, str] | None = None) -> None:
    """The same points in seconds at the two roofs."""
    across, along = titles or (
        f"bandwidth time at {roofs.memory_name}", f"compute time at {roofs.compute_name}",
    )  # fmt: skip
    beta, peak = roofs.bytes_per_s, roofs.flops_per_s
    top = axes.secondary_xaxis("top", functions=_scaled(beta))
    right = axes.secondary_yaxis("right", functions=_scaled(peak))
    top.set_xlabel(across, labelpad=4)
    right.set_ylabel(along)
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    frame.decade_axis(top.xaxis, "s", (x0 / beta, x1 / beta))
    frame.decade_axis(right.yaxis, "s", (y0 / peak, y1 / peak))


def _scaled(rate: float) -> tuple[Any, Any]:
    """From an amount to its seconds at a rate, and back."""
    return (lambda amount: amount / rate, lambda seconds: seconds * rate)


def _draw(axes: Axes, unit: Unit, work: Place, timed: Place) -> None:
    (bytes_, flops), (x, y) = work, timed
    if flops == 0:
        marks.mark_on_axis(axes, bytes_, unit.look)
        marks.mark_on_axis(axes, x, unit.look)
        axes.plot(
            [bytes_, x], [0, 0], transform=axes.get_xaxis_transform(), color=unit.look.colour,
            lw=1.6, alpha=0.6, clip_on=False, zorder=3,
        )  # fmt: skip
        return
    axes.plot([bytes_, x], [flops, y], color=unit.look.colour, lw=0.9, alpha=0.55, zorder=3)
    marks.mark(axes, bytes_, flops, unit.look, size=marks.SIZE - 1.2)
    marks.mark(axes, x, y, unit.look, size=marks.SIZE + 0.6)


# The complexity plane (work) and the time plane (seconds).


def complexity_plane(
    units: Sequence[Unit], roofs: Roofs, *, title: str = "", legend: frame.Legend = (),
    size: frame.FigureSize | None = None,
) -> Figure:  # fmt: skip
    """Bytes over FLOPs: above the balance diagonal compute limits, below it bandwidth."""
    with frame.styled():
        figure, axes = frame.new_figure(size or frame.FigureSize(), title, legend)
        shown = [u for u in units if drawable(u, roofs.level)]
        work = [(u.bytes_at(roofs.level), u.flops) for u in shown]
        work_axes(axes, work, shown, roofs)
        marks.intensity_diagonals(axes, roofs.balance, marks.LabelPlacer(axes, work))
        marks.overhead_boxes(axes, shown, roofs, seconds=False)
        _mark_all(axes, shown, work)
        marks.say_what_is_missing(axes, units, roofs.level)
    return figure


def _mark_all(axes: Axes, units: Sequence[Unit], points: Sequence[Place]) -> None:
    for unit, (x, y) in zip(units, points, strict=True):
        if unit.flops == 0:
            marks.mark_on_axis(axes, x, unit.look)
        else:
            marks.mark(axes, x, y, unit.look)


def time_plane(
    units: Sequence[Unit], roofs: Roofs, *, title: str = "", legend: frame.Legend = (),
    size: frame.FigureSize | None = None,
) -> Figure:  # fmt: skip
    """Bandwidth time over compute time: corners on the diagonal are equal run times."""
    with frame.styled():
        figure, axes = frame.new_figure(size or frame.FigureSize(), title, legend)
        shown = [u for u in units if drawable(u, roofs.level)]
        points = roofs.time_points_s(shown)
        _axes_around(axes, points, shown, roofs, (1.0, 1.0), ("s", "s"))
        axes.set_xlabel(f"bandwidth time at {roofs.memory_name}")
        axes.set_ylabel(f"compute time at {roofs.compute_name}")
        marks.equal_time_corners(axes)
        marks.balance_diagonal(axes)
        marks.overhead_boxes(axes, shown, roofs, seconds=True)
        _mark_all(axes, shown, points)
        marks.say_what_is_missing(axes, units, roofs.level)
    return figure


# The classic roofline with every memory level and every ceiling.

# A memory roof is named near its lower end, where the roofs lie apart.
COMPUTE_PLACES = (0.98, 0.92, 0.85, 0.78)
MEMORY_PLACES = (0.02, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


def hierarchical_roofline(
    units: Sequence[Unit],
    compute_roofs: dict[str, float],
    memory_roofs: dict[str, float],
    *,
    levels: Sequence[str] = ("dram",),
    title: str = "",
    legend: frame.Legend = (),
    size: frame.FigureSize | None = None,
    all_slopes: bool = False,
) -> Figure:
    """FLOP/s over intensity, one point per unit and level, all ceilings drawn and named.

    Units without FLOPs have no place here; a line on the chart counts them. `all_slopes` reaches
    far enough left that every memory roof has a slope in view.
    """
    with frame.styled():
        figure, axes = frame.new_figure(size or frame.FigureSize(), title, legend)
        shown = [u for u in units if u.flops > 0 and u.time_s > 0]
        points = [
            (u.flops / u.bytes_at(level), u.flops / u.time_s, u)
            for u in shown
            for level in levels
            if u.bytes_at(level) > 0
        ]
        seen = [(x, y) for x, y, _ in points]
        if all_slopes:
            ridge = max(compute_roofs.values()) / max(memory_roofs.values())
            seen.append((ridge / 3, max(compute_roofs.values()) / 3))
        top = max(compute_roofs.values())
        ridge = top / min(memory_roofs.values())
        axes.set_xlim(frame.log_limits([x for x, _ in seen] + [ridge * 6], pad=1.8))
        axes.set_ylim(frame.log_limits([y for _, y in seen] + [top * 1.3], pad=1.8))
        axes.set_xlabel("arithmetic intensity (FLOP/byte)")
        axes.set_ylabel("FLOP/s")
        frame.decade_axis(axes.xaxis, "", axes.get_xlim())
        frame.decade_axis(axes.yaxis, "", axes.get_ylim())
        labels = marks.LabelPlacer(axes, [(x, y) for x, y, _ in points])
        _draw_compute_roofs(axes, compute_roofs, max(memory_roofs.values()), labels)
        _draw_memory_roofs(axes, memory_roofs, max(compute_roofs.values()), labels)
        for x, y, unit in points:
            marks.mark(axes, x, y, unit.look)
        missing = len(units) - len(shown)
        marks.corner_note(axes, [f"not drawn: {missing} without FLOPs"] if missing else [])
    return figure


def _draw_compute_roofs(
    axes: Axes, roofs: dict[str, float], fastest: float, labels: marks.LabelPlacer
) -> None:
    (x0, x1), (y0, _) = axes.get_xlim(), axes.get_ylim()
    for name, rate in sorted(roofs.items(), key=lambda item: -item[1]):
        start = max(x0, rate / fastest)
        if start < x1 and rate > y0:
            axes.plot([start, x1], [rate, rate], color=frame.GUIDE_COLOUR, lw=0.9, zorder=1)
            # The text may reach further left than a short roof does.
            text = f"{name} {format_rate(f'flop/{name}', rate)}"
            labels.write((x0, rate), (x1, rate), text, places=COMPUTE_PLACES)


def _draw_memory_roofs(
    axes: Axes, roofs: dict[str, float], top: float, labels: marks.LabelPlacer
) -> None:
    (x0, x1), (y0, _) = axes.get_xlim(), axes.get_ylim()
    for name, rate in roofs.items():
        start, end = max(x0, y0 / rate), min(x1, top / rate)
        if end > start:
            line = ((start, rate * start), (end, rate * end))
            axes.plot(*zip(*line, strict=True), color=frame.GUIDE_COLOUR, lw=0.9, zorder=1)
            labels.write(*line, f"{name} {format_amount(rate, 'B/s')}", places=MEMORY_PLACES)


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
            _draw_move(axes, move, roofs, arrows.index(move) + 1 if move in arrows else None)
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


def _draw_move(axes: Axes, move: Move, roofs: Roofs, number: int | None) -> None:
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
