"""The five factors of the paper as experiments: a design each, and what its numbers say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from timeroof.core.errors import UsageError
from timeroof.study.factors import autotune, intensity, launch, locality, precision
from timeroof.study.factors.conclusion import Conclusion, Effect, left_open

if TYPE_CHECKING:
    import polars as pl

    from timeroof.core.machine import Machine
    from timeroof.core.report import Finding
    from timeroof.study.case import Case, DesignOptions

__all__ = ["FACTOR_NAMES", "Conclusion", "Effect", "conclude", "conclusions", "designs"]

FACTOR_NAMES: tuple[str, ...] = ("intensity", "locality", "autotune", "launch", "precision")

_DESIGNS: dict[str, Callable[[DesignOptions], list[Case]]] = {
    "intensity": intensity.design,
    "locality": locality.design,
    "autotune": autotune.design,
    "launch": launch.design,
    "precision": precision.design,
}
_ANALYSES: dict[str, Callable[[pl.DataFrame, Machine | None], Conclusion | None]] = {
    "intensity": intensity.conclude,
    "locality": locality.conclude,
    "autotune": autotune.conclude,
    "launch": launch.conclude,
    "precision": precision.conclude,
}


def designs(names: Sequence[str], options: DesignOptions) -> list[Case]:
    """Cases of the named factors, `all` for every one; equal cases once."""
    wanted = FACTOR_NAMES if "all" in names else tuple(dict.fromkeys(names))
    for name in wanted:
        if name not in _DESIGNS:
            raise UsageError(
                f"no factor is called {name!r}", advice=f"use {', '.join(FACTOR_NAMES)} or all"
            )
    found: list[Case] = []
    for name in wanted:
        found += [case for case in _DESIGNS[name](options) if case not in found]
    return found


def conclusions(rows: pl.DataFrame, machine: Machine | None) -> list[Conclusion]:
    """What each factor came to; factors for which nothing was compared are left out."""
    found = (analyse(rows, machine) for analyse in _ANALYSES.values())
    return [left_open(conclusion) for conclusion in found if conclusion is not None]


def conclude(rows: pl.DataFrame, machine: Machine | None) -> list[Finding]:
    """The conclusions as findings of a report."""
    return [conclusion.finding() for conclusion in conclusions(rows, machine)]
