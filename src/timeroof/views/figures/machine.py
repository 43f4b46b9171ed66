"""Pictures of a machine: all its ceilings, and bandwidth over the working set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timeroof.core.resources import Origin, Scope
from timeroof.units import format_amount, format_bytes_binary
from timeroof.views.figures.frame import (
    GUIDE_COLOUR,
    FigureSize,
    LegendEntry,
    Margins,
    decade_axis,
    log_limits,
    new_figure,
    styled,
)
from timeroof.views.figures.labels import LabelPlacer
from timeroof.views.figures.points import MARKERS, PALETTE, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from timeroof.core.machine import Machine

MEASURED, THEORETICAL = PALETTE[0], PALETTE[5]


@dataclass(frozen=True)
class CurvePoint:
    """Bandwidth of one access pattern at one working set."""

    pattern: str
    size_bytes: int
    rate_per_s: float


def machine_roofline(machine: Machine, *, scope: Scope = "all") -> Figure:
    """All ceilings of a machine: measured drawn through, paper ones dashed."""
    measured = _rates(machine, scope, "measured")
    paper = {
        name: rate
        for origin in ("datasheet", "theoretical")
        for name, rate in _rates(machine, scope, origin).items()
    }
    everything = [*measured.items(), *paper.items()]
    with styled():
        legend = [
            [LegendEntry("measured", Look(MEASURED, "_"), size=9)],
            [LegendEntry("theoretical or datasheet", Look(THEORETICAL), dashed=True)],
        ]
        figure, axes = new_figure(
            FigureSize(height=3.4), f"{machine.device[:52]} ({scope})", legend
        )
        _roof_limits(axes, everything)
        axes.set_xlabel("arithmetic intensity (FLOP/byte)")
        axes.set_ylabel("FLOP/s")
        decade_axis(axes.xaxis, "", axes.get_xlim())
        decade_axis(axes.yaxis, "", axes.get_ylim())
        labels = LabelPlacer(axes, [])
        _draw_roofs(axes, measured, MEASURED, "-", labels)
        _draw_roofs(axes, paper, THEORETICAL, (0, (4, 2.5)), labels)
    return figure


def bandwidth_curve(
    points: Sequence[CurvePoint], cache_sizes: dict[str, int], title: str
) -> Figure:
    """Bandwidth over the working set, a line per pattern, cache sizes marked."""
    patterns = list(dict.fromkeys(p.pattern for p in points))
    looks = {
        pattern: Look(PALETTE[i % len(PALETTE)], MARKERS[i % len(MARKERS)])
        for i, pattern in enumerate(patterns)
    }
    with styled():
        columns = [
            [LegendEntry(p, looks[p]) for p in patterns[start : start + 2]]
            for start in range(0, len(patterns), 2)
        ]
        figure, axes = new_figure(
            FigureSize(height=3.2), title, columns, Margins(left=0.75, bottom=0.44)
        )
        axes.set_xlim(log_limits([p.size_bytes for p in points], pad=1.3))
        axes.set_ylim(log_limits([p.rate_per_s for p in points], pad=1.3))
        axes.set_xscale("log", base=2)
        axes.set_xlabel("working set over all threads")
        axes.set_ylabel("byte/s")
        decade_axis(axes.yaxis, "B/s", axes.get_ylim())
        axes.xaxis.set_major_formatter(lambda size, _: format_bytes_binary(round(size)))
        for pattern, look in looks.items():
            part = sorted((p.size_bytes, p.rate_per_s) for p in points if p.pattern == pattern)
            axes.plot(
                *zip(*part, strict=True), color=look.colour, marker=look.marker, ms=2.6, lw=0.9
            )
        _mark_caches(axes, cache_sizes)
    return figure


def _rates(machine: Machine, scope: Scope, origin: Origin) -> dict[str, float]:
    return {r: c.rate for r, c in machine.roofs(scope, origin).items()}


def _roof_limits(axes: Axes, roofs: Sequence[tuple[str, float]]) -> None:
    peaks = [rate for name, rate in roofs if name.startswith("flop/")] or [1e9]
    bandwidths = [rate for name, rate in roofs if name.startswith("byte/")] or [1e9]
    ridge = max(peaks) / min(bandwidths)
    axes.set_xlim(log_limits([min(peaks) / max(bandwidths) / 30, ridge * 12]))
    axes.set_ylim(log_limits([min(peaks) / 30, max(peaks) * 1.6]))


def _draw_roofs(
    axes: Axes, rates: dict[str, float], colour: str, line: object, labels: LabelPlacer
) -> None:
    (x0, x1), (y0, _) = axes.get_xlim(), axes.get_ylim()
    peaks = {n: r for n, r in rates.items() if n.startswith("flop/")}
    bandwidths = {n: r for n, r in rates.items() if n.startswith("byte/")}
    style = {"color": colour, "lw": 0.9, "ls": line}
    for name, rate in sorted(peaks.items(), key=lambda item: -item[1]):
        start = max(x0, rate / max(bandwidths.values(), default=rate / x0))
        axes.plot([start, x1], [rate, rate], **style)  # type: ignore[arg-type]
        text = f"{name.partition('/')[2]} {format_amount(rate, 'FLOP/s')}"
        labels.write((x0, rate), (x1, rate), text, places=(0.98, 0.72, 0.5))
    top = max(peaks.values(), default=y0 * 1e3)
    for name, rate in bandwidths.items():
        start, end = max(x0, y0 / rate), min(x1, top / rate)
        if end > start:
            axes.plot([start, end], [rate * start, rate * end], **style)  # type: ignore[arg-type]
            text = f"{name.partition('/')[2]} {format_amount(rate, 'B/s')}"
            labels.write(
                (start, rate * start), (end, rate * end), text, places=(0.02, 0.4, 0.6, 0.8)
            )


def _mark_caches(axes: Axes, cache_sizes: dict[str, int]) -> None:
    low, high = axes.get_xlim()
    for level, size in cache_sizes.items():
        if low < size < high:
            axes.axvline(size, color=GUIDE_COLOUR, lw=0.6, ls=":", zorder=0.5)
            axes.text(
                size,
                0.985,
                f"{level.upper()} ",
                transform=axes.get_xaxis_transform(),
                ha="right",
                va="top",
                fontsize=5.5,
                color=GUIDE_COLOUR,
            )
