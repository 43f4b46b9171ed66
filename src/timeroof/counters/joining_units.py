"""Counters of a whole region beside a timed profile: perf counts no single kernels."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from timeroof.core.profile import ORIGIN, Profile, amount_columns
from timeroof.core.units import format_amount

# The name of a region that is an average step.
ONE_STEP = "one step"


def is_one_unit(counted: Profile) -> bool:
    """Whether the counters are of one region as a whole."""
    return counted.kernels["kind"].to_list() == ["unit"]


def join_unit(timed: Profile, counted: Profile) -> Profile:
    """Amounts of a region for the one unit that was timed, or as a note beside many rows."""
    if timed.kernels.height != 1:
        return replace(timed, notes=(*timed.notes, *_beside(timed, counted), *counted.notes))
    amounts = [c for c in amount_columns(counted.kernels) if counted.kernels[c][0] is not None]
    table = timed.kernels
    calls = float(table["calls"][0] or 1.0) / float(counted.kernels["calls"][0] or 1.0)
    columns = [pl.lit(counted.kernels[c][0] * calls).alias(c) for c in amounts]
    if any(c.startswith("flop/") for c in amounts):
        others = [c for c in amount_columns(table) if c.startswith("flop/") and c not in amounts]
        columns += [pl.lit(0.0).alias(c) for c in others]
    origins = [c for c in counted.kernels.columns if c.startswith(ORIGIN) and c != f"{ORIGIN}time"]
    columns += [pl.lit(counted.kernels[c][0]).alias(c) for c in origins if counted.kernels[c][0]]
    joined = timed.with_kernels(table.with_columns(columns))
    said = ", ".join(amounts) or "nothing"
    first = f"Measured by {counted.source.tool}: {said}; the time is from the clean run."
    return replace(joined, notes=tuple(dict.fromkeys((*timed.notes, first, *counted.notes))))


def _beside(timed: Profile, counted: Profile) -> list[str]:
    """What was counted for the whole, and what the rows' shapes say."""
    notes = []
    for prefix, unit in (("flop/", "FLOP"), ("byte/dram", "B"), ("fault", "")):
        measured = _total(counted, prefix)
        if measured is not None:
            own = _total(timed, prefix)
            notes.append(
                f"{counted.source.tool} counted {_shown(measured, unit)} for {_what(counted)}; the"
                f" rows' own amounts are {_shown(own, unit)} and stay as they were."
            )
    return notes


def _what(counted: Profile) -> str:
    return ONE_STEP if counted.kernels["name"][0] == ONE_STEP else "the whole region"


def _shown(value: float | None, unit: str) -> str:
    if unit:
        return format_amount(value, unit)
    return "unknown" if value is None else f"{value:.0f} page faults"


def _total(profile: Profile, prefix: str) -> float | None:
    columns = [c for c in amount_columns(profile.kernels) if c.startswith(prefix)]
    values = [profile.kernels[c] for c in columns]
    if not values or any(v.null_count() for v in values):
        return None
    return float(sum(v.sum() for v in values))
