"""Results as a profile, one row per case, and judged: each on the ceilings of its cores."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from timeroof.api.live import scope_for
from timeroof.api.reports import Report
from timeroof.core.machine import Machine
from timeroof.core.notes import as_notes
from timeroof.core.profile import LABEL, ORIGIN, Profile, Source
from timeroof.core.report import Verdicts
from timeroof.core.units import format_percent
from timeroof.core.version import VERSION
from timeroof.model.judge import judge
from timeroof.model.stats import spread
from timeroof.model.totals import totals
from timeroof.study import kernel as k
from timeroof.study.case import Case, Result
from timeroof.study.czaja import utilisation_findings
from timeroof.study.factors import conclude
from timeroof.study.grid import all_cores
from timeroof.study.judged_cases import Row, parameter_label, typed_rows
from timeroof.study.kernels import kernels
from timeroof.study.regimes import regime_findings
from timeroof.study.standing import load_of, standings

SCOPE = f"{LABEL}scope"
_PHASES = {k.CALIBRATE: "data", k.FORWARD: "forward", k.OPTIMIZER: "optimizer"}


def profile_of(
    results: Sequence[Result], machine: Machine | None = None, *, command: str | None = None,
    notes: tuple[str, ...] = (),
) -> Profile:  # fmt: skip
    """The cases that were measured; failed and unsupported ones have no row. Times, launches and
    amounts are those of one execution."""
    done = [r for r in results if r.status == "done" and r.samples_s]
    rows = [_row(r, machine) for r in done]
    source = Source(tool="timeroof study", command=command)
    if not rows:
        empty = pl.DataFrame(schema={"name": pl.String, "time_s": pl.Float64})
        return Profile.of(empty, source, notes=notes)
    flops = {name for row in rows for name in row if name.startswith("flop/")}
    for row in rows:
        # A case that counts FLOPs has none of the precisions that it does not name.
        none = 0.0 if row["flop/fp32"] is not None else None
        row.update(dict.fromkeys(flops - set(row), none))
    numbers = {n: pl.Float64 for row in rows for n in row if n.split("/")[0] in ("flop", "byte")}
    table = pl.DataFrame(rows, infer_schema_length=None, schema_overrides=numbers)
    return Profile.of(table, source, notes=notes)


def _row(result: Result, machine: Machine | None) -> dict[str, object]:
    case = result.case
    # The kernel's name is in `op`: some kernels have a parameter that is called kernel.
    how = ("framework", "precision", "cache", "threads", "variant", "device")
    labels = result.labels | {name: str(getattr(case, name)) for name in how}
    labels["pass"] = case.pass_name
    labels["scope"] = _scope(result, machine)
    if result.load is not None:
        labels["load"] = f"{result.load:.3f}"
    labels |= {parameter_label(name): str(value) for name, value in case.params.items()}
    return {
        "kind": "unit",
        "name": case_name(case),
        "op": case.kernel,
        "phase": _PHASES.get(case.pass_name, "backward"),
        "dtype": case.precision or None,
        "device": case.device,
        "calls": 1.0,
        "launches": result.launches,
        "time_s": statistics.median(result.samples_s),
        "time_spread": spread(result.samples_s),
        "samples": result.samples_s,
        "contraction_flops": result.contraction_flops,
        **{"flop/fp32": None, **result.amounts},
        **{f"{ORIGIN}{what}": origin for what, origin in result.origins.items()},
        **{f"{LABEL}{name}": value for name, value in labels.items()},
    }


def _scope(result: Result, machine: Machine | None) -> str:
    """The ceilings that count: of the place that a case was bound to, or by its threads."""
    placed = result.labels.get("scope")
    if placed and machine is not None and any(c.scope == placed for c in machine.ceilings):
        return placed
    return scope_for(1, machine) if result.case.threads == 1 else "all"


def case_name(case: Case) -> str:
    """What a case is called: what differs from the base case, and what is special of how it ran."""
    found = kernels().get(case.kernel)
    base = found.base if found is not None else {}
    changed = [f"{n}={v}" for n, v in case.params.items() if base.get(n) != v]
    words = [word for word in (case.kernel, case.pass_name, case.precision) if word]
    words += changed or ["base"]
    words += [case.variant] if case.variant != "eager" else []
    words += [case.cache] if case.cache != "warm" else []
    if case.threads != all_cores():
        words.append(f"threads={case.threads}")
    return " ".join(words)


def leaks_of(results: Sequence[Result]) -> dict[str, str]:
    """What users' functions leave behind between cases, by function."""
    found: dict[str, dict[str, None]] = {}
    for result in results:
        for sentence in result.labels.get("leaks", "").split(". "):
            if sentence:
                found.setdefault(result.case.kernel, {})[sentence] = None
    return {name: ". ".join(sentences) for name, sentences in found.items()}


@dataclass(frozen=True)
class Study:
    """What a study found: the judged cases, and what could not be measured."""

    report: Report
    rows: list[Row]
    failures: list[Result] = field(default_factory=list)


def judged_study(
    results: Sequence[Result], machine: Machine | None, *, command: str | None = None,
    notes: Sequence[str] = (),
) -> Study:  # fmt: skip
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
    leaks = [f"{name}: {text}." for name, text in leaks_of(results).items()]
    told = dict.fromkeys((busy_sentence(rows), *leaks, *profile.notes, *verdicts.notes))
    notes = as_notes(text for text in told if text)
    findings = (
        *utilisation_findings(rows),
        *(s.finding() for s in standings(rows)),
        *conclude(rows, machine),
        *regime_findings(rows),
    )
    failures = [r for r in results if r.status != "done"]
    return Study(replace(report, notes=notes, findings=findings), rows, failures)


def busy_sentence(rows: Sequence[Row]) -> str:
    """How much others used while cases ran; nothing where they used little."""
    load = load_of(rows)
    if load is None:
        return ""
    busy = [row for row in rows if row.busy]
    how = "Their times are the CPU time of 1 thread."
    if not all(row.timed_alone for row in busy):
        how = "Their times are not the kernel's alone."
    where = f"{len(busy)} of {len(rows)} cases"
    return f"Other programs used {format_percent(load)} of the CPU during {where}. {how}"


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
