"""The combined chart: work and time of every unit in one picture with four axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timeroof.views.pictures.frame import (
    FigureSize,
    Legend,
    Margins,
    decade_axis,
    log_limits,
    new_figure,
    styled,
)
from timeroof.views.pictures.guides import intensity_diagonals, overhead_boxes
from timeroof.views.pictures.labels import LabelPlacer
from timeroof.views.pictures.marks import SIZE, mark, mark_on_axis, say_what_is_missing
from timeroof.views.pictures.points import Roofs, Unit, drawable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Room for the second axes above and to the right.
MARGINS = Margins(left=0.55, right=0.62, top=0.58)


def chart_points(unit: Unit, roofs: Roofs) -> tuple[tuple[float, float], tuple[float, float]]:
    """A unit's two symbols in bytes and FLOPs: its work, and its time times the roofs."""
    bandwidth_s, compute_s = roofs.time_point_s(unit)
    return (
        (unit.bytes_at(roofs.level), unit.flops),
        (bandwidth_s * roofs.bytes_per_s, compute_s * roofs.flops_per_s),
    )


def combined_chart(
    units: Sequence[Unit],
    roofs: Roofs,
    *,
    title: str = "",
    legend: Legend = (),
    size: FigureSize | None = None,
) -> Figure:
    """Two symbols per unit on one diagonal: work below, time above; the segment is headroom."""
    with styled():
        figure, axes = new_figure(size or FigureSize(height=3.9), title, legend, MARGINS)
        shown = [u for u in units if drawable(u, roofs.level)]
        _limits(axes, shown, roofs)
        axes.set_xlabel(f"bytes ({roofs.memory_name})")
        axes.set_ylabel("FLOPs")
        decade_axis(axes.xaxis, "B", axes.get_xlim())
        decade_axis(axes.yaxis, "", axes.get_ylim())
        _second_axes(axes, roofs)
        symbols = [point for unit in shown for point in chart_points(unit, roofs)]
        intensity_diagonals(axes, roofs.balance, LabelPlacer(axes, symbols))
        overhead_boxes(axes, shown, roofs, seconds=False)
        for unit in shown:
            _draw(axes, unit, roofs)
        say_what_is_missing(axes, units, roofs.level)
    return figure


def _limits(axes: Axes, units: Sequence[Unit], roofs: Roofs) -> None:
    points = [point for unit in units for point in chart_points(unit, roofs)]
    boxes = [u.launches * (roofs.launch_s or 0) for u in units]
    axes.set_xlim(log_limits([x for x, _ in points] + [b * roofs.bytes_per_s for b in boxes]))
    axes.set_ylim(log_limits([y for _, y in points] + [b * roofs.flops_per_s for b in boxes]))


def _second_axes(axes: Axes, roofs: Roofs) -> None:
    beta, peak = roofs.bytes_per_s, roofs.flops_per_s
    top = axes.secondary_xaxis("top", functions=_scaled(beta))
    right = axes.secondary_yaxis("right", functions=_scaled(peak))
    top.set_xlabel(f"bandwidth time at {roofs.memory_name}", labelpad=4)
    right.set_ylabel(f"compute time at {roofs.compute_name}")
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    decade_axis(top.xaxis, "s", (x0 / beta, x1 / beta))
    decade_axis(right.yaxis, "s", (y0 / peak, y1 / peak))


def _scaled(rate: float) -> tuple[Any, Any]:
    """From an amount to its seconds at a rate, and back."""
    return (lambda amount: amount / rate, lambda seconds: seconds * rate)


def _draw(axes: Axes, unit: Unit, roofs: Roofs) -> None:
    (bytes_, flops), (x, y) = chart_points(unit, roofs)
    if flops == 0:
        mark_on_axis(axes, bytes_, unit.look)
        mark_on_axis(axes, x, unit.look)
        axes.plot(
            [bytes_, x],
            [0, 0],
            transform=axes.get_xaxis_transform(),
            color=unit.look.colour,
            lw=1.6,
            alpha=0.6,
            clip_on=False,
            zorder=3,
        )
        return
    axes.plot([bytes_, x], [flops, y], color=unit.look.colour, lw=0.9, alpha=0.55, zorder=3)
    mark(axes, bytes_, flops, unit.look, size=SIZE - 1.2)
    mark(axes, x, y, unit.look, size=SIZE + 0.6)
