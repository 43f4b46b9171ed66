"""How a figure is sampled: calibrated repetitions, at least ten samples, best, median, spread.

Seconds come from the `run` that is passed in, never from a clock of this file, so that
tests with a made-up `run` are exact.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

LEAST_SAMPLES = 10


@dataclass(frozen=True)
class Plan:
    """How long to sample: seconds per sample, how many, and when the best is believed."""

    sample_s: float = 2e-3
    least: int = LEAST_SAMPLES
    most: int = 40
    # The best counts as found once this many samples are within `close` of it.
    confirmed: int = 3
    close: float = 0.01
    most_repetitions: int = 1 << 40
    # Seconds after which the least number of samples is enough, confirmed or not.
    limit_s: float = math.inf


@dataclass(frozen=True)
class Samples:
    """Seconds per repetition of every sample.

    >>> Samples([2.0, 1.0, 4.0, 3.0]).best_s
    1.0
    """

    times_s: Sequence[float]
    repetitions: int = 1

    @property
    def best_s(self) -> float:
        """The shortest time: what the machine can do when nothing else disturbs it."""
        return min(self.times_s)

    @property
    def median_s(self) -> float:
        """The median time: what one gets on an average day."""
        return statistics.median(self.times_s)

    @property
    def spread(self) -> float:
        """(p75 − p25) / median, 0 for one sample."""
        return spread(self.times_s)

    def quantile_s(self, share: float) -> float:
        """The time below which a share of the samples lies."""
        return quantile(self.times_s, share)

    def joined(self, other: Samples) -> Samples:
        """The samples of two sittings as one."""
        return Samples([*self.times_s, *other.times_s], self.repetitions)


def quantile(values: Sequence[float], share: float) -> float:
    """A quantile with linear interpolation between the neighbours.

    >>> quantile([1.0, 2.0, 3.0, 4.0, 5.0], 0.25), quantile([1.0, 2.0], 0.5)
    (2.0, 1.5)
    """
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def spread(values: Sequence[float]) -> float:
    """(p75 − p25) / median.

    >>> spread([1.0, 2.0, 3.0, 4.0, 5.0])
    0.6666666666666666
    """
    median = statistics.median(values)
    return (quantile(values, 0.75) - quantile(values, 0.25)) / median if median else 0.0


def calibrate(run: Callable[[int], float], plan: Plan) -> int:
    """Repetitions that take about one sample's time; also warms up."""
    repetitions = 1
    while repetitions < plan.most_repetitions:
        time_s = run(repetitions)
        if time_s >= plan.sample_s:
            break
        # At most tenfold at once: the first calls are slow and would mislead the estimate.
        growth = plan.sample_s / time_s * 1.1 if time_s > 0 else 10.0
        repetitions = math.ceil(repetitions * min(10.0, max(growth, 1.1)))
    return min(repetitions, plan.most_repetitions)


def sample(run: Callable[[int], float], plan: Plan | None = None) -> Samples:
    """Sample `run(repetitions) -> seconds` until its best is confirmed.

    On a quiet machine that is the least number of samples; on a busy one sampling goes on,
    up to the plan's most, since a quiet moment is what shows the ceiling.
    """
    plan = plan or Plan()
    repetitions = calibrate(run, plan)
    times_s: list[float] = []
    while len(times_s) < plan.most:
        times_s.append(run(repetitions) / repetitions)
        enough = sum(times_s) * repetitions > plan.limit_s
        if len(times_s) >= plan.least and (enough or _confirmed(times_s, plan)):
            break
    return Samples(times_s, repetitions)


def _confirmed(times_s: Sequence[float], plan: Plan) -> bool:
    limit = min(times_s) * (1 + plan.close)
    return sum(time_s <= limit for time_s in times_s) >= plan.confirmed
