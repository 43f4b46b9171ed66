"""How far times move by themselves, from the samples' spread.

A spread is (p75 − p25) / median: for normal noise 1.35 standard deviations. Two runs of one program
differ by more than the standard error of their medians (memory placement, clock, neighbours), so
the deviation of single samples is used, not that of the mean, and three of them are needed. Within
a run rows slow down together: their deviations add. Two runs are independent: in squares.
"""

from __future__ import annotations

import math

import polars as pl

from timeroof.core.report import Totals

IQR_PER_DEVIATION = 1.349
DEVIATIONS = 3.0


# Rows of a profiler's file gather invocations of one kernel whatever their shapes: the spread of
# those samples is not noise. Rows of a run of ours, and units, hold repeats of the same work.
REPEATED_KINDS = ("op", "primitive", "unit")


def repeat_spread() -> pl.Expr:
    """The spread of repeats of the same work, null where samples are something else."""
    return pl.when(pl.col("kind").is_in(REPEATED_KINDS)).then(pl.col("time_spread"))


def variance() -> pl.Expr:
    """Variance of a row's seconds, 0 where it is not known."""
    deviation = repeat_spread().fill_null(0.0) * pl.col("time_s") / IQR_PER_DEVIATION
    return deviation.fill_null(0.0) ** 2


def noise_s() -> pl.Expr:
    """Seconds by which a pair of rows may differ by chance, both sides' spreads together."""
    return DEVIATIONS * (pl.col("a.variance_s") + pl.col("b.variance_s")).sqrt()


def total_noise_s(*runs: pl.DataFrame) -> float:
    """Seconds by which whole runs may differ by chance."""
    deviations = [float(rows["variance_s"].sqrt().sum()) for rows in runs]
    return DEVIATIONS * math.hypot(*deviations)


def clean_scale(totals: Totals) -> float:
    """Seconds of a clean step by those of a timed one, the profiler's own cost left out.

    Rows of a live run were timed with instruments; scaled, they sum to the run as it is.
    """
    clean_s = totals.steps.clean_s if totals.steps is not None else None
    timed_s = (totals.wall_s or 0.0) - totals.idle_by_cause.get("profiler", 0.0)
    return clean_s / timed_s if clean_s and timed_s > 0 else 1.0
