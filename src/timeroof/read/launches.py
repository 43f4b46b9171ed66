"""Launches of kernels, one row each, and how they become the rows of a profile.

Every reader of counters ends here: a table with `name`, `time_s` and amounts per launch
becomes one row per kernel, with exact totals, its calls and the single times.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from timeroof.core.profile import LABEL, ORIGIN, amount_columns

# Single times are kept where they are few enough to be looked at.
MAX_SAMPLES = 1000

# What makes launches one row, beside the kernel's name.
ROW_KEYS = ("kind", "name", "op", "shape", "dtype", "module", "phase", "rank", "device")


def rows_of_launches(launches: pl.DataFrame) -> pl.DataFrame:
    """One row per kernel: totals over its launches, unknown where one launch is unknown.

    A stream or label stays where all launches of the kernel agree on it.
    """
    keys = [k for k in ROW_KEYS if k in launches.columns]
    agreed = [c for c in launches.columns if c == "stream" or c.startswith((LABEL, ORIGIN))]
    amounts = [*amount_columns(launches), *(c for c in ("idle_before_s",) if c in launches.columns)]
    calls = pl.col("calls").sum() if "calls" in launches.columns else pl.len()
    return (
        launches.lazy()
        .group_by(keys, maintain_order=True)
        .agg(
            calls.cast(pl.Float64).alias("calls"),
            _known_sum("time_s"),
            _spread(),
            _samples(),
            *(_known_sum(c) for c in amounts),
            *(_agreed(c) for c in agreed),
        )
        .collect()
    )


def _known_sum(column: str) -> pl.Expr:
    known = pl.col(column).null_count() == 0
    return pl.when(known).then(pl.col(column).sum()).alias(column)


def _agreed(column: str) -> pl.Expr:
    one = pl.col(column).n_unique() == 1
    return pl.when(one).then(pl.col(column).first()).alias(column)


def _spread() -> pl.Expr:
    """(p75 - p25) / median of the single times, null for one."""
    time = pl.col("time_s")
    between = time.quantile(0.75, "linear") - time.quantile(0.25, "linear")
    several = (pl.len() > 1) & (time.median() > 0)
    return pl.when(several).then(between / time.median()).alias("time_spread")


def _samples() -> pl.Expr:
    few = (pl.len() > 1) & (pl.len() <= MAX_SAMPLES) & (pl.col("time_s").null_count() == 0)
    return pl.when(few).then(pl.col("time_s").implode()).alias("samples")


def drop_impossible(launches: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Launches without those whose time is below 0 or no number, and a note that says so."""
    time = pl.col("time_s")
    possible = launches.filter(time.is_null() | (time.is_finite() & (time >= 0)))
    gone = launches.height - possible.height
    notes = []
    if gone:
        notes.append(
            f"{gone} of {launches.height} launches have a time that is negative or no number;"
            " they are left out."
        )
    return _impossible_amounts_unknown(possible), notes


def _impossible_amounts_unknown(launches: pl.DataFrame) -> pl.DataFrame:
    amounts = amount_columns(launches)
    return launches.with_columns(
        pl.when(pl.col(c).is_finite() & (pl.col(c) >= 0)).then(pl.col(c)).alias(c) for c in amounts
    )


def shown_list(names: Sequence[str], most: int = 5) -> str:
    """A few names of many, for a message.

    >>> shown_list(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    shown = ", ".join(name if len(name) <= 80 else name[:77] + "..." for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
