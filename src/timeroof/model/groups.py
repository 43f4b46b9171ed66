"""Rows of one kernel as one line: what every list of the largest kernels shows.

Seconds are those of a mean rank, as the totals are. Rates are null where one row's amounts are
unknown, so that a list never shows a rate of a part as that of the whole.
"""

from __future__ import annotations

import polars as pl

from timeroof.core.resources import DRAM
from timeroof.model.totals import rank_count

KEYS = ("short_name", "op")


def kernel_groups(rows: pl.DataFrame) -> pl.DataFrame:
    """One line per kernel and op of judged rows, largest time first.

    Columns: `short_name`, `op`, `limiter` and `limit` (those of the longest row), `time_s`,
    `idle_before_s`, `elapsed_s`, `bound_s`, `gap_s` (null where a row has none), `calls`,
    `launches`, `share` (of the time of all rows), `achieved_flop_per_s`,
    `achieved_byte_per_s`, `kernel_efficiency` and `rows`, the ids behind the line.
    """
    ranks = rank_count(rows)
    timed = rows.filter(pl.col("time_s").is_not_null()).with_columns(_moved(rows).alias("_bytes"))
    sums = ("time_s", "elapsed_s", "calls", "launches")
    whole = ("bound_s", "gap_s", "work_bound_s", "owed_flops", "_bytes")
    longest_first = pl.col("limiter", "limit").sort_by("time_s", descending=True).first()
    grouped = (
        timed.group_by(KEYS, maintain_order=True)
        .agg(
            pl.col(sums).sum() / ranks,
            *(_whole_sum(c) / ranks for c in whole),
            _known_sum("idle_before_s") / ranks,
            longest_first,
            pl.col("id").alias("rows"),
        )
        .sort("time_s", descending=True, maintain_order=True)
    )
    total_s = float(grouped["time_s"].sum()) or 1.0
    return grouped.with_columns(
        (pl.col("time_s") / total_s).alias("share"),
        _per_second("owed_flops").alias("achieved_flop_per_s"),
        _per_second("_bytes").alias("achieved_byte_per_s"),
        pl.when(pl.col("gap_s").is_not_null())
        .then(_per_second("work_bound_s"))
        .alias("kernel_efficiency"),
    ).drop("_bytes", "owed_flops", "work_bound_s")


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
