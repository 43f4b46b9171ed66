"""The classic roofline with every memory level and every ceiling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timeroof.core.units import format_amount
from timeroof.views.pictures.frame import (
    GUIDE_COLOUR,
    FigureSize,
    Legend,
    decade_axis,
    log_limits,
    new_figure,
    styled,
)
from timeroof.views.pictures.labels import LabelPlacer
from timeroof.views.pictures.marks import mark
from timeroof.views.pictures.points import Unit
from timeroof.views.rates import format_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    legend: Legend = (),
    size: FigureSize | None = None,
    all_slopes: bool = False,
) -> Figure:
    """FLOP/s over intensity, one point per unit and level, all ceilings drawn and named.

    Units without FLOPs have no place here; a line on the chart counts them. `all_slopes` reaches
    far enough left that every memory roof has a slope in view.
    """
    with styled():
        figure, axes = new_figure(size or FigureSize(), title, legend)
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
        _limits(axes, seen, compute_roofs, memory_roofs)
        axes.set_xlabel("arithmetic intensity (FLOP/byte)")
        axes.set_ylabel("FLOP/s")
        decade_axis(axes.xaxis, "", axes.get_xlim())
        decade_axis(axes.yaxis, "", axes.get_ylim())
        labels = LabelPlacer(axes, [(x, y) for x, y, _ in points])
        _draw_compute_roofs(axes, compute_roofs, max(memory_roofs.values()), labels)
        _draw_memory_roofs(axes, memory_roofs, max(compute_roofs.values()), labels)
        for x, y, unit in points:
            mark(axes, x, y, unit.look)
        missing = len(units) - len(shown)
        if missing:
            axes.text(
                0.985,
                0.015,
                f"not drawn: {missing} without FLOPs",
                transform=axes.transAxes,
                ha="right",
                va="bottom",
                fontsize=5.5,
                color=GUIDE_COLOUR,
            )
    return figure


def _limits(
    axes: Axes,
    points: Sequence[tuple[float, float]],
    compute_roofs: dict[str, float],
    memory_roofs: dict[str, float],
) -> None:
    top = max(compute_roofs.values())
    ridges = [top / max(memory_roofs.values()), top / min(memory_roofs.values())]
    axes.set_xlim(log_limits([x for x, _ in points] + [ridges[1] * 6], pad=1.8))
    axes.set_ylim(log_limits([y for _, y in points] + [top * 1.3], pad=1.8))


def _draw_compute_roofs(
    axes: Axes, roofs: dict[str, float], fastest: float, labels: LabelPlacer
) -> None:
    (x0, x1), (y0, _) = axes.get_xlim(), axes.get_ylim()
    for name, rate in sorted(roofs.items(), key=lambda item: -item[1]):
        start = max(x0, rate / fastest)
        if start < x1 and rate > y0:
            axes.plot([start, x1], [rate, rate], color=GUIDE_COLOUR, lw=0.9, zorder=1)
            # The text may reach further left than a short roof does.
            text = f"{name} {format_rate(f'flop/{name}', rate)}"
            labels.write((x0, rate), (x1, rate), text, places=COMPUTE_PLACES)


def _draw_memory_roofs(
    axes: Axes, roofs: dict[str, float], top: float, labels: LabelPlacer
) -> None:
    (x0, x1), (y0, _) = axes.get_xlim(), axes.get_ylim()
    for name, rate in roofs.items():
        start, end = max(x0, y0 / rate), min(x1, top / rate)
        if end > start:
            line = ((start, rate * start), (end, rate * end))
            axes.plot(*zip(*line, strict=True), color=GUIDE_COLOUR, lw=0.9, zorder=1)
            labels.write(*line, f"{name} {format_amount(rate, 'B/s')}", places=MEMORY_PLACES)
