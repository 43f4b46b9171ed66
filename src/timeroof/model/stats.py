"""Does this difference count? One answer for probe, live runs, compare, check and studies.

Three designs, one `ALPHA` (docs/statistics.md says which asks where, and why):

- **Two samples** (`two_samples`): repeats of two cases, taken one after the other in one process.
- **Paired** (`PairedRuns`, `drift`): two whole runs that share steps and rows, at different times.
- **Many comparisons** (`holm`, `deviations_needed`): whichever of the two, asked more than once.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

# The chance of any false claim within one family of comparisons: the rows of two runs, the cases of
# one factor, one question by itself.
ALPHA = 0.01
# The certainty of intervals that are shown.
CONFIDENCE = 0.95
# Quartiles of normal noise lie so many deviations apart, and its median is so much less certain
# than its mean.
IQR_PER_DEVIATION = 1.349
MEDIAN_PER_MEAN_ERROR = math.sqrt(math.pi / 2)
# Two runs of one case differ by this much through memory placement and neighbours, which no number
# of samples of one run shows.
SMALLEST_RATIO = 1.05

Samples = NDArray[np.float64]


def quantile(values: Sequence[float], share: float) -> float:
    """A quantile with linear interpolation between the neighbours."""
    return float(np.quantile(values, share))


def spread(values: Sequence[float]) -> float | None:
    """(p75 − p25) / median, None for a single value."""
    if len(values) < 2:
        return None
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle if middle > 0 else None


def spread_of(times: pl.Expr) -> pl.Expr:
    """The same of a group's times, null for a single one."""
    import polars as pl

    between = times.quantile(0.75, "linear") - times.quantile(0.25, "linear")
    return pl.when((pl.len() > 1) & (times.median() > 0)).then(between / times.median())


def deviation(values: Sequence[float] | Samples) -> float:
    """Relative deviation of single values, from their quartiles: outliers do not count."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return float((high - low) / middle / IQR_PER_DEVIATION)


def median_error(values: Sequence[float]) -> float | None:
    """Standard error of a median from the outer quartiles, None for fewer than four values."""
    if len(values) < 4:
        return None
    low, _, high = statistics.quantiles(values, n=4)
    return MEDIAN_PER_MEAN_ERROR * (high - low) / IQR_PER_DEVIATION / math.sqrt(len(values))


def median_half_interval(values: Sequence[float]) -> float | None:
    """Half of the 95 % interval of a median (order statistics), relative to it; None under 5."""
    count = len(values)
    if count < 5:
        return None
    ordered = sorted(values)
    reach = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * math.sqrt(count) / 2
    low = max(0, math.floor((count - 1) / 2 - reach))
    high = min(count - 1, math.ceil((count - 1) / 2 + reach))
    middle = statistics.median(ordered)
    return (ordered[high] - ordered[low]) / 2 / middle if middle > 0 else None


# Two samples.

FEWEST_SAMPLES = 3
# More samples than this settle nothing that these do not, and cost time to draw from.
MOST_SAMPLES = 256
FEWEST_FOR_RANKS = 8
RESAMPLES = 2000
# Deviations are relative, and become powers of e.
MOST_APART = 100.0
SEED = 20200904


class Ratio(msgspec.Struct, frozen=True):
    """How many times `b` is of `a`, with its interval and the chance that it is chance."""

    value: float
    low: float
    high: float
    p: float
    tolerance: float
    # Within this of 1 on either side a difference is not worth a word; the tolerance, if not given.
    same_within: float | None = None

    @property
    def beyond_spread(self) -> bool:
        """Whether it is larger than what single samples and repeated runs differ by."""
        return abs(math.log(self.value)) > math.log(self.tolerance)

    @property
    def settled(self) -> bool:
        """Whether the interval leaves no room for a difference worth a word."""
        within = math.log(self.same_within or self.tolerance)
        return max(abs(math.log(self.low)), abs(math.log(self.high))) <= within

    def counts(self, p: float | None = None) -> bool:
        """Whether the difference counts; `p` is the chance corrected for many comparisons."""
        return (self.p if p is None else p) <= ALPHA and self.beyond_spread

    def text(self) -> str:
        """The ratio as it is written in a sentence: "2.04 times (2.0 to 2.1)"."""
        return f"{self.value:.3g} times ({_short(self.low)} to {_short(self.high)})"


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 1.945 else f"{value:.1f}" if value < 99.5 else f"{value:.0f}"


def two_samples(a: Sequence[float], b: Sequence[float]) -> Ratio | None:
    """Times of `b` over times of `a`; None where samples are too few to speak of chance.

    The ratio is that of medians, its interval a bootstrap with a fixed seed, its chance that of
    ranks, or of logarithms where samples are few.

    >>> ratio = two_samples([1.0, 1.01, 0.99, 1.0], [2.0, 2.02, 1.98, 2.0])
    >>> round(ratio.value, 2), ratio.counts()
    (2.0, True)
    """
    first, second = positive(a), positive(b)
    if min(len(first), len(second)) < FEWEST_SAMPLES:
        return None
    ratios = resampled_medians(second, 1) / resampled_medians(first, 0)
    low, high = np.quantile(ratios, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    value = float(np.median(second) / np.median(first))
    few = min(len(first), len(second)) < FEWEST_FOR_RANKS
    # Samples can lie thousands of medians apart; no ratio of times is beyond this.
    apart = min(math.hypot(deviation(first), deviation(second)), MOST_APART)
    return Ratio(
        value=value,
        low=min(float(low), value),
        high=max(float(high), value),
        p=_welch_p(np.log(first), np.log(second)) if few else _rank_p(first, second),
        tolerance=math.exp(max(math.log(SMALLEST_RATIO), apart)),
    )


# Beside other programs (docs/statistics.md): caches are lost at switches and two-speed hosts add to
# the spread of one run, so that its interval holds the quiet ratio in two runs of three only;
# three times as wide it does in nine of ten.
SMALLEST_RATIO_BESIDE_OTHERS = 1.25
SAME_BESIDE_OTHERS = 1.10
WIDER_BESIDE_OTHERS = 3.0


def in_turns_beside_others(a: Sequence[float], b: Sequence[float]) -> Ratio | None:
    """The same of CPU times that were taken in turns, A B B A, while other programs ran.

    The interval is three times as wide. A difference counts from 1.25 on, where the interval stays
    on one side of 1, odd and even rounds agree, and it is larger than what either case differs from
    itself between its two turns of a round.

    >>> steady, slower = [1.0, 1.1, 0.9, 1.0] * 3, [2.0, 2.1, 1.9, 2.2] * 3
    >>> in_turns_beside_others(steady, slower).counts()
    True
    >>> in_turns_beside_others(steady, [1.2 * s for s in steady]).counts()
    False
    """
    plain = two_samples(a, b)
    if plain is None:
        return None
    value = plain.value
    low, high = (value * (end / value) ** WIDER_BESIDE_OTHERS for end in (plain.low, plain.high))
    rounds = [_rounds_ratio(a, b, odd) for odd in (0, 1)]
    agree = all((ratio > 1) == (value > 1) for ratio in rounds)
    apart = max(abs(math.log(_turns_ratio(one))) for one in (a, b))
    sure = agree and not low <= 1 <= high
    return Ratio(
        value=value,
        low=low,
        high=high,
        p=plain.p if sure else 1.0,
        tolerance=max(SMALLEST_RATIO_BESIDE_OTHERS, math.exp(apart)),
        same_within=SAME_BESIDE_OTHERS,
    )


def _rounds_ratio(a: Sequence[float], b: Sequence[float], odd: int) -> float:
    """The ratio of every other round; a round has two samples of each case."""
    own = [
        float(np.median([v for i, v in enumerate(one) if i // 2 % 2 == odd] or one))
        for one in (a, b)
    ]
    return own[1] / own[0]


def _turns_ratio(one: Sequence[float]) -> float:
    """A case against itself: its second turns of all rounds over its first ones."""
    return float(np.median(one[1::2]) / np.median(one[0::2])) if len(one) > 1 else 1.0


def positive(samples: Sequence[float] | Samples) -> Samples:
    """Samples that are seconds: finite and above 0; of very many, ones taken at even distances."""
    values = np.asarray(samples, dtype=np.float64)
    known = values[np.isfinite(values) & (values > 0)]
    if len(known) <= MOST_SAMPLES:
        return known
    return known[np.linspace(0, len(known) - 1, MOST_SAMPLES).round().astype(np.int64)]


def resampled_medians(samples: Sequence[float] | Samples, seed: int) -> Samples:
    """Medians of draws with replacement, for what is fitted to several cases."""
    known = positive(samples)
    drawn = np.random.default_rng(SEED + seed).choice(known, size=(RESAMPLES, len(known)))
    return np.asarray(np.median(drawn, axis=1), dtype=np.float64)


def _rank_p(a: Samples, b: Samples) -> float:
    """Mann and Whitney's test, two-sided, with the normal law and corrections for ties and steps.

    The normal law overstates the chance where it is small: claims are rather missed than invented.
    """
    both = np.concatenate([a, b])
    _, places, counts = np.unique(both, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    n, m = len(a), len(b)
    distance = abs(float(ranks[:n].sum()) - n * (n + m + 1) / 2) - 0.5
    ties = float((counts.astype(np.float64) ** 3 - counts).sum()) / ((n + m) * (n + m - 1))
    variance = n * m / 12 * (n + m + 1 - ties)
    if variance <= 0 or distance <= 0:
        return 1.0
    return math.erfc(distance / math.sqrt(2 * variance))


def _welch_p(a: Samples, b: Samples) -> float:
    """Welch's test on logarithms, two-sided."""
    squares = [max(float(x.var(ddof=1)), 1e-12) / len(x) for x in (a, b)]
    t = abs(float(a.mean() - b.mean())) / math.sqrt(sum(squares))
    freedom = sum(squares) ** 2 / sum(
        s**2 / (len(x) - 1) for s, x in zip(squares, (a, b), strict=True)
    )
    return student_p(t, max(1, math.floor(freedom)))


def student_p(t: float, freedom: int) -> float:
    """Chance of a larger |t| for a whole number of degrees of freedom (finite trigonometric sum).

    >>> round(student_p(2.228, 10), 3), round(student_p(12.706, 1), 3)
    (0.05, 0.05)
    """
    angle = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for step in range(freedom // 2):
        total += term
        top = 2 * step + 1 + odd
        term *= cosine**2 * top / (top + 1)
    inside = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return max(0.0, 1.0 - inside)


def student_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """|t| that is exceeded with the chance left by `confidence`."""
    if freedom > 200:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(middle, freedom) > 1 - confidence else (low, middle)
    return high


# Many comparisons.

# What `ALPHA` asks of one difference whose deviation a dozen samples show (Student's law; 2.6
# where it were known).
DEVIATIONS = 3.0


def holm(chances: Sequence[float]) -> list[float]:
    """Chances corrected for their number: the largest family-wise error is kept.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    found = np.asarray(chances, dtype=np.float64)
    order = np.argsort(found, kind="stable")
    times = np.arange(len(found), 0, -1)
    found[order] = np.maximum.accumulate(np.minimum(1.0, times * found[order]))
    return [float(p) for p in found]


def deviations_needed(comparisons: int) -> float:
    """Deviations that each of so many differences must exceed: the first step of Holm's method.

    For differences that are held against a threshold and have no chance of their own.
    """
    return max(DEVIATIONS, NormalDist().inv_cdf(1 - ALPHA / 2 / max(comparisons, 1)))


# Paired: two runs of one program, whose steps and rows are the same work at different times.

# The mean range of two and of three normal samples, in deviations.
RANGE_PER_DEVIATION = {2: 1.128, 3: 1.693}
LEAST_DEVIATION = 0.01
# The part of a sample's variance that all steps of a run have in common: clock, memory placement
# and neighbours last for a run, so a median of n samples is not as good as 1/√n says.
LASTING = 0.25
FAR_APART, MANY_SAMPLES = 2.0, 8
# Rows from which on the scatter of their ratios says something, and the most that is believed:
# where most rows were changed, their ratios are not noise.
FEW_ROWS, MOST_DRIFT = 8, 0.05
# Where a tensor lies in memory moves single rows by more than a normal law would: longer tails.
TAILS = 1.4
# The fixed work slows down more than kernels do, which wait for memory and for one another: steps
# of products by 0.4 of it, Python loops by 0.7. Below `LEAST_PACE` it is its own noise.
PACE_PART, LEAST_PACE = 0.7, 0.03


def kept_of_deviation(count: int) -> float:
    """What is left of a single sample's deviation in a median of so many."""
    averaged = math.pi / 2 / count if count > 1 else 1.0
    return math.sqrt(min(1.0, averaged + LASTING))


def run_deviation_s(samples: Sequence[float]) -> float:
    """Deviation of the median of steps that followed one another, from two on.

    Slow changes within the run show in the difference of its halves, which the quartiles of all
    samples together may hide; the larger of the two counts. Two or three samples have no
    quartiles: their range counts.
    """
    kept = kept_of_deviation(len(samples))
    if len(samples) in RANGE_PER_DEVIATION:
        apart_s = (max(samples) - min(samples)) / RANGE_PER_DEVIATION[len(samples)]
        return max(apart_s * kept, LEAST_DEVIATION * statistics.median(samples))
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    half = len(samples) // 2
    early, late = statistics.median(samples[:half]), statistics.median(samples[-half:])
    return max((high - low) / IQR_PER_DEVIATION * kept, abs(late - early) / 2)


def noise_of(*deviations_s: float | None) -> float | None:
    """Seconds by which chance may move whole runs; None where no side's deviation is known."""
    known = [d for d in deviations_s if d is not None]
    return DEVIATIONS * math.hypot(*known) if known else None


def far_apart(a: Sequence[float], b: Sequence[float]) -> bool:
    """Whether the steps of two runs differ beyond any doubt that their spread leaves.

    Median and fastest by more than `FAR_APART`, and no sample of one reaches the other's, or there
    are `MANY_SAMPLES`, whose fastest can be trusted.
    """
    first, second = sorted(a), sorted(b)
    if min(len(first), len(second)) < 3 or first[0] <= 0 or second[0] <= 0:
        return False
    if statistics.median(first) > statistics.median(second):
        first, second = second, first
    medians = statistics.median(second) / statistics.median(first)
    separate = second[0] > first[-1] or min(len(first), len(second)) >= MANY_SAMPLES
    return separate and min(medians, second[0] / first[0]) > FAR_APART


def pace_shift(a: Sequence[float], b: Sequence[float]) -> float:
    """The share by which the machine's own pace lets times of the second run differ.

    From a fixed piece of work timed in both: above 0 where the machine was slower in the second
    run, 0 where nothing shows a difference.
    """
    if min(len(a), len(b)) < 2:
        return 0.0
    before_s, after_s = statistics.median(a), statistics.median(b)
    if min(before_s, after_s) <= 0:
        return 0.0
    # Of the longer one, either way round: a comparison must not depend on its direction.
    longer = max(before_s, after_s) / min(before_s, after_s) - 1
    shift = PACE_PART * longer if longer > LEAST_PACE else 0.0
    return shift if after_s > before_s else -shift / (1 + shift)


class PairedRuns(msgspec.Struct, frozen=True):
    """The difference of two whole runs, test by test; it counts where it passes all of them.

    A neighbour on the same cores makes steps longer, the fastest step hardly at all, a change of
    the program both: `least_delta_s` is the difference of the fastest ones. `shift` is that of the
    machine's own pace, `noise_s` what the samples allow (None: unknown), `threshold` the share by
    which two runs of one program move.
    """

    before_s: float
    delta_s: float
    least_delta_s: float
    noise_s: float | None
    threshold: float
    shift: float = 0.0

    @property
    def threshold_s(self) -> float:
        """The threshold's share of the longer run."""
        return self.threshold * max(self.before_s, self.before_s + self.delta_s)

    @property
    def needed_s(self) -> float:
        """Seconds that all tests must leave of a difference that counts."""
        return max(self.noise_s or 0.0, self.threshold_s)

    @property
    def confirmed_s(self) -> float:
        """What the fastest steps confirm: the smaller difference, 0 where directions differ."""
        if self.delta_s * self.least_delta_s <= 0:
            return 0.0
        return min(self.delta_s, self.least_delta_s, key=abs)

    @property
    def beyond_pace_s(self) -> float:
        """The confirmed difference without what the machine's pace explains."""
        explained_s = self.before_s * self.shift
        if self.confirmed_s * explained_s <= 0:
            return self.confirmed_s
        rest_s = abs(self.confirmed_s) - abs(explained_s)
        return math.copysign(max(rest_s, 0.0), self.confirmed_s)

    @property
    def counts(self) -> bool:
        """Whether the difference passes all tests."""
        return abs(self.beyond_pace_s) > self.needed_s

    @property
    def failed(self) -> Literal["size", "noise", "fastest", "pace"] | None:
        """The first test that the difference does not pass."""
        if self.counts or self.delta_s == 0:
            return None
        if abs(self.delta_s) <= self.needed_s:
            return "noise" if (self.noise_s or 0.0) > self.threshold_s else "size"
        return "fastest" if abs(self.confirmed_s) <= self.needed_s else "pace"


class Drift(msgspec.Struct, frozen=True):
    """What moved the rows of two runs together, and each of them by itself, as shares."""

    common: float = 0.0
    single: float = 0.0


def drift(ratios: Sequence[float]) -> Drift:
    """Drift between two runs, from the ratios of the fastest samples of the rows that both have.

    Most rows have not been changed: how their ratios scatter around the middle one is the drift of
    single rows, and the middle itself what moved the whole run.
    """
    if len(ratios) < FEW_ROWS:
        return Drift()
    logs = np.log(np.asarray(ratios, dtype=np.float64))
    middle = float(np.median(logs))
    # The median distance of normal noise is 1/1.4826 deviations.
    scatter = 1.4826 * float(np.median(np.abs(logs - middle)))
    return Drift(math.expm1(abs(middle)), TAILS * min(scatter, MOST_DRIFT))
