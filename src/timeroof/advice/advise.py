"""From a judged run to findings, largest gain first, with honest totals."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heapreplace
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import polars as pl

from timeroof.advice.context import Context
from timeroof.advice.rule import Rule
from timeroof.advice.rules import FILES
from timeroof.core.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    from timeroof.advice.rule import Claim
    from timeroof.core.report import Finding, Report

    Seconds = npt.NDArray[np.float64]

# All rules, by code. A code is never given to another pattern.

GROUPS = {
    "TR1": "Launching and waiting",
    "TR2": "Memory traffic",
    "TR3": "Arithmetic",
    "TR4": "Several devices",
    "TR9": "The measurement itself",
}

_MODULES = [import_module(f"timeroof.advice.rules.{file}") for file in FILES]
_KINDS = {kind for module in _MODULES for kind in vars(module).values() if isinstance(kind, type)}
RULES: tuple[Rule, ...] = tuple(
    sorted((k() for k in _KINDS if issubclass(k, Rule) and k is not Rule), key=lambda r: r.code)
)


def rule_of(code: str) -> Rule:
    """The rule with a code, in any case of letters.

    >>> rule_of("tr101").name
    'tiny-kernels'
    """
    if found := [rule for rule in RULES if rule.code == code.upper()]:
        return found[0]
    raise UsageError(
        f"no finding has the code {code!r}",
        advice=f"codes are {RULES[0].code} to {RULES[-1].code}; docs/findings.md lists them",
    )


CUMULATIVE = "cumulative_gain_s"
OWN = "own_gain_s"
# A row is explained by a rule that claims this part of its time.
EXPLAINED_SHARE = 0.3


def advise(report: Report, codes: Iterable[str] | None = None) -> list[Finding]:
    """The findings of all rules, largest gain first; with `codes` only those of these codes.

    `gain_s` is what a finding gives back beyond those above it: a second that two findings
    claim counts once, so that gains add up and never exceed the run. What a cure gives by itself
    is `evidence["own_gain_s"]`, the sum down to a finding `evidence["cumulative_gain_s"]`.
    """
    wanted = None if codes is None else set(codes)
    findings = findings_of(Context.of(report), RULES)
    return [f for f in findings if wanted is None or f.code in wanted]


def findings_of(context: Context, rules: Iterable[Rule]) -> list[Finding]:
    """Findings of some rules on one context, largest gain first."""
    if not context.total_s:  # no second can be given back
        return []
    claims = _claims(context, [r for r in rules if r.counts or not context.untrusted])
    told = sorted((c for c in claims if c.informs), key=lambda claim: claim.code)
    gaining = _largest_first([c for c in claims if not c.informs], context.total_s)
    return [*gaining, *(claim.finding for claim in told)]


def _claims(context: Context, rules: list[Rule]) -> list[Claim]:
    """Claims of all rules; those of last resort see only rows that no other explains."""
    claims: list[Claim] = []
    explained: list[pl.DataFrame] = []
    for rule in (r for r in rules if not r.last_resort):
        found = rule.claims(context)
        claims += found
        explained += [c.gains for c in found if rule.explains]
    rest = context.without(_explained_rows(context, explained))
    for rule in (r for r in rules if r.last_resort):
        claims += rule.claims(rest)
    return claims


def _explained_rows(context: Context, gains: list[pl.DataFrame]) -> list[int]:
    """Rows of which other rules claim a good part."""
    if not gains:
        return []
    rows = pl.concat(gains).join(context.rows.select("id", "time_s"), on="id")
    claimed = pl.col("busy_s") >= EXPLAINED_SHARE * pl.col("time_s")
    return rows.filter(claimed)["id"].unique().to_list()


class _Taken:
    """The seconds that findings have claimed so far: per row the largest claim, never the sum.

    Two cures of one row cannot give back more than its time less the lowest bound that they lead
    to, which is the larger of the two gains. Idle seconds are shared the same way, by row and by
    group of causes, and beside the rows by group.
    """

    def __init__(self, rows: int, most_s: float) -> None:
        self.busy_s = np.zeros(rows)
        self.idle_s: dict[str, Seconds] = {}
        self.outside_s: dict[str, float] = {}
        self.left_s = most_s

    def added_s(self, claim: Claim) -> float:
        """What a claim adds to those before it."""
        ids = claim.gains["id"].to_numpy()
        added = np.clip(claim.gains["busy_s"].to_numpy() - self.busy_s[ids], 0.0, None).sum()
        idle = claim.gains["idle_s"].to_numpy() - self._idle(claim)[ids]
        added += np.clip(idle, 0.0, None).sum()
        for group, seconds in claim.outside_s.items():
            added += max(0.0, seconds - self.outside_s.get(group, 0.0))
        return min(float(added), self.left_s)

    def take(self, claim: Claim, added_s: float) -> None:
        """Remember whose seconds a claim has."""
        ids = claim.gains["id"].to_numpy()
        np.maximum.at(self.busy_s, ids, claim.gains["busy_s"].to_numpy())
        np.maximum.at(self._idle(claim), ids, claim.gains["idle_s"].to_numpy())
        for group, seconds in claim.outside_s.items():
            self.outside_s[group] = max(seconds, self.outside_s.get(group, 0.0))
        self.left_s = max(0.0, self.left_s - added_s)

    def _idle(self, claim: Claim) -> Seconds:
        return self.idle_s.setdefault(claim.idle_group, np.zeros(len(self.busy_s)))


def _largest_first(claims: list[Claim], most_s: float) -> list[Finding]:
    """Findings in the order in which each adds most to those above it."""
    rows = 1 + max((int(c.gains["id"].max() or 0) for c in claims if c.gains.height), default=0)  # type: ignore[arg-type]
    taken, cumulative_s = _Taken(rows, most_s), 0.0
    findings: list[Finding] = []
    # What a claim adds only falls as others are taken: one that still adds most is the next.
    waiting = [(-(claim.gain_s or 0.0), claim.code, place) for place, claim in enumerate(claims)]
    heapify(waiting)
    while waiting:
        _, code, place = waiting[0]
        claim = claims[place]
        added_s = taken.added_s(claim)
        if heapreplace(waiting, (-added_s, code, place)) and waiting[0][2] != place:
            continue
        heappop(waiting)
        taken.take(claim, added_s)
        cumulative_s += added_s
        findings.append(_as_finding(claim, added_s, cumulative_s))
    return findings


def _as_finding(claim: Claim, added_s: float, cumulative_s: float) -> Finding:
    finding = claim.finding
    sums = {OWN: finding.gain_s, CUMULATIVE: cumulative_s}
    evidence = {**finding.evidence, **sums}
    return msgspec.structs.replace(finding, gain_s=added_s, evidence=evidence)
