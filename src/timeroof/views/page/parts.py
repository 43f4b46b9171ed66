"""A machine's ceilings for the page: the roof that counts, measured and printed side by side."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from timeroof.core.resources import LAUNCH
from timeroof.core.units import format_bytes_binary, format_percent, format_seconds
from timeroof.views.rates import format_rate

if TYPE_CHECKING:
    from timeroof.core.machine import Ceiling, Machine
    from timeroof.core.report import Finding, Report

MEASURED = ("user", "measured")
_ORDER = {"flop": 0, "byte": 1, "launch": 2, "fault": 3, "link": 4}


@dataclass(frozen=True)
class CeilingLine:
    """One resource: what was measured, what is printed, and whether the run uses it."""

    resource: str
    measured: str
    printed: str
    share: str
    used: bool
    source: str


def ceiling_lines(report: Report) -> list[CeilingLine]:
    """Every resource that the machine has a figure for, those of the run first."""
    machine = report.machine
    if machine is None:
        return []
    used = {*report.verdicts.resources, LAUNCH}
    by_resource: dict[str, list[Ceiling]] = {}
    for ceiling in machine.ceilings:
        if ceiling.scope == "all" or ceiling.resource == LAUNCH:
            by_resource.setdefault(ceiling.resource, []).append(ceiling)
    lines = [_line(resource, found, resource in used) for resource, found in by_resource.items()]
    return sorted(lines, key=lambda line: (not line.used, _ORDER.get(_head(line.resource), 9)))


def _line(resource: str, ceilings: list[Ceiling], used: bool) -> CeilingLine:
    measured = next((c for o in MEASURED for c in ceilings if c.origin == o), None)
    printed = next((c for c in ceilings if c.origin not in MEASURED), None)
    share = ""
    if measured is not None and printed is not None:
        share = format_percent(measured.rate / printed.rate)
    sources = dict.fromkeys(f"{c.origin}: {c.source}" for c in ceilings if c.source)
    return CeilingLine(
        resource=resource,
        measured=_rate(measured, measured_here=True),
        printed=_rate(printed),
        share=share,
        used=used,
        source="; ".join(sources),
    )


def _rate(ceiling: Ceiling | None, *, measured_here: bool = False) -> str:
    if ceiling is None:
        return ""
    text = format_rate(ceiling.resource, ceiling.rate)
    if ceiling.spread:
        text += f" ± {format_percent(ceiling.spread / 2)}"
    if ceiling.origin not in ("measured", "datasheet") or not measured_here:
        text += f" ({ceiling.origin})" if ceiling.origin != "measured" else ""
    return text


def _head(resource: str) -> str:
    return resource.partition("/")[0]


def machine_facts(machine: Machine) -> list[str]:
    """What a machine is, in a few words each."""
    sizes = [f"{m.level.upper()} {format_bytes_binary(m.size_bytes)}" for m in machine.memory]
    named = [machine.vendor, machine.architecture, machine.kind, f"{machine.launching} launching"]
    return [*(fact for fact in named if fact), *sizes]


# Findings as cards: what, why, what to do, the seconds at stake, and the kernels it is about.


# A finding about more kernels links to the first ones and to all of them at once.
MAX_LINKS = 8


@dataclass(frozen=True)
class KernelLink:
    """A button that shows one kernel; `place` tells kernels of one name apart."""

    id: int
    short_name: str
    name: str
    place: str


@dataclass(frozen=True)
class FindingCard:
    """One finding, ready to be written."""

    code: str
    title: str
    why: str
    action: str | None
    gain: str | None
    kernels: list[int]
    links: list[KernelLink]
    evidence: list[tuple[str, str]]


def ordered_findings(report: Report) -> list[Finding]:
    """The largest gain first, those without a gain in their own order."""
    return sorted(report.findings, key=lambda finding: -(finding.gain_s or 0.0))


def finding_cards(report: Report) -> list[FindingCard]:
    """Every finding as a card."""
    wanted = {k for finding in report.findings for k in finding.kernels[:MAX_LINKS]}
    rows = report.profile.kernels.select("id", "short_name", "name", "module", "phase")
    named = {row["id"]: row for row in rows.filter(rows["id"].is_in(wanted)).iter_rows(named=True)}
    known = set(rows["id"].to_list()) if wanted else set()
    return [
        FindingCard(
            code=finding.code,
            title=finding.title,
            why=finding.why,
            action=finding.action,
            gain=None if finding.gain_s is None else format_seconds(finding.gain_s),
            kernels=[k for k in finding.kernels if k in known],
            links=_links([named[k] for k in finding.kernels[:MAX_LINKS] if k in named]),
            evidence=[(str(k), evidence_text(v)) for k, v in finding.evidence.items()],
        )
        for finding in ordered_findings(report)
    ]


def _links(rows: list[dict[str, Any]]) -> list[KernelLink]:
    """Links to kernels; those that share a short name say where they are."""
    count = Counter(row["short_name"] for row in rows)
    return [
        KernelLink(
            id=row["id"],
            short_name=row["short_name"],
            name=row["name"],
            place=" ".join(filter(None, (row["module"], row["phase"])))
            if count[row["short_name"]] > 1
            else "",
        )
        for row in rows
    ]


def evidence_text(value: Any) -> str:
    """A value of a finding's evidence as a person reads it.

    >>> evidence_text({"ai": 41.4111, "rows": 3, "why": "x"}), evidence_text([1.0, 2])
    ('ai 41.4, rows 3, why x', '1, 2')
    """
    if isinstance(value, dict):
        return ", ".join(f"{key} {evidence_text(v)}" for key, v in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(evidence_text(v) for v in value)
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)
