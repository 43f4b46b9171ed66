"""A study judged: one report over all its cases, each on the ceilings of the cores that it used."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from timeroof.api.reports import Report
from timeroof.core.machine import Machine
from timeroof.core.notes import as_notes
from timeroof.core.profile import LABEL, Profile
from timeroof.core.report import Verdicts
from timeroof.core.units import format_percent
from timeroof.core.version import VERSION
from timeroof.model.judge import judge
from timeroof.model.totals import totals
from timeroof.study.case import Result
from timeroof.study.factors import conclude
from timeroof.study.rows import Row, typed_rows
from timeroof.study.store import Verdict
from timeroof.study.table import profile_of

SCOPE = f"{LABEL}scope"


@dataclass(frozen=True)
class Study:
    """What a study found: the judged cases, and what could not be measured."""

    report: Report
    rows: list[Row]
    failures: list[Result] = field(default_factory=list)


def judged_study(
    results: Sequence[Result],
    machine: Machine | None,
    *,
    command: str | None = None,
    notes: Sequence[str] = (),
) -> Study:
    """Judge results: cases on one thread on one core's ceilings, all others on all cores'."""
    profile = profile_of(results, machine, command=command, notes=tuple(notes))
    verdicts = _judged(profile, machine)
    report = Report(
        profile=profile,
        machine=machine,
        verdicts=verdicts,
        totals=totals(profile, verdicts, machine),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        version=VERSION,
    )
    names = {r.case.kernel: list(r.case.params) for r in results}
    rows = typed_rows(report.rows, names)
    told = dict.fromkeys((busy_sentence(rows), *profile.notes, *verdicts.notes))
    return Study(
        replace(
            report,
            notes=as_notes(text for text in told if text),
            findings=tuple(conclude(rows, machine)),
        ),
        rows,
        [r for r in results if r.status != "done"],
    )


def busy_sentence(rows: Sequence[Row]) -> str:
    """How much others used while cases ran; nothing where they used little.

    >>> busy_sentence([Row(load=0.5), Row(load=0.01)])[:49]
    'others used 50 % of the processor in 1 of 2 cases'
    """
    loads = [row.load or 0.0 for row in rows if row.busy]
    if not loads:
        return ""
    which = "this time is" if len(loads) == 1 else "these times are"
    return (
        f"others used {format_percent(statistics.median(loads))} of the processor in"
        f" {len(loads)} of {len(rows)} cases: {which} not the kernel's alone"
    )


def _judged(profile: Profile, machine: Machine | None) -> Verdicts:
    """Judge each scope by itself and put the verdicts together in the profile's order."""
    scopes = profile.kernels[SCOPE].unique().to_list() if len(profile) else []
    if len(scopes) < 2:
        return judge(profile, machine, scope=scopes[0] if scopes else "all")
    parts = [
        judge(profile.with_kernels(profile.kernels.filter(pl.col(SCOPE) == s)), machine, scope=s)
        for s in sorted(scopes)
    ]
    together = pl.concat([p.table for p in parts], how="diagonal")
    table = profile.kernels.select("id").join(
        together, on="id", how="left", maintain_order="left", validate="1:1"
    )
    first = parts[0]  # "all" comes before "core"
    return replace(
        first, table=table, notes=tuple(dict.fromkeys(n for p in parts for n in p.notes))
    )


def verdict_of(result: Result, machine: Machine | None) -> Verdict:
    """What the model says of one result, for the store."""
    profile = profile_of([result], machine)
    if machine is None or not len(profile):
        return Verdict()
    row = _judged(profile, machine).table.row(0, named=True)
    return Verdict(**{k: row[k] for k in Verdict.__struct_fields__})
