"""How good is `whatif`? One model recorded on two GPUs: predict the second from the first.

Prints, for rows of the same op, shape, dtype and phase, which share of the second recording's time
lies inside the interval predicted from the first: of all matched rows, and of GEMMs and
convolutions alone. Needs two recordings with shapes (Kineto traces with record_shapes=True, or
saved runs) of the same program; none are shipped.

python benchmarks/whatif_two_gpus.py A B [--from MACHINE] [--to MACHINE] [--rows 12]
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import polars as pl

from timeroof.api.reports import load, machine
from timeroof.core.errors import TimeroofError
from timeroof.core.op_family import row_family
from timeroof.core.profile import Profile
from timeroof.core.units import format_seconds
from timeroof.model.compare.causes import with_plain_names
from timeroof.model.whatif.project import Projection, project

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
    rows = with_plain_names(kernels.with_columns(row_family().alias("op_family"))).filter(
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


def measured(options: argparse.Namespace) -> Accuracy:
    here = machine(options.here) if options.here else None
    there = machine(options.there) if options.there else None
    first, second = load(options.a, machine=here), load(options.b, machine=there)
    if first.machine is None or second.machine is None:
        sys.exit("a recording does not name its device: give --from and --to")
    print(f"{first.machine.name} → {second.machine.name}")
    return accuracy(
        first.profile, project(first.profile, first.machine, second.machine), second.profile
    )


def percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("a")
    parser.add_argument("b")
    parser.add_argument("--from", dest="here")
    parser.add_argument("--to", dest="there")
    parser.add_argument("--rows", type=int, default=12)
    options = parser.parse_args()
    try:
        found = measured(options)
    except TimeroofError as error:
        sys.exit(error.message)
    print(f"{'op':28} {'measured':>10} {'predicted':>10} {'low':>10} {'high':>10}  inside")
    known = found.rows.drop_nulls("inside")
    for row in known.head(options.rows).iter_rows(named=True):
        seconds = [format_seconds(row[c]) for c in ("time_s", "predicted_s", "low_s", "high_s")]
        inside = "yes" if row["inside"] else "NO"
        print(f"{row['plain_op'][:28]:28} {' '.join(f'{s:>10}' for s in seconds)}  {inside}")
    for what, matched, inside in (
        ("all rows", found.matched, found.inside),
        ("GEMM and convolution", found.gemm_matched, found.gemm_inside),
    ):
        print(f"{what}: {percent(matched)} of the time matched, {percent(inside)} of it inside")
    return 0


if __name__ == "__main__":
    sys.exit(main())
