"""When a difference counts: tests and intervals on the samples of two cases.

A ratio is that of medians, its interval a bootstrap with a fixed seed. A difference is claimed only
where both hold: a test says that chance alone is unlikely (ranks, or logarithms where samples are
few; corrected for the number of comparisons by Holm's method), and it exceeds what single samples
differ by, and 5 %: two runs of one case differ by that much through memory placement and
neighbours, which no number of samples of one run can show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

IQR_PER_DEVIATION = 1.349
# Chance of any false claim within one factor; five factors together stay at 5 %.
FALSE_ALARM = 0.01
CONFIDENCE = 0.95
SMALLEST_RATIO = 1.05
RESAMPLES = 2000
SEED = 20200904
FEWEST_SAMPLES = 3
# More samples than this settle nothing that these do not, and cost time to draw from.
MOST_SAMPLES = 256
FEWEST_FOR_RANKS = 8

Samples = NDArray[np.float64]


@dataclass(frozen=True)
class Ratio:
    """How many times `b` is of `a`, with its interval and the chance that it is chance."""

    value: float
    low: float
    high: float
    p: float
    tolerance: float

    @property
    def beyond_spread(self) -> bool:
        """Whether it is larger than what single samples and repeated runs differ by."""
        return abs(math.log(self.value)) > math.log(self.tolerance)

    @property
    def settled(self) -> bool:
        """Whether the interval leaves no room for a difference worth a word."""
        return max(abs(math.log(self.low)), abs(math.log(self.high))) <= math.log(self.tolerance)

    def text(self) -> str:
        """The ratio as it is written in a sentence.

        >>> Ratio(2.043, 1.98, 2.11, 1e-6, 1.05).text()
        '2.04 times (2.0 to 2.1)'
        """
        return f"{self.value:.3g} times ({_short(self.low)} to {_short(self.high)})"


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 1.945 else f"{value:.1f}" if value < 99.5 else f"{value:.0f}"


def compare(a: Sequence[float], b: Sequence[float]) -> Ratio | None:
    """Times of `b` over times of `a`; None where samples are too few to speak of chance.

    >>> ratio = compare([1.0, 1.01, 0.99, 1.0], [2.0, 2.02, 1.98, 2.0])
    >>> round(ratio.value, 2), ratio.p < 1e-6, ratio.beyond_spread
    (2.0, True, True)
    """
    first, second = positive(a), positive(b)
    if min(len(first), len(second)) < FEWEST_SAMPLES:
        return None
    ratios = _medians(second, SEED + 1) / _medians(first, SEED)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(ratios, (tail, 1 - tail))
    value = float(np.median(second) / np.median(first))
    few = min(len(first), len(second)) < FEWEST_FOR_RANKS
    p = _welch_p(np.log(first), np.log(second)) if few else _rank_p(first, second)
    spread = math.hypot(deviation(first), deviation(second))
    return Ratio(
        value=value,
        low=min(float(low), value),
        high=max(float(high), value),
        p=p,
        tolerance=math.exp(max(math.log(SMALLEST_RATIO), spread)),
    )


def positive(samples: Sequence[float]) -> Samples:
    """Samples that are seconds: finite and above 0; of very many, ones taken at even distances."""
    values = np.asarray(samples, dtype=np.float64)
    known = values[np.isfinite(values) & (values > 0)]
    if len(known) <= MOST_SAMPLES:
        return known
    return known[np.linspace(0, len(known) - 1, MOST_SAMPLES).round().astype(np.int64)]


def deviation(samples: Samples) -> float:
    """Relative deviation of single samples, from their quartiles: outliers do not count."""
    low, middle, high = np.quantile(samples, (0.25, 0.5, 0.75))
    return float((high - low) / middle / IQR_PER_DEVIATION)


def _medians(samples: Samples, seed: int) -> Samples:
    drawn = np.random.default_rng(seed).choice(samples, size=(RESAMPLES, len(samples)))
    return np.asarray(np.median(drawn, axis=1), dtype=np.float64)


def resampled_medians(samples: Sequence[float], seed: int) -> Samples:
    """Medians of draws with replacement, for what is fitted to several cases."""
    return _medians(positive(samples), SEED + seed)


def holm(chances: Sequence[float]) -> list[float]:
    """Chances corrected for their number: the largest family-wise error is kept.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(chances)), key=lambda i: chances[i])
    corrected, largest = [1.0] * len(chances), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(chances) - rank) * chances[index]))
        corrected[index] = largest
    return corrected


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
    """|t| that is exceeded with the chance left by `confidence`.

    >>> round(student_quantile(10), 3), round(student_quantile(1), 2)
    (2.228, 12.71)
    """
    if freedom > 200:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(middle, freedom) > 1 - confidence else (low, middle)
    return high
