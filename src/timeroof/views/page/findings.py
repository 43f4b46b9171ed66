"""Findings as cards: what, why, what to do, the seconds at stake, and the kernels it is about."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from timeroof.core.units import format_seconds

if TYPE_CHECKING:
    from timeroof.core.report import Finding, Report

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
