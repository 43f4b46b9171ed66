"""How good a prediction was: rows of a run on one machine against the same rows on another.

Rows are matched by op, shape, dtype and phase, and compared per call: the two recordings need not
be equally long. Which share of the other machine's time lies inside the predicted interval?
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from timeroof.core.profile import Profile
from timeroof.model.compare.causes import with_plain_names
from timeroof.model.whatif.project import Projection

KEYS = ["plain_op", "shape", "dtype", "phase"]
# Sums of the same numbers in another order.
ROUNDING = 1e-9
PRODUCTS = ("product", "batched product", "convolution", "convolution_backward")
_GEMM_KERNEL = r"(?i)gemm|cutlass|nvjet|xmma|cijk_|matmul"


@dataclass(frozen=True)
class Accuracy:
    """Matched rows, and shares of the other machine's time.

    `matched`: of all its time, rows that the first run has too. `inside`: of matched time, rows
    that took a time inside the interval. The same two for products alone (GEMM, convolution).
    `rows` has per key the seconds per call as measured and predicted, with the interval.
    """

    matched: float
    inside: float | None
    gemm_matched: float | None
    gemm_inside: float | None
    rows: pl.DataFrame


def accuracy(profile: Profile, projection: Projection, measured: Profile) -> Accuracy:
    """Hold the projection of a run against what was measured on that machine."""
    predicted = pl.concat(
        [profile.kernels, _busy(projection)],
        how="horizontal",
    )
    ours = _per_call(predicted, ["predicted_s", "low_s", "high_s"])
    theirs = _per_call(measured.kernels, ["time_s"], total="time_s")
    rows = theirs.join(ours.drop("gemm"), on=KEYS, how="left", nulls_equal=True)
    above = pl.col("time_s") >= pl.col("low_s") * (1 - ROUNDING)
    below = pl.col("time_s") <= pl.col("high_s") * (1 + ROUNDING)
    rows = rows.with_columns((above & below).alias("inside")).sort("total_s", descending=True)
    gemm = rows.filter(pl.col("gemm"))
    return Accuracy(
        matched=_share(rows, pl.col("inside").is_not_null()) or 0.0,
        inside=_share(rows.drop_nulls("inside"), pl.col("inside")),
        gemm_matched=_share(gemm, pl.col("inside").is_not_null()),
        gemm_inside=_share(gemm.drop_nulls("inside"), pl.col("inside")),
        rows=rows,
    )


def _busy(projection: Projection) -> pl.DataFrame:
    """Predicted seconds without the idle before a row: devices' durations have none."""
    names = {"busy_s": "predicted_s", "busy_low_s": "low_s", "busy_high_s": "high_s"}
    return projection.table.select(pl.col(old).alias(new) for old, new in names.items())


def _per_call(kernels: pl.DataFrame, columns: list[str], total: str | None = None) -> pl.DataFrame:
    """Seconds per call of every key; an op that launches several kernels counts them together."""
    rows = with_plain_names(kernels).filter(
        pl.col("plain_op").is_not_null(), pl.col("shape").is_not_null(), pl.col("time_s") > 0
    )
    gemm = pl.col("family").is_in(PRODUCTS) | pl.col("name").str.contains(_GEMM_KERNEL)
    # Kernels of one op run once per call of the op: the calls of its commonest kernel are its own.
    calls = pl.col("calls").max()
    sums = [(pl.col(c).sum() / calls).alias(c) for c in columns]
    more = [pl.col(total).sum().alias("total_s")] if total else []
    return rows.group_by(KEYS, maintain_order=True).agg(*sums, *more, gemm.any().alias("gemm"))


def _share(rows: pl.DataFrame, condition: pl.Expr) -> float | None:
    whole = float(rows["total_s"].sum())
    return float(rows.filter(condition)["total_s"].sum()) / whole if whole else None
