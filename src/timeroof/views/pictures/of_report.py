"""The pictures of a report: its longest rows, coloured by what limits them (or by run)."""

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
