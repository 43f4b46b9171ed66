"""The complexity plane (work) and the time plane (seconds)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timeroof.views.pictures.frame import (
    FigureSize,
    Legend,
    decade_axis,
    log_limits,
    new_figure,
    styled,
)
from timeroof.views.pictures.guides import (
    balance_diagonal,
    equal_time_corners,
    intensity_diagonals,
    overhead_boxes,
)
from timeroof.views.pictures.labels import LabelPlacer
from timeroof.views.pictures.marks import mark, mark_on_axis, say_what_is_missing
from timeroof.views.pictures.points import Roofs, Unit, drawable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure


def complexity_plane(
    units: Sequence[Unit],
    roofs: Roofs,
    *,
    title: str = "",
    legend: Legend = (),
    size: FigureSize | None = None,
) -> Figure:
    """Bytes over FLOPs: above the balance diagonal compute limits, below it bandwidth."""
    with styled():
        figure, axes = new_figure(size or FigureSize(), title, legend)
        shown = [u for u in units if drawable(u, roofs.level)]
        boxes = [u.launches * (roofs.launch_s or 0) for u in shown]
        axes.set_xlim(
            log_limits(
                [u.bytes_at(roofs.level) for u in shown] + [b * roofs.bytes_per_s for b in boxes]
            )
        )
        axes.set_ylim(log_limits([u.flops for u in shown] + [b * roofs.flops_per_s for b in boxes]))
        axes.set_xlabel(f"bytes ({roofs.memory_name})")
        axes.set_ylabel("FLOPs")
        decade_axis(axes.xaxis, "B", axes.get_xlim())
        decade_axis(axes.yaxis, "", axes.get_ylim())
        work = [(u.bytes_at(roofs.level), u.flops) for u in shown]
        intensity_diagonals(axes, roofs.balance, LabelPlacer(axes, work))
        overhead_boxes(axes, shown, roofs, seconds=False)
        for unit in shown:
            if unit.flops == 0:
                mark_on_axis(axes, unit.bytes_at(roofs.level), unit.look)
            else:
                mark(axes, unit.bytes_at(roofs.level), unit.flops, unit.look)
        say_what_is_missing(axes, units, roofs.level)
    return figure


def time_plane(
    units: Sequence[Unit],
    roofs: Roofs,
    *,
    title: str = "",
    legend: Legend = (),
    size: FigureSize | None = None,
) -> Figure:
    """Bandwidth time over compute time: corners on the diagonal are equal run times."""
    with styled():
        figure, axes = new_figure(size or FigureSize(), title, legend)
        shown = [u for u in units if drawable(u, roofs.level)]
        points = [roofs.time_point_s(u) for u in shown]
        boxes = [u.launches * (roofs.launch_s or 0) for u in shown]
        axes.set_xlim(log_limits([x for x, _ in points] + boxes))
        axes.set_ylim(log_limits([y for _, y in points] + boxes))
        axes.set_xlabel(f"bandwidth time at {roofs.memory_name}")
        axes.set_ylabel(f"compute time at {roofs.compute_name}")
        decade_axis(axes.xaxis, "s", axes.get_xlim())
        decade_axis(axes.yaxis, "s", axes.get_ylim())
        equal_time_corners(axes)
        balance_diagonal(axes)
        overhead_boxes(axes, shown, roofs, seconds=True)
        for unit, (x, y) in zip(shown, points, strict=True):
            if unit.flops == 0:
                mark_on_axis(axes, x, unit.look)
            else:
                mark(axes, x, y, unit.look)
        say_what_is_missing(axes, units, roofs.level)
    return figure
