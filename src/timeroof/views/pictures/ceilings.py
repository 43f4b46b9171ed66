"""Pictures of a machine: all its ceilings, and bandwidth over the working set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timeroof.core.machine import Origin, Scope
from timeroof.core.units import INTEGER, format_bytes_binary, format_rate
from timeroof.views.pictures import frame
from timeroof.views.pictures.frame import MARKERS, Look
from timeroof.views.style import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from timeroof.core.machine import Machine

MEASURED, THEORETICAL = PALETTE[0], PALETTE[5]
# A point whose samples scatter by more was disturbed, and is drawn hollow.
DISTURBED = 0.10
# Horizontal roofs closer than this would have their names one over the other.
SAME_LINE = 1.2
# A line above another by less than this runs through the other's name.
NAME_HEIGHT = 1.5


@dataclass(frozen=True)
class CurvePoint:
    """Bandwidth of one access pattern at one working set."""

    pattern: str
    size_bytes: int
    rate_per_s: float
    # (p75 − p25) / median of its samples, 0 where that is not known.
    spread: float = 0.0


def machine_roofline(machine: Machine, *, scope: Scope = "all") -> Figure:
    """All ceilings of a machine: measured drawn through, paper ones dashed, figures in a table."""
    measured = _rates(machine, scope, "measured")
    paper = {
        name: rate
        for origin in ("datasheet", "theoretical")
        for name, rate in _rates(machine, scope, origin).items()
    }
    everything = [*measured.items(), *paper.items()]
    with frame.styled():
        entries = [
            (measured, frame.LegendEntry("measured", Look(MEASURED, "_"), size=9)),
            (paper, frame.LegendEntry("theoretical or datasheet", Look(THEORETICAL), dashed=True)),
        ]
        legend = [[entry] for rates, entry in entries if rates]
        figure, axes = frame.new_figure(
            frame.FigureSize(height=3.4), f"{machine.device[:52]} ({scope})", legend
        )
        _roof_limits(axes, everything)
        axes.set_xlabel("arithmetic intensity (FLOP/byte)")
        axes.set_ylabel(_speed_label([name for name, _ in everything]))
        frame.decade_axis(axes.xaxis, "", axes.get_xlim())
        frame.decade_axis(axes.yaxis, "", axes.get_ylim())
        _draw_roofs(axes, paper, THEORETICAL, (0, (4, 2.5)))
        _draw_roofs(axes, measured, MEASURED, "-")
        _name_roofs(axes, measured, paper)
        _write_figures(axes, measured, paper)
    return figure


def bandwidth_curve(
    points: Sequence[CurvePoint], cache_sizes: dict[str, int], title: str
) -> Figure:
    """Bandwidth over the working set, a line per pattern, cache sizes marked."""
    from matplotlib.ticker import LogLocator, NullLocator

    patterns = list(dict.fromkeys(p.pattern for p in points))
    looks = {
        pattern: Look(PALETTE[i % len(PALETTE)], MARKERS[i % len(MARKERS)])
        for i, pattern in enumerate(patterns)
    }
    with frame.styled():
        columns = [
            [frame.LegendEntry(p, looks[p]) for p in patterns[start : start + 2]]
            for start in range(0, len(patterns), 2)
        ]
        figure, axes = frame.new_figure(
            frame.FigureSize(height=3.2), title, columns, frame.Margins(left=0.75, bottom=0.44)
        )
        axes.set_xlim(frame.log_limits([p.size_bytes for p in points], pad=1.3))
        axes.set_ylim(frame.log_limits([p.rate_per_s for p in points], pad=1.3))
        axes.set_xscale("log", base=2)
        disturbed = any(p.spread > DISTURBED for p in points)
        hint = f" (hollow: scatter > {DISTURBED:.0%})" if disturbed else ""
        axes.set_xlabel(f"working set over all threads{hint}")
        axes.set_ylabel("byte/s")
        frame.decade_axis(axes.yaxis, "B/s", axes.get_ylim())
        # 8 KiB, 128 KiB, 2 MiB ...: more would run into one another.
        axes.xaxis.set_major_locator(LogLocator(base=16, subs=(0.5,)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda size, _: format_bytes_binary(round(size)))
        for pattern, look in looks.items():
            part = sorted((p.size_bytes, p.rate_per_s) for p in points if p.pattern == pattern)
            axes.plot(
                *zip(*part, strict=True), color=look.colour, marker=look.marker, ms=2.6, lw=0.9
            )
            hollow = [p for p in points if p.pattern == pattern and p.spread > DISTURBED]
            axes.plot(
                [p.size_bytes for p in hollow], [p.rate_per_s for p in hollow], ls="",
                marker=look.marker, ms=3.0, mec=look.colour, mfc="white", mew=0.7,
            )  # fmt: skip
        _mark_caches(axes, cache_sizes)
    return figure


def _speed_label(resources: Sequence[str]) -> str:
    """What the vertical axis counts: integer operations are none of floating point."""
    whole = any(name.startswith(INTEGER) for name in resources)
    return "FLOP/s (integers: OP/s)" if whole else "FLOP/s"


def _rates(machine: Machine, scope: Scope, origin: Origin) -> dict[str, float]:
    roofs = machine.roofs(scope, origin)
    return {r: c.rate for r, c in roofs.items() if r not in machine.emulated}


def _roof_limits(axes: Axes, roofs: Sequence[tuple[str, float]]) -> None:
    peaks = [rate for name, rate in roofs if name.startswith("flop/")] or [1e9]
    bandwidths = [rate for name, rate in roofs if name.startswith("byte/")] or [1e9]
    ridge = max(peaks) / min(bandwidths)
    axes.set_xlim(frame.log_limits([min(peaks) / max(bandwidths) / 30, ridge * 12]))
    axes.set_ylim(frame.log_limits([min(peaks) / 30, max(peaks) * 1.6]))


def _draw_roofs(axes: Axes, rates: dict[str, float], colour: str, line: object) -> None:
    (x0, x1), (y0, _) = axes.get_xlim(), axes.get_ylim()
    peaks, bandwidths = _kind(rates, "flop/"), _kind(rates, "byte/")
    style = {"color": colour, "lw": 0.9, "ls": line}
    for rate in peaks.values():
        start = max(x0, rate / max(bandwidths.values(), default=rate / x0))
        axes.plot([start, x1], [rate, rate], **style)  # type: ignore[arg-type]
    top = max(peaks.values(), default=y0 * 1e3)
    for rate in bandwidths.values():
        start, end = max(x0, y0 / rate), min(x1, top / rate)
        if end > start:
            axes.plot([start, end], [rate * start, rate * end], **style)  # type: ignore[arg-type]


def _kind(rates: dict[str, float], head: str) -> dict[str, float]:
    found = {n.removeprefix(head): r for n, r in rates.items() if n.startswith(head)}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _name_roofs(axes: Axes, measured: dict[str, float], paper: dict[str, float]) -> None:
    """Short names on the lines; ceilings that lie together share one text."""
    (_, x1), (y0, _) = axes.get_xlim(), axes.get_ylim()
    peaks, bandwidths = (_kind(paper | measured, head) for head in ("flop/", "byte/"))
    # A paper ceiling just above the measured one would run through the name.
    above = {n: (r, paper.get(f"flop/{n}", r)) for n, r in peaks.items()}
    tops = {n: max(r, other if other < NAME_HEIGHT * r else r) for n, (r, other) in above.items()}
    style = {"fontsize": 5.5, "color": frame.GUIDE_COLOUR, "zorder": 3}
    for names, rate in _together(dict(sorted(tops.items(), key=lambda item: -item[1]))):
        axes.text(
            x1 * 0.9, rate * 1.02, names, ha="right", va="bottom",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0}, **style,  # type: ignore[arg-type]
        )  # fmt: skip
    lowest = min(peaks.values(), default=y0 * 1e3)
    for place, (names, rate) in enumerate(_together(bandwidths)):
        # Each further up its line than the one before, so that neighbours do not meet.
        y = y0 * (lowest / y0) ** (0.25 + 0.18 * (place % 4))
        axes.text(
            y / rate, y, names, ha="center", va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6}, **style,  # type: ignore[arg-type]
        )  # fmt: skip


def _together(rates: dict[str, float]) -> list[tuple[str, float]]:
    """Names of ceilings, largest first, those within a few pixels of each other in one."""
    groups: list[tuple[list[str], float]] = []
    for name, rate in rates.items():
        if groups and groups[-1][1] / rate < SAME_LINE:
            groups[-1][0].append(name)
        else:
            groups.append(([name], rate))
    return [(", ".join(map(_short, names)), rate) for names, rate in groups]


def _short(name: str) -> str:
    """Memory levels in capitals, as people write them; precisions as they are."""
    return name.upper() if name in ("l1", "l2", "l3", "dram") else name


def _write_figures(axes: Axes, measured: dict[str, float], paper: dict[str, float]) -> None:
    """Every figure in the corner below the roofs, where no line runs."""
    names = [n for n in dict.fromkeys([*measured, *paper]) if n.startswith(("flop/", "byte/"))]
    both = measured if measured else paper
    rows: list[tuple[str, ...]] = [("", "measured", "on paper")] if measured and paper else []
    for name in sorted(names, key=lambda n: (n[:4] != "flop", -(both.get(n) or paper.get(n, 0)))):
        texts = [
            format_rate(name, rates[name]) if name in rates else ""
            for rates in ((measured, paper) if measured and paper else (both,))
        ]
        rows.append((_short(name.partition("/")[2]), *texts))
    for place, cells in enumerate(reversed(rows)):
        for cell, right in zip(cells, (0.52, 0.75, 0.98) if len(cells) > 2 else (0.74, 0.98),
                               strict=True):  # fmt: skip
            axes.text(
                right, 0.02 + 0.033 * place, cell, transform=axes.transAxes,
                ha="right", va="bottom", fontsize=5.5, color=frame.GUIDE_COLOUR,
            )  # fmt: skip


def _mark_caches(axes: Axes, cache_sizes: dict[str, int]) -> None:
    low, high = axes.get_xlim()
    for level, size in cache_sizes.items():
        if low < size < high:
            axes.axvline(size, color=frame.GUIDE_COLOUR, lw=0.6, ls=":", zorder=0.5)
            axes.text(
                size, 0.985, f"{level.upper()} ", transform=axes.get_xaxis_transform(),
                ha="right", va="top", fontsize=5.5, color=frame.GUIDE_COLOUR,
            )  # fmt: skip
