"""Ops for kernels that have none, and the share of an op's work that a kernel does."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from timeroof.read.torch.linking import INFERRED
from timeroof.read.torch.trace import COLLECTIVE, KERNEL

_IS_KERNEL = pl.col("kind").is_in([KERNEL, COLLECTIVE])
# Kernels that only prepare or finish what another kernel of their op computes.
_BESIDE = re.compile(
    r"^transpose_|batched_transpose|nchwToNhwc|nhwcToNchw|im2(?:d2)?col|SubTensorOp|splitKreduce"
    r"|reduce_1Block|epilogue::impl::globalKernel",
    re.I,
)
# How many steps of a quarter the time of a kernel may be from its lender's (three: not quite
# double), and up to when a time says nothing.
_STEP, _ALIKE_STEPS, _TOO_SHORT_US = 1.25, 3, 10.0
KEYS = ["op", "signature", "outer", "phase"]


def with_shares(work: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Add `op_calls`: how many calls of its op each kernel stands for.

    An op may launch several kernels, and its FLOPs must not be counted for each. The
    kernel that takes the longest (by name, on average over calls with that signature)
    stands for the call, or several of that name share it; the others stand for none. One
    that by its name only changes a layout or adds up partial results stands for a call
    only where there is no other.
    """
    beside = [code for code, name in enumerate(names) if _BESIDE.search(name)]
    of_op = ["op", "signature", "name"]
    launched = _IS_KERNEL & (pl.col("call") >= 0)
    kernels = work.filter(launched)
    means = kernels.group_by(of_op).agg(pl.col("duration").mean().alias("mean"))
    named = kernels.group_by("call", *of_op).len().join(means, on=of_op, nulls_equal=True)
    ranked = named.with_columns((~pl.col("name").is_in(beside)).alias("works"))
    longest = ranked.sort("works", "mean", "name", descending=True).unique("call", keep="first")
    shares = longest.select("call", "name", (1 / pl.col("len")).alias("op_calls"))
    joined = work.join(shares, on=["call", "name"], how="left", maintain_order="left")
    return joined.with_columns(
        pl.when(launched).then(pl.col("op_calls").fill_null(0.0)).alias("op_calls")
    )


def with_inferred(work: pl.DataFrame) -> pl.DataFrame:
    """Lend kernels without an op the op of linked kernels with the same name and grid.

    A product's grid does not tell how much is summed over, but its time does: of several
    ops those lend whose kernels take about as long, of these the most frequent, and none
    where the times are far apart. Kernels whose grid was not recorded lend and borrow
    nothing: a name alone says too little of the shapes.
    """
    is_kernel = _IS_KERNEL & pl.col("grid").is_not_null()
    place = ["name", "grid"]
    linked = work.filter(is_kernel & pl.col("op").is_not_null())
    borrows = is_kernel & pl.col("op").is_null()
    if not linked.height:
        return work
    timed = work.with_columns(_length(pl.col("duration")).alias("length"))
    asking = timed.filter(borrows).select(*place, "length").unique()
    chosen = (
        asking.join(_lenders(linked, place), on=place)
        .with_columns((pl.col("lent_length") - pl.col("length")).abs().alias("apart"))
        .filter(pl.col("apart") <= _ALIKE_STEPS)
        .sort(pl.col("apart") // 2, -pl.col("count"), "lent_op", maintain_order=True)
        .unique([*place, "length"], keep="first", maintain_order=True)
        .drop("count", "apart", "lent_length")
    )
    joined = timed.join(chosen, on=[*place, "length"], how="left", maintain_order="left")
    takes = borrows & pl.col("lent_op").is_not_null()
    taken = [pl.when(takes).then(pl.col(f"lent_{k}")).otherwise(pl.col(k)).alias(k) for k in KEYS]
    return joined.with_columns(
        *taken,
        pl.when(takes).then(pl.col("lent_calls")).otherwise(pl.col("op_calls")).alias("op_calls"),
        pl.when(takes).then(INFERRED).otherwise(pl.col("link")).cast(pl.Int8).alias("link"),
    ).select(work.columns)


def _lenders(linked: pl.DataFrame, place: list[str]) -> pl.DataFrame:
    """Per name, grid and length of time the most frequent op."""
    lent = _length(pl.col("duration").median()).alias("lent_length")
    counts = pl.len().cast(pl.Int64).alias("count")
    return (
        linked.group_by(*place, *KEYS)
        .agg(counts, pl.col("op_calls").mean().alias("lent_calls"), lent)
        .sort("count", *KEYS, descending=True, maintain_order=True)
        .unique([*place, "lent_length"], keep="first", maintain_order=True)
        .rename({k: f"lent_{k}" for k in KEYS})
    )


def _length(duration_us: pl.Expr) -> pl.Expr:
    """A time in steps of a quarter; what is too short to tell is all of one length."""
    return duration_us.clip(lower_bound=_TOO_SHORT_US).log(_STEP).floor().cast(pl.Int64)


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
