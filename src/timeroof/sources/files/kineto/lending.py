"""Ops for kernels that have none, and the share of an op's work that a kernel does."""

from __future__ import annotations

import polars as pl

from timeroof.sources.files.kineto.linking import INFERRED
from timeroof.sources.files.kineto.trace import COLLECTIVE, KERNEL

_IS_KERNEL = pl.col("kind").is_in([KERNEL, COLLECTIVE])
KEYS = ["op", "signature", "outer", "phase"]


def with_shares(work: pl.DataFrame) -> pl.DataFrame:
    """Add `op_calls`: how many calls of its op each kernel stands for.

    An op may launch several kernels, and its FLOPs must not be counted for each. The
    kernel that takes the longest (by name, on average over calls with that signature)
    stands for the call, or several of that name share it; the others stand for none.
    """
    of_op = ["op", "signature", "name"]
    launched = _IS_KERNEL & (pl.col("call") >= 0)
    kernels = work.filter(launched)
    means = kernels.group_by(of_op).agg(pl.col("duration").mean().alias("mean"))
    named = kernels.group_by("call", *of_op).len().join(means, on=of_op, nulls_equal=True)
    longest = named.sort("mean", "name", descending=True).unique("call", keep="first")
    shares = longest.select("call", "name", (1 / pl.col("len")).alias("op_calls"))
    joined = work.join(shares, on=["call", "name"], how="left", maintain_order="left")
    return joined.with_columns(
        pl.when(launched).then(pl.col("op_calls").fill_null(0.0)).alias("op_calls")
    )


def with_inferred(work: pl.DataFrame) -> pl.DataFrame:
    """Lend kernels without an op the op of linked kernels with the same name and grid.

    Where several ops qualify, the most frequent one lends. Kernels whose grid was not
    recorded lend and borrow nothing: a name alone says too little of the shapes.
    """
    is_kernel = _IS_KERNEL & pl.col("grid").is_not_null()
    place = ["name", "grid"]
    lenders = (
        work.filter(is_kernel & pl.col("op").is_not_null())
        .group_by(*place, *KEYS)
        .agg(pl.len().alias("count"), pl.col("op_calls").mean().alias("lent_calls"))
        .sort("count", descending=True, maintain_order=True)
        .unique(place, keep="first", maintain_order=True)
        .rename({k: f"lent_{k}" for k in KEYS})
        .drop("count")
    )
    if not lenders.height:
        return work
    joined = work.join(lenders, on=place, how="left", maintain_order="left")
    borrows = is_kernel & pl.col("op").is_null() & pl.col("lent_op").is_not_null()
    taken = [pl.when(borrows).then(pl.col(f"lent_{k}")).otherwise(pl.col(k)).alias(k) for k in KEYS]
    return joined.with_columns(
        *taken,
        pl.when(borrows).then(pl.col("lent_calls")).otherwise(pl.col("op_calls")).alias("op_calls"),
        pl.when(borrows).then(INFERRED).otherwise(pl.col("link")).cast(pl.Int8).alias("link"),
    ).select(work.columns)


def integral(values: pl.Expr) -> pl.Expr:
    """Counts as text: whole ones without a point.

    >>> pl.DataFrame({"a": [2.0, 2.5]}).select(integral(pl.col("a")))["a"].to_list()
    ['2', '2.5']
    """
    rounded = values.round(6)
    whole = rounded == rounded.round(0)
    return (
        pl.when(whole)
        .then(rounded.cast(pl.Int64, strict=False).cast(pl.String))
        .otherwise(rounded.cast(pl.String))
    )
