"""The combined chart: work and time of every unit in one picture with four axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timeroof.core.units import format_amount, format_rate
from timeroof.views.pictures import frame, marks
from timeroof.views.pictures.points import Roofs, Unit, drawable

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
    units: Sequence[Unit],
    roofs: Roofs,
    *,
    title: str = "",
    legend: frame.Legend = (),
    size: frame.FigureSize | None = None,
) -> Figure:
    """Two symbols per unit on one diagonal: work below, time above; the segment is headroom."""
    with frame.styled():
        figure, axes = frame.new_figure(
            size or frame.FigureSize(height=3.9), title, legend, MARGINS
        )
        shown = [u for u in units if drawable(u, roofs.level)]
        _limits(axes, shown, roofs)
        axes.set_xlabel(f"bytes ({roofs.memory_name})")
        axes.set_ylabel("FLOPs")
        frame.decade_axis(axes.xaxis, "B", axes.get_xlim())
        frame.decade_axis(axes.yaxis, "", axes.get_ylim())
        _second_axes(axes, roofs)
        places = chart_points(shown, roofs)
        symbols = [point for pair in places for point in pair]
        marks.intensity_diagonals(axes, roofs.balance, marks.LabelPlacer(axes, symbols))
        marks.overhead_boxes(axes, shown, roofs, seconds=False)
        for unit, (work, timed) in zip(shown, places, strict=True):
            _draw(axes, unit, work, timed)
        marks.say_what_is_missing(axes, units, roofs.level)
    return figure


def _limits(axes: Axes, units: Sequence[Unit], roofs: Roofs) -> None:
    points = [point for pair in chart_points(units, roofs) for point in pair]
    boxes = [u.launches * (roofs.launch_s or 0) for u in units]
    axes.set_xlim(frame.log_limits([x for x, _ in points] + [b * roofs.bytes_per_s for b in boxes]))
    axes.set_ylim(frame.log_limits([y for _, y in points] + [b * roofs.flops_per_s for b in boxes]))


def _second_axes(axes: Axes, roofs: Roofs) -> None:
    beta, peak = roofs.bytes_per_s, roofs.flops_per_s
    top = axes.secondary_xaxis("top", functions=_scaled(beta))
    right = axes.secondary_yaxis("right", functions=_scaled(peak))
    top.set_xlabel(f"bandwidth time at {roofs.memory_name}", labelpad=4)
    right.set_ylabel(f"compute time at {roofs.compute_name}")
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
    units: Sequence[Unit],
    roofs: Roofs,
    *,
    title: str = "",
    legend: frame.Legend = (),
    size: frame.FigureSize | None = None,
) -> Figure:
    """Bytes over FLOPs: above the balance diagonal compute limits, below it bandwidth."""
    with frame.styled():
        figure, axes = frame.new_figure(size or frame.FigureSize(), title, legend)
        shown = [u for u in units if drawable(u, roofs.level)]
        boxes = [u.launches * (roofs.launch_s or 0) for u in shown]
        axes.set_xlim(
            frame.log_limits(
                [u.bytes_at(roofs.level) for u in shown] + [b * roofs.bytes_per_s for b in boxes]
            )
        )
        axes.set_ylim(
            frame.log_limits([u.flops for u in shown] + [b * roofs.flops_per_s for b in boxes])
        )
        axes.set_xlabel(f"bytes ({roofs.memory_name})")
        axes.set_ylabel("FLOPs")
        frame.decade_axis(axes.xaxis, "B", axes.get_xlim())
        frame.decade_axis(axes.yaxis, "", axes.get_ylim())
        work = [(u.bytes_at(roofs.level), u.flops) for u in shown]
        marks.intensity_diagonals(axes, roofs.balance, marks.LabelPlacer(axes, work))
        marks.overhead_boxes(axes, shown, roofs, seconds=False)
        for unit in shown:
            if unit.flops == 0:
                marks.mark_on_axis(axes, unit.bytes_at(roofs.level), unit.look)
            else:
                marks.mark(axes, unit.bytes_at(roofs.level), unit.flops, unit.look)
        marks.say_what_is_missing(axes, units, roofs.level)
    return figure


def time_plane(
    units: Sequence[Unit],
    roofs: Roofs,
    *,
    title: str = "",
    legend: frame.Legend = (),
    size: frame.FigureSize | None = None,
) -> Figure:
    """Bandwidth time over compute time: corners on the diagonal are equal run times."""
    with frame.styled():
        figure, axes = frame.new_figure(size or frame.FigureSize(), title, legend)
        shown = [u for u in units if drawable(u, roofs.level)]
        points = roofs.time_points_s(shown)
        boxes = [u.launches * (roofs.launch_s or 0) for u in shown]
        axes.set_xlim(frame.log_limits([x for x, _ in points] + boxes))
        axes.set_ylim(frame.log_limits([y for _, y in points] + boxes))
        axes.set_xlabel(f"bandwidth time at {roofs.memory_name}")
        axes.set_ylabel(f"compute time at {roofs.compute_name}")
        frame.decade_axis(axes.xaxis, "s", axes.get_xlim())
        frame.decade_axis(axes.yaxis, "s", axes.get_ylim())
        marks.equal_time_corners(axes)
        marks.balance_diagonal(axes)
        marks.overhead_boxes(axes, shown, roofs, seconds=True)
        for unit, (x, y) in zip(shown, points, strict=True):
            if unit.flops == 0:
                marks.mark_on_axis(axes, x, unit.look)
            else:
                marks.mark(axes, x, y, unit.look)
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
        _hierarchical_limits(axes, seen, compute_roofs, memory_roofs)
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


def _hierarchical_limits(
    axes: Axes,
    points: Sequence[tuple[float, float]],
    compute_roofs: dict[str, float],
    memory_roofs: dict[str, float],
) -> None:
    top = max(compute_roofs.values())
    ridges = [top / max(memory_roofs.values()), top / min(memory_roofs.values())]
    axes.set_xlim(frame.log_limits([x for x, _ in points] + [ridges[1] * 6], pad=1.8))
    axes.set_ylim(frame.log_limits([y for _, y in points] + [top * 1.3], pad=1.8))


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
