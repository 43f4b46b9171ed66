"""From a judged run to findings, largest gain first, with honest totals."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec
import polars as pl

from timeroof.advice.context import Context
from timeroof.advice.rule import Rule
from timeroof.advice.rules import FILES
from timeroof.core.errors import UsageError

if TYPE_CHECKING:
    from timeroof.advice.rule import Claim
    from timeroof.core.report import Finding, Report

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
# A row is explained by a rule that claims this part of its time.
EXPLAINED_SHARE = 0.3


def advise(report: Report, codes: Iterable[str] | None = None) -> list[Finding]:
    """The findings of all rules, largest gain first; with `codes` only those of these codes.

    `evidence["cumulative_gain_s"]` is what a finding and all above it can give back
    together: a second that two findings claim counts once.
    """
    wanted = None if codes is None else set(codes)
    findings = findings_of(Context.of(report), RULES)
    return [f for f in findings if wanted is None or f.code in wanted]


def findings_of(context: Context, rules: Iterable[Rule]) -> list[Finding]:
    """Findings of some rules on one context, largest gain first."""
    if not context.rows.height and not context.totals.idle_by_cause:
        return []
    claims = _claims(context, list(rules))
    claims.sort(key=lambda claim: (-(claim.gain_s or 0.0), claim.code))
    return [
        _with_cumulative(claim, together_s(claims[: place + 1], context))
        for place, claim in enumerate(claims)
    ]


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


def together_s(claims: list[Claim], context: Context) -> float:
    """What claims can give back together: per row the largest, never the sum.

    Two cures of one row cannot give back more than its time less the lowest bound that
    they lead to, which is the larger of the two gains. Idle seconds are shared the same
    way, by row and by cause.
    """
    gains = pl.concat([claim.gains for claim in claims])
    best = gains.group_by("id", maintain_order=True).agg(
        pl.col("busy_s").max(), pl.col("idle_s").max()
    )
    outside: dict[str, float] = {}
    for claim in claims:
        for cause, seconds in claim.outside_s.items():
            outside[cause] = max(seconds, outside.get(cause, 0.0))
    rows_s = float(best["busy_s"].sum()) + float(best["idle_s"].sum())
    return min(rows_s + sum(outside.values()), context.total_s)


def _with_cumulative(claim: Claim, cumulative_s: float) -> Finding:
    finding = claim.finding
    if claim.informs:
        return finding
    return msgspec.structs.replace(finding, evidence={**finding.evidence, CUMULATIVE: cumulative_s})
