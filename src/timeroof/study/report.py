"""Results as a profile, one row per case, and judged: each on the ceilings of its cores."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl
from msgspec import structs

from timeroof.api.live import scope_for
from timeroof.api.reports import Report
from timeroof.core import VERSION
from timeroof.core.errors import as_notes
from timeroof.core.machine import Machine
from timeroof.core.profile import LABEL, ORIGIN, Profile, Source
from timeroof.core.report import Verdicts
from timeroof.core.units import format_percent
from timeroof.model.judge import judge
from timeroof.model.stats import spread
from timeroof.model.totals import totals
from timeroof.study import case as k
from timeroof.study.case import MACHINE, NODE, Case, Result
from timeroof.study.czaja import utilisation_findings
from timeroof.study.factors import conclude
from timeroof.study.grid import all_cores
from timeroof.study.judged_cases import Row, parameter_label, typed_rows
from timeroof.study.kernels import kernels
from timeroof.study.regimes import regime_findings
from timeroof.study.standing import load_of, standings

SCOPE = f"{LABEL}scope"
_PHASES = {k.CALIBRATE: "data", k.FORWARD: "forward", k.OPTIMIZER: "optimizer"}


# Machines of a cluster's nodes, by node and kind of machine.
Machines = Mapping[tuple[str, str], Machine]


def profile_of(
    results: Sequence[Result], machine: Machine | None = None, *, command: str | None = None,
    notes: tuple[str, ...] = (), by_node: Machines | None = None,
) -> Profile:  # fmt: skip
    """The cases that were measured; failed and unsupported ones have no row. Times, launches and
    amounts are those of one execution."""
    done = [r for r in results if r.status == "done" and r.samples_s]
    rows = [_row(r, _own(r.labels, machine, by_node)) for r in done]
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


def _own(
    labels: Mapping[str, str | None], machine: Machine | None, by_node: Machines | None
) -> Machine | None:
    """The machine that a case is judged on: its node's, where that is known."""
    place = (labels.get(NODE) or "", labels.get(MACHINE) or "")
    return (by_node or {}).get(place, machine)


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


def alike(failures: Sequence[Result]) -> list[list[Result]]:
    """Failures of one kernel for the same reason together."""
    found: dict[tuple[str, str, str | None], list[Result]] = {}
    for one in failures:
        found.setdefault((one.status, one.case.kernel, one.error), []).append(one)
    return list(found.values())


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
    notes: Sequence[str] = (), by_node: Machines | None = None,
) -> Study:  # fmt: skip
    """Judge results: cases on one thread on one core's ceilings, all others on all cores'. Cases of
    a cluster's nodes are judged on these nodes' machines."""
    profile = profile_of(results, machine, command=command, notes=tuple(notes), by_node=by_node)
    verdicts = _judged(profile, machine, by_node)
    mixed = any(own != machine for own in (by_node or {}).values())
    report = Report(
        profile=profile,
        machine=machine,
        verdicts=verdicts,
        # What fusing would give is told of one machine only.
        totals=totals(profile, verdicts, None if mixed else machine),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        version=VERSION,
    )
    names = {r.case.kernel: list(r.case.params) for r in results}
    rows = _beside_main(typed_rows(report.rows, names), machine, by_node)
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


def _beside_main(rows: list[Row], machine: Machine | None, by_node: Machines | None) -> list[Row]:
    """Rows that name their machine only where it is another than that of the report."""
    main = {kind for (_, kind), own in (by_node or {}).items() if own == machine}
    main = main if len({row.machine for row in rows}) > 1 else {row.machine for row in rows}
    return [replace(row, machine="") if row.machine in main else row for row in rows]


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


def _judged(profile: Profile, machine: Machine | None, by_node: Machines | None) -> Verdicts:
    """Judge each scope of each machine by itself and put the verdicts together in the profile's
    order."""
    rows = profile.kernels
    places = [name for name in (SCOPE, LABEL + NODE, LABEL + MACHINE) if name in rows.columns]
    groups = rows.partition_by(places, maintain_order=True) if len(profile) else []
    homes = [(own, _own(_labels(own), machine, by_node)) for own in groups]
    # Roofs of the whole are those of the first: the main machine's, "all" before "core".
    homes.sort(key=lambda home: (home[1] != machine, home[0][SCOPE][0]))
    parts = [judge(profile.with_kernels(o), m, scope=o[SCOPE][0]) for o, m in homes]
    if len(parts) < 2:
        return parts[0] if parts else judge(profile, machine)
    together = pl.concat([p.table for p in parts], how="diagonal")
    table = rows.select("id").join(
        together, on="id", how="left", maintain_order="left", validate="1:1"
    )
    notes = tuple(dict.fromkeys(n for p in parts for n in p.notes))
    return structs.replace(parts[0], table=table, notes=notes)


def _labels(rows: pl.DataFrame) -> dict[str, str | None]:
    """Node and kind of machine of rows that share both."""
    return {name: rows[LABEL + name][0] for name in (NODE, MACHINE) if LABEL + name in rows.columns}
