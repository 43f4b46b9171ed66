"""What the paired design of `model/stats` asks of a run: its deviation, and that of its rows.

Rows have samples from timed steps, the whole run from unprofiled ones. Rows slow down together, so
the deviations of a sum add; those of two runs add in squares.
"""

from __future__ import annotations

import math
import statistics

import polars as pl

from timeroof.core.report import Totals
from timeroof.model import stats
from timeroof.model.stats import IQR_PER_DEVIATION, LASTING, Drift

# From run to run rows move together, if not within a run: this part of their deviations adds.
LEAST_TOGETHER = 0.7

# Rows of a profiler's file gather invocations of one kernel whatever their shapes: the spread of
# those samples is not noise. Rows of a run of ours, and units, hold repeats of the same work.
REPEATED_KINDS = ("op", "primitive", "unit")


def repeat_spread() -> pl.Expr:
    """The spread of repeats of the same work, null where samples are something else."""
    return pl.when(pl.col("kind").is_in(REPEATED_KINDS)).then(pl.col("time_spread"))


def deviation() -> pl.Expr:
    """How far a row's seconds of one run may be off, 0 where it is not known."""
    single = repeat_spread() * pl.col("time_s") / IQR_PER_DEVIATION
    samples = pl.col("samples").list.len().fill_null(0).cast(pl.Float64)
    averaged = pl.when(samples > 1).then(math.pi / 2 / samples).otherwise(1.0)
    kept = (averaged + LASTING).clip(upper_bound=1.0).sqrt()
    return (single * kept).fill_null(0.0)


def least_of_samples() -> pl.Expr:
    """A row's fastest sample, null where samples are not repeats of the same work."""
    return pl.when(pl.col("kind").is_in(REPEATED_KINDS)).then(pl.col("samples").list.min())


def step_samples(totals: Totals) -> list[float]:
    """Seconds of single unprofiled steps, none where the run has no steps."""
    return totals.steps.samples if totals.steps is not None else []


def pace_shift(a: Totals, b: Totals) -> float:
    """The share by which the machine's own pace lets times of the second run differ."""
    return stats.pace_shift(*(t.steps.pace_samples if t.steps is not None else [] for t in (a, b)))


def far_apart(a: Totals, b: Totals) -> bool:
    """Whether the unprofiled steps of two runs differ beyond any doubt that their spread leaves."""
    return stats.far_apart(step_samples(a), step_samples(b))


def run_least_s(totals: Totals, measured_s: float) -> float:
    """The fastest unprofiled step of a run of `measured_s`; where there are few, these seconds."""
    samples = step_samples(totals)
    return min(*samples, measured_s) if len(samples) >= 2 else measured_s


def run_deviation_s(totals: Totals, rows: pl.DataFrame) -> float | None:
    """How far the seconds of a whole run may be off: from unprofiled steps, else from its rows.

    None where nothing tells; 0 is a run whose samples are all the same.
    """
    samples = step_samples(totals)
    return stats.run_deviation_s(samples) if len(samples) >= 2 else rows_deviation_s(rows)


def rows_deviation_s(rows: pl.DataFrame) -> float | None:
    """How far the sum of some rows may be off; None where no row has a spread.

    Where all rows have a sample of every step, the steps' sums tell, but never less than a part
    of what it were if all rows slowed down together: from run to run they do.
    """
    repeated = rows.filter(repeat_spread().is_not_null())
    if not repeated.height:
        return None
    added_s = float(repeated["deviation_s"].sum())
    counts = repeated["samples"].list.len().unique().to_list()
    if len(counts) != 1 or (counts[0] or 0) < 4:
        return added_s
    steps = repeated.select("samples", pl.int_ranges(0, counts[0]).alias("step"))
    sums = steps.explode("samples", "step").group_by("step").agg(pl.col("samples").sum())
    samples = sums.sort("step")["samples"].to_list()
    middle = statistics.median(samples)
    scale = float(repeated["time_s"].sum()) / middle if middle > 0 else 1.0
    return max(LEAST_TOGETHER * added_s, stats.run_deviation_s(samples) * scale)


def drift(pairs: pl.DataFrame, least_s: float) -> Drift:
    """Drift between two runs, from the fastest samples of the rows that both have.

    Small rows are left out: their ratios scatter by the clock's resolution.
    """
    looked_at = pairs.filter(
        (pl.col("a.least_s") >= least_s) & (pl.col("b.least_s") >= least_s) & (least_s > 0)
    )
    return stats.drift((looked_at["b.least_s"] / looked_at["a.least_s"]).to_list())
