"""The five factors of the paper as experiments: a design each, and what its numbers say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from timeroof.core.machine import Machine
from timeroof.core.report import Finding
from timeroof.study.case import Case
from timeroof.study.factors import autotune, intensity, launch, locality, precision
from timeroof.study.factors.across import across_findings, forward_first, main_rows
from timeroof.study.factors.conclusion import Conclusion, Effect
from timeroof.study.grid import DesignOptions, check_choice, unique
from timeroof.study.judged_cases import Row
from timeroof.study.kernels import kernels

__all__ = ["FACTOR_NAMES", "Conclusion", "Effect", "conclude", "conclusions", "designs"]

_FACTORS = (intensity, locality, autotune, launch, precision)
_DESIGNS = {factor.__name__.rpartition(".")[2]: factor.design for factor in _FACTORS}
FACTOR_NAMES = tuple(_DESIGNS)


def designs(names: Sequence[str], options: DesignOptions) -> list[Case]:
    """Cases of the named factors, `all` for every one; equal cases once."""
    check_choice("factor", names, (*FACTOR_NAMES, "all"))
    wanted = FACTOR_NAMES if "all" in names else names
    return unique([case for name in wanted for case in _DESIGNS[name](options)])


def conclusions(rows: Sequence[Row], machine: Machine | None) -> list[Conclusion]:
    """What each factor came to in the first framework; factors for which nothing was compared are
    left out. `across` says what they come to in the others."""
    own = forward_first(main_rows(rows))
    found = [factor.conclude(own, machine) for factor in _FACTORS]
    return [_with_pass(conclusion, own) for conclusion in found if conclusion is not None]


def _with_pass(conclusion: Conclusion, rows: Sequence[Row]) -> Conclusion:
    """The same; a sentence about another pass than the forward one says so."""
    lead = conclusion.lead
    of = {row.pass_name for row in rows if lead is not None and row.id in lead.kernels}
    if not conclusion.concluded or len(of) != 1 or of & {"forward", ""}:
        return conclusion
    sentence = f"{conclusion.sentence.removesuffix('.')} ({of.pop()} pass)."
    return replace(conclusion, sentence=sentence)


def conclude(rows: Sequence[Row], machine: Machine | None) -> list[Finding]:
    """The conclusions as findings of a report, those that decide nothing last."""
    from timeroof.study.standing import paper_words

    found = sorted(conclusions(rows, machine), key=lambda conclusion: not conclusion.concluded)
    # The paper says nothing of a user's function.
    is_ours = any(row.op in kernels() for row in rows)
    own = [one.finding(paper_words(one) if is_ours else None) for one in found]
    return [*own, *across_findings(rows, machine)]
