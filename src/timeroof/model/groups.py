"""Rows of one kernel as one line: what every list of the largest kernels shows.

Seconds are those of a mean device, as the totals are. Rates are null where one row's amounts are
unknown, so that a list never shows a rate of a part as that of the whole.
"""

from __future__ import annotations

import polars as pl

from timeroof.core.resources import DRAM

KEY = "short_name"
# Rows with a known limit stand for their group where they hold this share of its time.
LEAST_SETTLED = 0.5


def kernel_groups(rows: pl.DataFrame, devices: int | None = None) -> pl.DataFrame:
    """One line per kernel of judged rows, largest time first.

    Seconds are divided by `devices`, by default the ranks. Columns: `short_name`, `ops` (those
    that launch it, the longest first), `limiter` and `limit` (those of most seconds), `time_s`,
    `idle_before_s`, `elapsed_s`, `bound_s`, `gap_s` (null where a row has none), `calls`,
    `launches`, `share` (of the time of all rows), `achieved_flop_per_s`,
    `achieved_byte_per_s`, `kernel_efficiency` (of the rows that have one, where these hold half
    of the time), `of_limit` (the same, but of the elapsed time where launching is the limit) and
    `rows`, the ids behind the line.
    """
    parts = devices or max(1, rows["rank"].drop_nulls().n_unique())
    timed = rows.filter(pl.col("time_s").is_not_null()).with_columns(
        _moved(rows).alias("_bytes"), pl.col("time_s").sum().over(KEY, "limit").alias("_limit_s")
    )
    sums = ("time_s", "elapsed_s", "calls", "launches")
    whole = ("bound_s", "gap_s", "owed_flops", "_bytes")
    most_first = pl.col("limiter", "limit").sort_by("_limit_s", "time_s", descending=True).first()
    grouped = (
        timed.group_by(KEY, maintain_order=True)
        .agg(
            pl.col(sums).sum() / parts,
            *(_whole_sum(c) / parts for c in whole),
            _known_sum("idle_before_s") / parts,
            most_first,
            *shares_of_bounds(),
            _ops(),
            pl.col("id").alias("rows"),
        )
        .sort("time_s", descending=True, maintain_order=True)
    )
    total_s = float(grouped["time_s"].sum()) or 1.0
    return grouped.with_columns(
        (pl.col("time_s") / total_s).alias("share"),
        _per_second("owed_flops").alias("achieved_flop_per_s"),
        _per_second("_bytes").alias("achieved_byte_per_s"),
        of_limit(),
    ).drop("_bytes", "owed_flops", "efficiency")


def _ops() -> pl.Expr:
    """The ops of a kernel, those of its longest rows first."""
    longest_first = pl.col("op").sort_by("time_s", descending=True)
    return longest_first.drop_nulls().unique(maintain_order=True).alias("ops")


def shares_of_bounds() -> list[pl.Expr]:
    """What a group's rows reach of the bound of their work, and of all their bounds."""
    return [
        _efficiency("kernel_efficiency", "work_bound_s", "time_s"),
        _efficiency("efficiency", "bound_s", "elapsed_s"),
    ]


def of_limit() -> pl.Expr:
    """What a group reaches of its limit: launching counts where that is the limit."""
    launching = pl.col("limit") == "launch"
    return pl.when(launching).then("efficiency").otherwise("kernel_efficiency").alias("of_limit")


def _efficiency(column: str, least: str, taken: str) -> pl.Expr:
    """An efficiency of the rows that have one; null where they hold less than half of the time."""
    time_s, settled = pl.col("time_s"), pl.col(column).is_not_null()
    settled_s = time_s.filter(settled).sum()
    enough = (settled_s > 0) & (settled_s >= LEAST_SETTLED * time_s.sum())
    share = pl.col(least).filter(settled).sum() / pl.col(taken).filter(settled).sum()
    return pl.when(enough).then(share).alias(column)


def _moved(rows: pl.DataFrame) -> pl.Expr:
    return pl.col(DRAM) if DRAM in rows.columns else pl.lit(None, pl.Float64)


def _whole_sum(column: str) -> pl.Expr:
    """The sum over rows that all have it, else null."""
    return pl.when(pl.col(column).null_count() == 0).then(pl.col(column).sum()).alias(column)


def _known_sum(column: str) -> pl.Expr:
    """The sum over the rows that have it; null where none has."""
    known = pl.col(column).is_not_null().any()
    return pl.when(known).then(pl.col(column).sum()).alias(column)


def _per_second(column: str) -> pl.Expr:
    return pl.when(pl.col("time_s") > 0).then(pl.col(column) / pl.col("time_s"))
