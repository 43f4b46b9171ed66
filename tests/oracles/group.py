"""Group judged rows by any of their words: name, op, module, phase, precision, a label."""

from __future__ import annotations

import polars as pl

from timeroof.core.columns import ratio
from timeroof.core.errors import UsageError
from timeroof.core.machine import FAULT, LAUNCH
from timeroof.core.profile import LABEL, Profile, amount_columns
from timeroof.core.report import BOUND, Verdicts, judged_rows
from timeroof.model.bounds import combined_bound

SUMMED = (
    "calls",
    "launches",
    "time_s",
    "idle_before_s",
    "contraction_flops",
    "defined_flops",
    "padding_flops",
)
SUMMED_VERDICTS = ("work_bound_s", "overhead_time_s", "bound_s", "elapsed_s", "gap_s")


def group(profile: Profile, verdicts: Verdicts, by: list[str]) -> pl.DataFrame:
    """Sum judged rows per group, longest first.

    The bound of a group is the sum of its rows' bounds: every kernel at its roof. Beside
    it, `summed_bound_s` is the bound of the summed amounts: the group as one kernel.
    A sum is null where no row of the group knows the value; `unknown_time_s` are
    the seconds of rows without a bound. `limiter` is the one that holds most seconds.
    """
    rows = judged_rows(profile, verdicts)
    keys = [_column(rows, name) for name in by]
    amounts = amount_columns(rows)
    summed = [*SUMMED, *SUMMED_VERDICTS, *amounts, *(f"{BOUND}{r}" for r in verdicts.resources)]
    limiter = (
        rows.group_by(*keys, "limiter", maintain_order=True)
        .agg(pl.col("time_s").sum())
        .sort("time_s", descending=True, maintain_order=True)
        .group_by(*keys, maintain_order=True)
        .agg(pl.col("limiter").first())
    )
    groups = rows.group_by(*keys, maintain_order=True).agg(
        pl.len().alias("rows"),
        *(_known_sum(c) for c in summed),
        pl.col("time_s").filter(pl.col("bound_s").is_null()).sum().alias("unknown_time_s"),
    )
    groups = groups.with_columns(_summed_bound(verdicts).alias("summed_bound_s"))
    groups = groups.drop(f"{BOUND}{r}" for r in verdicts.resources)
    return (
        groups.join(limiter, on=keys, nulls_equal=True, how="left")
        .with_columns(
            ratio("work_bound_s", "time_s").alias("kernel_efficiency"),
            ratio("bound_s", "elapsed_s").alias("efficiency"),
        )
        .sort("time_s", descending=True, nulls_last=True, maintain_order=True)
    )


def _summed_bound(verdicts: Verdicts) -> pl.Expr:
    """The bound of summed amounts from sums of bounds: both are amounts over the same rates."""
    null = pl.lit(None, pl.Float64)
    parts = {r: pl.col(f"{BOUND}{r}") for r in verdicts.resources}
    work = [e for r, e in parts.items() if r not in (FAULT, LAUNCH)]
    return combined_bound(
        pl.max_horizontal(work) if work else null,
        parts.get(FAULT, null),
        parts.get(LAUNCH, null),
        asynchronous=verdicts.asynchronous,
    )


def summed_units(profile: Profile, by: list[str]) -> Profile:
    """The paper's unit: all rows of a group as one row with summed amounts.

    A sum is known only if every row knows its part.
    """
    rows = profile.kernels
    keys = [_column(rows, name) for name in by]
    summed = [*SUMMED, *amount_columns(rows)]
    table = rows.group_by(*keys, maintain_order=True).agg(
        pl.when(pl.col(c).null_count() == 0).then(pl.col(c).sum()).alias(c) for c in summed
    )
    named = table.with_columns(
        pl.lit("unit").alias("kind"),
        pl.concat_str(*(pl.col(k).fill_null("-") for k in keys), separator=" ").alias("name"),
    )
    return profile.with_kernels(named)


def _column(rows: pl.DataFrame, name: str) -> str:
    for column in (name, f"{LABEL}{name}"):
        if column in rows.columns:
            return column
    raise UsageError(
        f"rows cannot be grouped by {name!r}",
        advice="use a column such as name, op, module, phase, dtype, limiter, or a label",
    )


def _known_sum(column: str) -> pl.Expr:
    return pl.when(pl.col(column).count() > 0).then(pl.col(column).sum()).alias(column)
