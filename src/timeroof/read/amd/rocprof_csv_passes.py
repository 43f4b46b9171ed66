"""Counters from several runs of one program, joined to its dispatches.

A chip counts a few things at a time, so profilers repeat the program. Runs are joined by
kernel name, grid and occurrence (the n-th dispatch of that kernel), never by dispatch number.
"""

from __future__ import annotations

import polars as pl

OCCURRENCE = "_occurrence"


def number_occurrences(table: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Number the dispatches of each kernel in order."""
    return table.with_columns(pl.int_range(pl.len()).over(keys).alias(OCCURRENCE))


def wide(long: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """One row per (keys, occurrence) from one row per counter; repeats are averaged.

    `long` has the keys, dispatch, counter and value, of one run.
    """
    order = long.select(*keys, "dispatch").unique(maintain_order=True)
    order = number_occurrences(order, keys)
    named = long.join(order, on=[*keys, "dispatch"], how="left", nulls_equal=True)
    table = named.pivot(
        "counter", index=[*keys, OCCURRENCE], values="value", aggregate_function="mean"
    )
    return table.drop([c for c in table.columns if c == "null"])


def join_passes(passes: list[pl.DataFrame], keys: list[str]) -> pl.DataFrame:
    """Wide tables of several runs side by side; a counter of several runs is averaged."""
    on = [*keys, OCCURRENCE]
    stacked = pl.concat(passes, how="diagonal")
    return stacked.group_by(on, maintain_order=True).agg(pl.exclude(on).mean())


def lend_counters(
    dispatches: pl.DataFrame, counters: pl.DataFrame, keys: list[str]
) -> tuple[pl.DataFrame, list[str]]:
    """Dispatches with their counters; those not measured take the mean of the same kernel's.

    A lent value is marked in column ``_lent``. Returns notes on both cases.
    """
    names = [c for c in counters.columns if c not in (*keys, OCCURRENCE)]
    joined = number_occurrences(dispatches, keys).join(
        counters, on=[*keys, OCCURRENCE], how="left", nulls_equal=True, maintain_order="left"
    )
    measured = pl.any_horizontal(pl.col(c).is_not_null() for c in names)
    joined = joined.with_columns((~measured).alias("_lent"))
    means = counters.group_by(keys).agg(pl.col(c).mean().alias(f"_mean_{c}") for c in names)
    joined = joined.join(means, on=keys, how="left", nulls_equal=True, maintain_order="left")
    joined = joined.with_columns(
        pl.when(pl.col("_lent")).then(pl.col(f"_mean_{c}")).otherwise(pl.col(c)).alias(c)
        for c in names
    )
    known = pl.any_horizontal(pl.col(c).is_not_null() for c in names)
    lent = joined.filter(pl.col("_lent") & known).height
    bare = joined.filter(~known).height
    notes = []
    if lent:
        notes.append(
            f"{lent} of {joined.height} dispatches were not counted themselves: their amounts are"
            " the mean of the same kernel and grid, marked as inferred"
        )
    if bare:
        notes.append(f"{bare} of {joined.height} dispatches have no counters: amounts unknown")
    return joined.drop([f"_mean_{c}" for c in names] + [OCCURRENCE]), notes


def mark_lent(table: pl.DataFrame) -> pl.DataFrame:
    """Origins of lent amounts become ``inferred``."""
    origins = [c for c in table.columns if c.startswith("origin.") and c != "origin.time"]
    lent = pl.col("_lent")
    return table.with_columns(
        pl.when(lent & pl.col(c).is_not_null())
        .then(pl.lit("inferred"))
        .otherwise(pl.col(c))
        .alias(c)
        for c in origins
    ).drop("_lent")


def same_counts_note(table: pl.DataFrame, counters: list[str]) -> list[str]:
    """A warning where kernels of different names all show the very same counts."""
    if table["name"].n_unique() < 3 or len(counters) < 3:
        return []
    distinct = table.select(pl.col(c).drop_nulls().n_unique() for c in counters).row(0)
    above_zero = table.select((pl.col(c) > 0).any() for c in counters).row(0)
    if any(above_zero) and max(distinct) <= 1:
        return [
            "all kernels show the same counts: the counters do not belong to single kernels,"
            " so their amounts are unknown"
        ]
    return []
