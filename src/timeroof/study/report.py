"""A study judged: one report over all its cases, each on the ceilings of the cores that it used."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from timeroof.api.live import scope_for
from timeroof.api.reports import Report
from timeroof.core.machine import Machine
from timeroof.core.notes import as_notes
from timeroof.core.profile import LABEL, Profile
from timeroof.core.report import Finding, Verdicts
from timeroof.core.resources import Scope
from timeroof.core.units import format_percent
from timeroof.core.version import VERSION
from timeroof.model.judge import judge
from timeroof.model.totals import totals
from timeroof.study.case import Result
from timeroof.study.factors.cases import busy, label, number, with_parameters
from timeroof.study.store import Verdict
from timeroof.study.table import profile_of

# Other programs beside a study: which cases they disturbed, in one sentence.


def busy_sentence(rows: pl.DataFrame) -> str:
    """How much others used while cases ran; nothing where they used little.

    >>> busy_sentence(pl.DataFrame({"label.load": ["0.500", "0.010"]}))[:49]
    'others used 50 % of the processor in 1 of 2 cases'
    """
    disturbed = [row for row in rows.to_dicts() if busy(row)]
    if not disturbed:
        return ""
    share = statistics.median(number(label(row, "load")) or 0.0 for row in disturbed)
    which = "this time is" if len(disturbed) == 1 else "these times are"
    return (
        f"others used {format_percent(share)} of the processor in {len(disturbed)} of"
        f" {rows.height} cases: {which} not the kernel's alone"
    )


SCOPE = f"{LABEL}scope"


@dataclass(frozen=True)
class Study:
    """What a study found: the judged cases, the conclusions, and what could not be measured."""

    report: Report
    rows: pl.DataFrame
    machine: Machine | None
    findings: tuple[Finding, ...] = ()
    failures: list[Result] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    factors: list[str] = field(default_factory=list)
    # kernel -> parameters that take more than one value
    sweeps: dict[str, list[str]] = field(default_factory=dict)

    def with_findings(self, findings: Iterable[Finding]) -> Study:
        """The same study with its conclusions."""
        found = tuple(findings)
        return replace(self, findings=found, report=replace(self.report, findings=found))


def judged_study(
    results: Sequence[Result],
    machine: Machine | None,
    *,
    factors: Sequence[str] = (),
    version: str | None = None,
    command: str | None = None,
    notes: Sequence[str] = (),
) -> Study:
    """Judge results: cases on one thread on one core's ceilings, all others on all cores'."""
    profile = profile_of(results, version=version, command=command, notes=tuple(notes))
    profile = _with_scopes(profile, machine)
    verdicts = _judged(profile, machine)
    report = Report(
        profile=profile,
        machine=machine,
        verdicts=verdicts,
        totals=totals(profile, verdicts, machine),
        notes=as_notes(dict.fromkeys((*profile.notes, *verdicts.notes))),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        version=VERSION,
    )
    rows = with_parameters(report.rows, _parameters(results))
    disturbed = busy_sentence(rows)
    if disturbed:
        report = replace(report, notes=as_notes((disturbed, *report.notes)))
    return Study(
        report=report,
        rows=rows,
        machine=machine,
        failures=[r for r in results if r.status != "done"],
        kernels=list(dict.fromkeys(r.case.kernel for r in results)),
        factors=list(factors),
        sweeps=swept(results),
    )


def _parameters(results: Sequence[Result]) -> dict[str, set[str]]:
    """The names of every kernel's parameters."""
    found: dict[str, set[str]] = {}
    for result in results:
        found.setdefault(result.case.kernel, set()).update(result.case.params)
    return found


def swept(results: Sequence[Result]) -> dict[str, list[str]]:
    """The parameters of every kernel that take more than one value."""
    values: dict[str, dict[str, set[object]]] = {}
    for result in results:
        seen = values.setdefault(result.case.kernel, {})
        for name, value in result.case.params.items():
            seen.setdefault(name, set()).add(value)
    return {k: [n for n, v in seen.items() if len(v) > 1] for k, seen in values.items()}


def _with_scopes(profile: Profile, machine: Machine | None) -> Profile:
    if not len(profile):
        return profile
    one: Scope = scope_for(1, machine)
    scope = pl.when(pl.col(f"{LABEL}threads") == "1").then(pl.lit(one)).otherwise(pl.lit("all"))
    return profile.with_kernels(profile.kernels.with_columns(scope.alias(SCOPE)))


def _judged(profile: Profile, machine: Machine | None) -> Verdicts:
    """Judge each scope by itself and put the verdicts together in the profile's order."""
    scopes = profile.kernels[SCOPE].unique().to_list() if SCOPE in profile.kernels.columns else []
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
    if result.status != "done" or machine is None:
        return Verdict()
    profile = _with_scopes(profile_of([result]), machine)
    if not len(profile):
        return Verdict()
    row = _judged(profile, machine).table.row(0, named=True)
    return Verdict(**{k: row[k] for k in ("limiter", "bound_s", "efficiency", "above_roof")})
