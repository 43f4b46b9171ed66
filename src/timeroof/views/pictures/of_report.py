"""The pictures of reports: longest rows, coloured by limiter or run; times on several machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.machine import DRAM, LAUNCH, limiter_kind
from timeroof.views.overview import overview
from timeroof.views.page.payload import first_level
from timeroof.views.pictures import (
    FigureSize,
    Look,
    Roofs,
    Unit,
    complexity_plane,
    hierarchical_roofline,
    time_plane,
)
from timeroof.views.pictures.frame import LegendEntry
from timeroof.views.pictures.marks import row_unit
from timeroof.views.pictures.run_chart import run_chart
from timeroof.views.style import LIMITERS, PALETTE, clip, limited_by, plain_line
from timeroof.views.title import run_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from timeroof.core.report import Report

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timeroof.core.errors import UsageError
from timeroof.core.units import format_seconds
from timeroof.views.pictures import frame
from timeroof.views.style import LIMITER_COLOURS, LIMITER_WORDS
from timeroof.views.whatif import OUTSIDE, split_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from timeroof.model.whatif.project import WhatIf


HEADS = {
    "combined": "work and time", "complexity": "work", "time": "time", "roofline": "roofline",
}  # fmt: skip
CHARTS = tuple(HEADS)
# More symbols than this hide one another on paper.
MAX_UNITS = 120
SIZE = FigureSize(width=7.0, height=5.2)


def report_figure(
    reports: Sequence[Report], name: str = "combined", *, names: Sequence[str] = (),
    title: str = "", width: str = "double", annotate: bool = False,
) -> Figure:  # fmt: skip
    """One chart of one report, or of several with a colour per run.

    The combined one is grouped by kernel, as on the page; `annotate` explains its worst kernel.
    """
    if name not in CHARTS:
        raise InputError(f"no chart is called {name!r}", advice=f"use {', '.join(CHARTS)}")
    if not any(len(report.profile) for report in reports):
        raise InputError(
            "nothing was measured, so there is nothing to draw",
            advice="write html or md: they say why",
        )
    first = reports[0]
    roofs = chart_roofs(first)
    units = [u for index, r in enumerate(reports) for u in _units(r, index, len(reports) > 1)]
    legend = [[entry] for entry in _legend(reports, names)]
    heading = clip(plain_line(title), 90) or _title(reports, name)
    if name == "roofline":
        return _roofline(first, units, heading, legend)
    if roofs is None:
        raise InputError(
            "the machine has no compute and memory ceiling", advice="name one with --machine"
        )
    if name == "combined":
        if width == "single":
            # Two columns of a legend fit into one of a paper.
            entries = [entry for group in legend for entry in group]
            legend = [entries[0::2], entries[1::2]]
        return run_chart(
            reports, roofs, title=heading, legend=legend, width=width, annotate=annotate
        )
    chart = {"complexity": complexity_plane, "time": time_plane}[name]
    return chart(units, roofs, title=heading, legend=legend, size=SIZE)


def report_units(report: Report, limit: int | None = None) -> list[Unit]:
    """The longest rows as units of a chart, coloured by what limits them."""
    rows = report.rows.drop("samples").filter(pl.col("time_s") > 0)
    table = rows if limit is None else rows.head(limit)
    return [
        replace(
            row_unit(row, _look(limiter_kind(row["limiter"]))),
            name=clip(plain_line(row["short_name"]), 60),
        )
        for row in table.iter_rows(named=True)
    ]


def _look(kind: str) -> Look:
    """Colour and symbol of a limiter: colour is never the only sign."""
    return Look(LIMITERS[kind].print, LIMITERS[kind].marker)


def _units(report: Report, index: int, by_run: bool) -> list[Unit]:
    units = report_units(report, MAX_UNITS)
    look = Look(PALETTE[index % len(PALETTE)])
    return [replace(unit, look=look) for unit in units] if by_run else units


def _legend(reports: Sequence[Report], names: Sequence[str]) -> list[LegendEntry]:
    if len(reports) > 1:
        texts = names or [f"run {index + 1}" for index in range(len(reports))]
        return [
            LegendEntry(clip(plain_line(text), 60), Look(PALETTE[index % len(PALETTE)]))
            for index, text in enumerate(texts)
        ]
    seconds = reports[0].totals.by_limiter
    return [
        LegendEntry(limited_by(kind), _look(kind)) for kind in LIMITERS if seconds.get(kind, 0) > 0
    ]


def _title(reports: Sequence[Report], name: str) -> str:
    """What ran where, and how long it took."""
    if len(reports) > 1:
        return clip(plain_line(f"{len(reports)} runs, {HEADS[name]}"), 90)
    seen = overview(reports[0])
    facts = f"{seen.time} {seen.time_label.lower()}"
    return f"{clip(plain_line(run_title(reports[0])), 88)}\n{clip(plain_line(facts), 88)}"


def chart_roofs(report: Report) -> Roofs | None:
    """The pair of roofs that a report's charts are drawn on, None where the machine has none."""
    roofs, pair, memory = report.verdicts.roofs, report.verdicts.pair, first_level(report)
    if pair is None or pair.compute not in roofs or memory is None:
        return None
    return Roofs(
        compute_name=_short(pair.compute),
        flops_per_s=roofs[pair.compute].rate,
        memory_name=_short(memory),
        bytes_per_s=roofs[memory].rate,
        launch_s=1 / roofs[LAUNCH].rate if LAUNCH in roofs else None,
        level=memory.removeprefix("byte/"),
    )


def used_ceilings(report: Report) -> tuple[dict[str, float], dict[str, float]]:
    """Compute and memory ceilings of what the run uses, by resource."""
    rows, roofs = report.rows, report.verdicts.roofs
    rates = {r: roofs[r].rate for r in report.verdicts.resources if r in roofs}
    compute = {
        r: rate for r, rate in rates.items() if r.startswith("flop/") and bool((rows[r] > 0).any())
    }
    return compute, {r: rate for r, rate in rates.items() if r.startswith("byte/")}


def _roofline(
    report: Report, units: list[Unit], title: str, legend: list[list[LegendEntry]]
) -> Figure:
    compute, memory = (
        {_short(r): rate for r, rate in ceilings.items()} for ceilings in used_ceilings(report)
    )
    if not compute or not memory:
        raise InputError(
            "a roofline needs FLOPs, bytes and their ceilings", advice="name a --machine"
        )
    level = (first_level(report) or DRAM).removeprefix("byte/")
    return hierarchical_roofline(
        units, compute, memory, levels=(level,), title=title, legend=legend, size=SIZE
    )


def _short(resource: str | None) -> str:
    """A resource on an axis.

    >>> _short("byte/dram"), _short("flop/bf16-tensor")
    ('DRAM', 'bf16-tensor')
    """
    head, _, tail = (resource or "").partition("/")
    return tail.upper() if head == "byte" else tail


ROW, FOOT, HEAD = 0.36, 0.78, 0.42
OUTSIDE_COLOUR = "#C4C4C4"


@dataclass(frozen=True)
class Bar:
    """One machine: seconds by what limits them, and the ends of the interval (None: measured)."""

    name: str
    seconds: Mapping[str, float]
    bound_s: float | None = None
    interval_s: tuple[float, float] | None = None

    @property
    def total_s(self) -> float:
        """Seconds of the whole bar."""
        return sum(self.seconds.values())

    @property
    def end_s(self) -> float:
        """Where the bar or its interval ends."""
        return max(self.total_s, self.interval_s[1] if self.interval_s else 0.0)


def machine_bars(bars: Sequence[Bar], *, title: str = "") -> Figure:
    """One bar per machine to a common scale; a whisker is the interval, a tick the bound."""
    from matplotlib.figure import Figure

    height = HEAD + ROW * len(bars) + FOOT
    size = frame.FigureSize(width=7.0, height=height)
    with frame.styled():
        figure = Figure(figsize=(size.width, size.height), dpi=size.dpi)
        wide, high = (size.width - 2.6) / size.width, ROW * len(bars) / height
        axes = figure.add_axes((1.5 / size.width, FOOT / height, wide, high))
        longest = max((bar.end_s for bar in bars), default=1.0) or 1.0
        for place, bar in enumerate(bars):
            _draw(axes, bar, place, longest)
        _frame(axes, bars, longest)
        _bar_legend(figure, bars)
        style = {"ha": "center", "va": "top", "fontsize": 8, "color": frame.TEXT_COLOUR}
        figure.text(0.5, 1 - 0.08 / height, title, style)
    return figure


def _draw(axes: Axes, bar: Bar, place: int, longest: float) -> None:
    left = 0.0
    for kind, seconds in bar.seconds.items():
        if seconds > 0:
            colour = LIMITER_COLOURS.get(kind, OUTSIDE_COLOUR)
            axes.barh(place, seconds, left=left, height=0.6, color=colour, linewidth=0)
            left += seconds
    if bar.interval_s is not None and bar.interval_s[1] > bar.interval_s[0]:
        low, high = bar.interval_s
        axes.plot([low, high], [place, place], color=frame.TEXT_COLOUR, lw=1.0, zorder=4)
        for end in (low, high):
            axes.plot(
                [end, end], [place - 0.14, place + 0.14], color=frame.TEXT_COLOUR, lw=1.0, zorder=4
            )
    if bar.bound_s:
        ends = ([bar.bound_s] * 2, [place - 0.38, place + 0.38])
        axes.plot(*ends, color=frame.TEXT_COLOUR, lw=1.4, ls=":", zorder=5)
    words = format_seconds(bar.total_s)
    if bar.interval_s is not None:
        words += f" ({' to '.join(map(format_seconds, bar.interval_s))})"
    axes.text(
        bar.end_s + 0.012 * longest, place, words, va="center", fontsize=7,
        color=frame.TEXT_COLOUR, clip_on=False,
    )  # fmt: skip


def _frame(axes: Axes, bars: Sequence[Bar], longest: float) -> None:
    axes.set_xlim(0, longest * 1.02)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_yticks(range(len(bars)), [bar.name for bar in bars])
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(lambda value, _: frame.short_number(value, "s") or "0")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _bar_legend(figure: Figure, bars: Sequence[Bar]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    kinds = [
        k
        for k in [*LIMITER_COLOURS, OUTSIDE]
        if any(b.seconds.get(k, 0) > 1e-3 * b.total_s for b in bars)
    ]
    handles: list[Line2D | Patch] = [
        Patch(color=LIMITER_COLOURS.get(k, OUTSIDE_COLOUR), label=LIMITER_WORDS.get(k, k))
        for k in kinds
    ]
    handles.append(Line2D([], [], color=frame.TEXT_COLOUR, lw=1.0, label="interval"))
    handles.append(Line2D([], [], color=frame.TEXT_COLOUR, lw=1.4, ls=":", label="bound"))
    figure.legend(
        handles=handles, loc="lower center", ncols=len(handles), frameon=False, fontsize=6.5,
        handlelength=1.2, columnspacing=1.1, labelcolor=frame.GUIDE_COLOUR,
    )  # fmt: skip


def bars_figure(result: WhatIf) -> Figure:
    """Measured and predicted seconds by limiter, with intervals and bounds."""
    totals = result.report.totals
    if totals.ladder.measured_s is None:
        raise _untimed()
    now = split_seconds(totals.by_limiter, totals.ladder.measured_s)
    bars = [Bar(f"{_machine_word(result.here.name)} (measured)", now, totals.bound_s)]
    for p in result.projections:
        if p.predicted_s is None or p.low_s is None or p.high_s is None:
            raise _untimed()
        seconds = split_seconds(p.by_limiter, p.predicted_s)
        bars.append(Bar(_machine_word(p.machine.name), seconds, p.bound_s, (p.low_s, p.high_s)))
    return machine_bars(bars, title="the same work on other machines (a model)")


def _untimed() -> UsageError:
    return UsageError(
        "nothing was timed in this run, so there is nothing to draw",
        advice="write html, md or json: they have the bounds",
    )


def _machine_word(name: str) -> str:
    return clip(plain_line(name), 24)
