"""Kernels over ranks: how often and how long each ran on how many ranks, and who was slowest.

A kernel of a fleet is one (kind, name, op, shape, dtype, module, phase), whatever its stream and
labels. Ranks meet by a number that each hashes from these texts, so that thousands of tables are
summed without holding their names, and names are read once.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from timeroof.core.columns import ORIGIN
from timeroof.core.profile import RankTotals, amount_columns

KEY = "key"
SAME_KERNEL = ("kind", "name", "op", "shape", "dtype", "module", "phase")
# Of each kernel of a rank: sums over its streams and labels.
SUMMED = (
    "calls", "launches", "time_s", "timed_s", "exclusive_s", "alone_s", "idle_before_s",
    "contraction_flops", "defined_flops", "padding_flops",
)  # fmt: skip
# Columns in which null means none, and is no unknown part of a sum.
_NULL_IS_NONE = ("padding_flops",)
_TEXTS = (*SAME_KERNEL, "short_name", "algorithm", "library", "tensor_core", "device")
_OVER_RANKS = ("ranks", "rank_min_s", "rank_median_s", "rank_max_s", "slowest_rank")
# A coarse and a fine step of seconds (0.9 ns, 0.4 as), of counts, and of FLOPs and bytes.
_SECONDS_STEPS = (2.0**-30, 2.0**-61)
_COUNT_STEPS = (1.0, 2.0**-31)
_AMOUNT_STEPS = (2.0**20, 2.0**-12)
_LARGEST = 2.0**80
# Further from the median than so many median absolute deviations: an outlier.
OUTLIER_DEVIATIONS = 5.0
# A deviation below this share of the median is no news, however alike the other ranks are.
LEAST_DEVIATION = 0.01


def with_key(kernels: pl.DataFrame) -> pl.DataFrame:
    """The table with the number of each row's kernel."""
    texts = [pl.col(c) for c in SAME_KERNEL if c != "shape"]
    whole = pl.concat_str([t.fill_null("\x00") for t in texts], separator="\x01")
    return kernels.with_columns(pl.struct(whole.alias("texts"), "shape").hash(0).alias(KEY))


def reduced_rows(kernels: pl.DataFrame) -> pl.DataFrame:
    """One row per kernel of one rank: its number, sums of times and amounts, and its texts."""
    keyed = with_key(kernels)
    origins = [c for c in keyed.columns if c.startswith(ORIGIN)]
    summed = (*SUMMED, *amount_columns(kernels))
    return keyed.group_by(KEY, maintain_order=True).agg(
        *(_null_if_unknown(c, sum_in_any_order(c)) for c in summed),
        *(pl.col(c).first() for c in (*_TEXTS, *origins)),
    )


def text_columns(columns: Sequence[str]) -> list[str]:
    """The columns of a reduced table that say what a kernel is."""
    return [c for c in columns if c in _TEXTS or c.startswith(ORIGIN)]


def _null_if_unknown(column: str, summed: pl.Expr) -> pl.Expr:
    value = pl.col(column)
    if column in _NULL_IS_NONE:
        return pl.when(value.is_not_null().any()).then(summed).alias(column)
    return pl.when(value.is_null().any()).then(None).otherwise(summed).alias(column)


def sum_in_any_order(column: str) -> pl.Expr:
    """A sum that is the same to the last bit whatever threads add up first.

    Each value is cut into a coarse and a fine part, multiples of a power of two each, whose sums
    need no rounding: of seconds up to 97 days together and 8 million rows.

    >>> rows = pl.DataFrame({"time_s": [1e-9, 1e5, 1e-9, 0.1]})
    >>> {float(rows.sample(4, shuffle=True, seed=i).select(sum_in_any_order("time_s")).item())
    ...  for i in range(20)}
    {100000.100000002}
    """
    value = pl.col(column)
    coarse, fine = _AMOUNT_STEPS
    if column.endswith("_s"):
        coarse, fine = _SECONDS_STEPS
    elif column in ("calls", "launches"):
        coarse, fine = _COUNT_STEPS
    # Larger values, which no profiler means, would overflow when they are divided.
    is_usual = value.abs() < _LARGEST
    large = pl.when(is_usual).then((value / coarse).round() * coarse).otherwise(value)
    small = ((value - large) / fine).round() * fine
    return large.sum() + small.sum()


def summed_over_ranks(rows: pl.LazyFrame, amounts: Sequence[str]) -> pl.LazyFrame:
    """Reduced rows of all ranks as one row per kernel, and the first rank that has it.

    Sums and counts of nulls alone, since these can be added up file by file: whatever needs all
    ranks' values of a kernel at once is in `spread_over_ranks`.
    """
    columns = (*SUMMED, *amounts)
    summed = rows.group_by(KEY).agg(
        *(sum_in_any_order(c).alias(c) for c in columns),
        *(pl.col(c).null_count().alias(_nulls(c)) for c in columns),
        pl.len().cast(pl.Int64).alias("ranks"),
        pl.col("rank").min().alias("first_rank"),
    )
    return summed.with_columns(_known_sum(c) for c in columns).drop(_nulls(c) for c in columns)


def _nulls(column: str) -> str:
    return f"nulls of {column}"


def _known_sum(column: str) -> pl.Expr:
    """A sum that is unknown where a part of it is, from the sum and the number of nulls in it."""
    nulls, least = pl.col(_nulls(column)), pl.col("ranks") if column in _NULL_IS_NONE else 1
    return pl.when(nulls < least).then(pl.col(column)).alias(column)


def spread_over_ranks(rows: pl.LazyFrame) -> pl.LazyFrame:
    """How long each kernel takes on the fastest, the median and the slowest rank."""
    return rows.select(KEY, "rank", "time_s").group_by(KEY).agg(_spread_over_ranks()[1:])


def _spread_over_ranks() -> list[pl.Expr]:
    """How long a kernel takes on ranks, of one row per rank and kernel."""
    time_s = pl.col("time_s")
    return [
        pl.len().cast(pl.Int64).alias("ranks"),
        time_s.min().alias("rank_min_s"),
        time_s.median().alias("rank_median_s"),
        time_s.max().alias("rank_max_s"),
        # The lowest of those that are equally slow, in whatever order they come.
        pl.col("rank").filter(time_s == time_s.max()).min().alias("slowest_rank"),
    ]


def over_ranks(kernels: pl.DataFrame) -> pl.DataFrame:
    """Rows of single ranks with what their kernel takes on all ranks beside them."""
    keyed = with_key(kernels).drop(*_OVER_RANKS, strict=False)
    per_rank = keyed.group_by(KEY, "rank", maintain_order=True).agg(pl.col("time_s").sum())
    spread = per_rank.group_by(KEY).agg(*_spread_over_ranks())
    return keyed.join(spread, on=KEY, how="left", maintain_order="left").drop(KEY)


def outliers(ranks: Sequence[RankTotals], field: str) -> list[int]:
    """Ranks whose seconds of a kind are far from the others': over 5 median absolute deviations.

    >>> even = [RankTotals(rank=i, wall_s=1.0 + i / 1e4, kernel_s=1.0, communication_s=0.0,
    ...         idle_s=0.0) for i in range(9)]
    >>> slow = RankTotals(rank=9, wall_s=1.5, kernel_s=1.0, communication_s=0.0, idle_s=0.0)
    >>> outliers([*even, slow], "wall_s")
    [9]
    """
    return outlying([(r.rank, s) for r in ranks if (s := getattr(r, field)) is not None])


def outlying(known: Sequence[tuple[int, float]]) -> list[int]:
    """The same of seconds by rank, of which fewer than four tell nothing."""
    if len(known) < 4:
        return []
    middle = _median([value for _, value in known])
    deviation = _median([abs(value - middle) for _, value in known])
    limit = OUTLIER_DEVIATIONS * max(deviation, LEAST_DEVIATION * abs(middle))
    return [rank for rank, value in known if abs(value - middle) > limit]


def _median(values: list[float]) -> float:
    return float(pl.Series(values, dtype=pl.Float64).median() or 0.0)  # type: ignore[arg-type]
