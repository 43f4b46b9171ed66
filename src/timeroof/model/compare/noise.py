"""How far times move by themselves: within a run from samples, between runs from all the rows.

**Within a run.** A spread is (p75 − p25) / median: for normal noise 1.35 standard deviations. Rows
have samples from profiled steps, the whole run from unprofiled ones. Rows slow down together, so
the deviations of a sum add; those of two runs add in squares.

**Between runs.** Clock, memory placement and neighbours differ from run to run, and no sample of
one run shows that. So a median of n samples is not as good as 1/√n says: a part of the variance
(`LASTING`) is taken to last for a whole run. And where two runs share many rows, most of them have
not been changed: how their ratios scatter around the middle one is the drift of single rows, and
the middle itself what moved the whole run.

**Neighbours.** Another program on the same cores makes steps longer, never shorter, and the
fastest step hardly at all. So a difference counts only as far as the fastest samples differ, too: a
change of the program moves both, a neighbour the middle alone.

**The machine's own pace.** A live run times a fixed piece of work beside its unprofiled steps.
Where that took longer in one run, the machine was slower (a neighbour on the same core, a lower
clock), and a difference in the same direction counts only beyond `PACE_PART` of what the fixed
work shows.

**Few samples.** Two or three samples have no quartiles: their range is taken, divided by what it is
on average for normal noise, and no less than `LEAST_DEVIATION` of their middle.

**Far apart.** Where the middle and the fastest of two runs differ by more than `FAR_APART`, and no
sample of one reaches the other's (or there are `MANY_SAMPLES`, whose fastest can be trusted),
the runs differ, however much their samples vary.

**Many rows.** Of a hundred unchanged rows one lies beyond 2.6 deviations: how many deviations a
difference needs grows with the number of rows that are looked at (Bonferroni), from three on.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

import polars as pl

from timeroof.core.report import Totals

IQR_PER_DEVIATION = 1.349
# The mean range of two and of three normal samples, in deviations.
RANGE_PER_DEVIATION = {2: 1.128, 3: 1.693}
LEAST_DEVIATION = 0.01
FAR_APART, MANY_SAMPLES = 2.0, 8
DEVIATIONS = 3.0
# From run to run rows move together, if not within a run: this part of their deviations adds.
LEAST_TOGETHER = 0.7
# False alarms that are allowed among all comparisons of rows.
FALSE_ALARMS = 0.01
# The part of a sample's variance that all steps of a run have in common.
LASTING = 0.25
# Rows from which on the scatter of their ratios says something, and the most that is believed:
# where most rows were changed, their ratios are no noise.
FEW_ROWS, MOST_DRIFT = 8, 0.05
# Where a tensor lies in memory moves single rows by more than a normal law would: longer tails.
TAILS = 1.4

# The fixed work slows down more than kernels do, which wait for memory and for one another: steps
# of products by 0.4 of it, Python loops by 0.7. Below `LEAST_PACE` it is its own noise.
PACE_PART, LEAST_PACE = 0.7, 0.03

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
    return (single * _kept(samples)).fill_null(0.0)


def _kept(samples: pl.Expr) -> pl.Expr:
    """What is left of a single sample's deviation in a middle of so many."""
    averaged = pl.when(samples > 1).then(math.pi / 2 / samples).otherwise(1.0)
    return (averaged + LASTING).clip(upper_bound=1.0).sqrt()


def least_of_samples() -> pl.Expr:
    """A row's fastest sample, null where samples are no repeats of the same work."""
    return pl.when(pl.col("kind").is_in(REPEATED_KINDS)).then(pl.col("samples").list.min())


def run_least_s(totals: Totals, measured_s: float) -> float:
    """The fastest unprofiled step of a run of `measured_s`; where there are few, these seconds."""
    samples = totals.steps.samples if totals.steps is not None else []
    return min(*samples, measured_s) if len(samples) >= 2 else measured_s


def far_apart(a: Totals, b: Totals) -> bool:
    """Whether the unprofiled steps of two runs differ beyond any doubt that their spread leaves."""
    first, second = (sorted(t.steps.samples if t.steps is not None else []) for t in (a, b))
    if min(len(first), len(second)) < 3 or first[0] <= 0 or second[0] <= 0:
        return False
    if statistics.median(first) > statistics.median(second):
        first, second = second, first
    middles = statistics.median(second) / statistics.median(first)
    separate = second[0] > first[-1] or min(len(first), len(second)) >= MANY_SAMPLES
    return separate and min(middles, second[0] / first[0]) > FAR_APART


def pace_shift(a: Totals, b: Totals) -> float:
    """The share by which the machine's own pace lets times of the second run differ.

    Above 0 where the machine was slower in the second run, 0 where nothing shows a difference.
    """
    first, second = (t.steps.pace_samples if t.steps is not None else [] for t in (a, b))
    if min(len(first), len(second)) < 2:
        return 0.0
    before_s, after_s = statistics.median(first), statistics.median(second)
    if min(before_s, after_s) <= 0:
        return 0.0
    # Of the longer one, either way round: a comparison must not depend on its direction.
    longer = max(before_s, after_s) / min(before_s, after_s) - 1
    shift = PACE_PART * longer if longer > LEAST_PACE else 0.0
    return shift if after_s > before_s else -shift / (1 + shift)


def beyond_pace_s(difference_s: float, before_s: float, shift: float) -> float:
    """A difference without what the machine's own pace explains, never of the other sign.

    >>> beyond_pace_s(3.0, 10.0, 0.2), beyond_pace_s(3.0, 10.0, 0.5), beyond_pace_s(3.0, 10.0, -0.5)
    (1.0, 0.0, 3.0)
    """
    explained_s = before_s * shift
    if difference_s * explained_s <= 0:
        return difference_s
    rest_s = abs(difference_s) - abs(explained_s)
    return math.copysign(max(rest_s, 0.0), difference_s)


def sure_difference(first: float, second: float) -> float:
    """Of two differences the smaller, 0 where they point in different directions.

    >>> sure_difference(3.0, 1.0), sure_difference(-3.0, -4.0), sure_difference(3.0, -1.0)
    (1.0, -3.0, 0.0)
    """
    if first * second <= 0:
        return 0.0
    return min(first, second, key=abs)


def run_deviation_s(totals: Totals, rows: pl.DataFrame) -> float | None:
    """How far the seconds of a whole run may be off: from unprofiled steps, else from its rows.

    None where nothing tells; 0 is a run whose samples are all the same.
    """
    samples = totals.steps.samples if totals.steps is not None else []
    return samples_deviation_s(samples) if len(samples) >= 2 else rows_deviation_s(rows)


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
    return max(LEAST_TOGETHER * added_s, samples_deviation_s(samples) * scale)


def samples_deviation_s(samples: list[float]) -> float:
    """Deviation of the median of steps that followed one another.

    Slow changes within the run show in the difference of its halves, which the quartiles of all
    samples together may hide; the larger of the two counts.

    >>> round(samples_deviation_s([1.0, 1.1, 0.9, 1.0, 1.0, 1.1, 0.9, 1.0]), 3)
    0.025
    >>> round(samples_deviation_s([1.0, 1.2, 1.1]), 3)
    0.104
    """
    if len(samples) in RANGE_PER_DEVIATION:
        apart_s = (max(samples) - min(samples)) / RANGE_PER_DEVIATION[len(samples)]
        kept = math.sqrt(min(1.0, math.pi / 2 / len(samples) + LASTING))
        return max(apart_s * kept, LEAST_DEVIATION * statistics.median(samples))
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    half = len(samples) // 2
    early, late = statistics.median(samples[:half]), statistics.median(samples[-half:])
    single_s = (high - low) / IQR_PER_DEVIATION
    kept = math.sqrt(min(1.0, math.pi / 2 / len(samples) + LASTING))
    return max(single_s * kept, abs(late - early) / 2)


def noise_of(*deviations_s: float | None) -> float | None:
    """Seconds by which chance may move whole runs; None where no side's deviation is known."""
    known = [d for d in deviations_s if d is not None]
    return DEVIATIONS * math.hypot(*known) if known else None


@dataclass(frozen=True)
class Drift:
    """What moved the rows of two runs together, and each of them by itself, as shares."""

    common: float
    single: float


def drift(pairs: pl.DataFrame, least_s: float) -> Drift:
    """Drift between two runs, from the fastest samples of the rows that both have.

    Small rows are left out: their ratios scatter by the clock's resolution.
    """
    looked_at = pairs.filter(
        (pl.col("a.least_s") >= least_s) & (pl.col("b.least_s") >= least_s) & (least_s > 0)
    )
    if looked_at.height < FEW_ROWS:
        return Drift(0.0, 0.0)
    ratios = (looked_at["b.least_s"] / looked_at["a.least_s"]).log()
    middle = float(ratios.median() or 0.0)  # type: ignore[arg-type]
    scatter = 1.4826 * float((ratios - middle).abs().median() or 0.0)  # type: ignore[arg-type]
    return Drift(math.expm1(abs(middle)), TAILS * min(scatter, MOST_DRIFT))


def deviations_needed(rows: int) -> float:
    """Deviations that a difference among so many rows must exceed.

    >>> deviations_needed(1), round(deviations_needed(100), 2)
    (3.0, 3.89)
    """
    tail = FALSE_ALARMS / 2 / max(rows, 1)
    return max(DEVIATIONS, statistics.NormalDist().inv_cdf(1 - tail))
