"""The classic roofline with every memory level and every ceiling."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from timeroof.views.figures.frame import (
    GUIDE_COLOUR,
    FigureSize,
    LegendEntry,
    add_legend,
    decade_axis,
    log_limits,
    new_figure,
    styled,
)
from timeroof.views.figures.guides import diagonal_angle
from timeroof.views.figures.marks import mark
from timeroof.views.figures.points import Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Steps in log10 by which two labels on one edge must differ to be read apart.
LABEL_GAP = 0.13


def hierarchical_roofline(
    units: Sequence[Unit],
    compute_roofs: dict[str, float],
    memory_roofs: dict[str, float],
    *,
    levels: Sequence[str] = ("dram",),
    title: str = "",
    legend: Sequence[LegendEntry] = (),
    size: FigureSize | None = None,
) -> Figure:
    """FLOP/s over intensity, one point per unit and level, all ceilings drawn and named.

    Units without FLOPs have no place here; a line on the chart counts them.
    """
    with styled():
        figure, axes = new_figure(size or FigureSize(), title)
        shown = [u for u in units if u.flops > 0 and u.time_s > 0]
        points = [
            (u.flops / u.bytes_at(level), u.flops / u.time_s, u)
            for u in shown
            for level in levels
            if u.bytes_at(level) > 0
        ]
        _limits(axes, [(x, y) for x, y, _ in points], compute_roofs, memory_roofs)
        add_legend(figure, legend)
        axes.set_xlabel("arithmetic intensity (FLOP/byte)")
        axes.set_ylabel("FLOP/s")
        figure.draw_without_rendering()
        _draw_roofs(axes, compute_roofs, memory_roofs)
        for x, y, unit in points:
            mark(axes, x, y, unit.look)
        missing = len(units) - len(shown)
        if missing:
            axes.text(0.985, 0.015, f"not drawn: {missing} without FLOPs",
                      transform=axes.transAxes, ha="right", va="bottom", fontsize=5.5,
                      color=GUIDE_COLOUR)
        decade_axis(axes.xaxis, "")
        decade_axis(axes.yaxis, "FLOP/s")
    return figure


def _limits(
    axes: Axes,
    points: Sequence[tuple[float, float]],
    compute_roofs: dict[str, float],
    memory_roofs: dict[str, float],
) -> None:
    top = max(compute_roofs.values())
    ridges = [top / max(memory_roofs.values()), top / min(memory_roofs.values())]
    axes.set_xlim(log_limits([x for x, _ in points] + [ridges[1] * 2], pad=1.8))
    axes.set_ylim(log_limits([y for _, y in points] + [top * 1.3], pad=1.8))


def _draw_roofs(
    axes: Axes, compute_roofs: dict[str, float], memory_roofs: dict[str, float]
) -> None:
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    top, fastest = max(compute_roofs.values()), max(memory_roofs.values())
    last = math.inf
    for name, rate in sorted(compute_roofs.items(), key=lambda item: -item[1]):
        start = max(x0, rate / fastest)
        if start >= x1 or rate < y0:
            continue
        axes.plot([start, x1], [rate, rate], color=GUIDE_COLOUR, lw=0.9, zorder=1)
        height = math.log10(rate)
        if last - height > LABEL_GAP:
            axes.text(x1 * 0.94, rate, f"{name} {rate / 1e12:.3g} TFLOP/s", ha="right",
                      va="bottom", fontsize=5.5, color=GUIDE_COLOUR, zorder=2)
            last = height
    for name, rate in memory_roofs.items():
        end = min(x1, top / rate)
        start = max(x0, y0 / rate)
        if end <= start:
            continue
        axes.plot([start, end], [rate * start, rate * end], color=GUIDE_COLOUR, lw=0.9, zorder=1)
        at = start * (end / start) ** 0.06
        axes.text(at, rate * at, f"{name} {rate / 1e9:.4g} GB/s", rotation=diagonal_angle(axes),
                  rotation_mode="anchor", fontsize=5.5, color=GUIDE_COLOUR, va="bottom",
                  ha="left", zorder=2, clip_on=True)
