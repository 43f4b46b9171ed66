"""What a probe hands over: the machine and everything behind its ceilings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from timeroof.core.errors import TimeroofError
from timeroof.core.machine import Machine
from timeroof.core.resources import Scope
from timeroof.probe.sampling import Samples

MEASUREMENT_SCHEMA = "timeroof.measurement/1"


class SweepPoint(msgspec.Struct, kw_only=True, frozen=True):
    """Useful bandwidth of one access pattern at one total working set."""

    pattern: str
    size_bytes: int
    threads: int
    rate_per_s: float
    median_per_s: float
    spread: float


class Latency(msgspec.Struct, kw_only=True, frozen=True):
    """Time of one load that needs the result of the load before it."""

    level: str
    size_bytes: int
    time_s: float
    cycles: float | None
    spread: float


class FaultCost(msgspec.Struct, kw_only=True, frozen=True):
    """Touching fresh memory: how many base pages' worth per second."""

    pages: str
    page_bytes: int
    threads: int
    pages_per_s: float
    bytes_per_s: float
    spread: float


class LaunchCost(msgspec.Struct, kw_only=True, frozen=True):
    """What one op costs that does next to nothing, as a distribution over samples."""

    framework: str
    what: str
    python_loop: bool
    best_s: float
    p25_s: float
    median_s: float
    p75_s: float
    p95_s: float
    samples: int


class Clock(msgspec.Struct, kw_only=True, frozen=True):
    """Cycles per second found with a chain of dependent adds."""

    scope: Scope
    threads: int
    rate_per_s: float
    median_per_s: float


class Measurement(msgspec.Struct, kw_only=True, frozen=True):
    """A measured machine with its curve, its latencies and what there is to say about it.

    `notes` say what was assumed or left out, `warnings` what may have disturbed the figures
    and what to do, `errors` which values were refused because they cannot be right.
    """

    machine: Machine
    schema: str = MEASUREMENT_SCHEMA
    created: str = ""
    quick: bool = False
    duration_s: float = 0.0
    fingerprint: str = ""
    clocks: list[Clock] = []
    sweep: list[SweepPoint] = []
    latency: list[Latency] = []
    faults: list[FaultCost] = []
    launches: list[LaunchCost] = []
    notes: list[str] = []
    warnings: list[str] = []
    errors: list[str] = []


# A measured rate: its best, its median and how far it scatters.


@dataclass(frozen=True)
class Figure:
    """Amount per second over several samples."""

    rate_per_s: float
    median_per_s: float
    spread: float
    samples: int

    @classmethod
    def of(cls, samples: Samples, amount: float) -> Figure:
        """The figure of samples in each of which one repetition does an amount.

        >>> Figure.of(Samples([2.0, 4.0]), amount=8.0).rate_per_s
        4.0
        """
        return cls(
            rate_per_s=amount / samples.best_s,
            median_per_s=amount / samples.median_s,
            spread=samples.spread,
            samples=len(samples.times_s),
        )

    def better(self, other: Figure | None) -> Figure:
        """The higher of two figures."""
        return self if other is None or self.rate_per_s >= other.rate_per_s else other


# The probe's own error: a kernel that did not do its work.


class ProbeError(TimeroofError):
    """A measurement that cannot be right; its value is reported and never used."""


def wrong_result(kernel: str) -> ProbeError:
    """The error for a kernel whose result shows that it did not do its work."""
    return ProbeError(
        f"the {kernel} kernel gave a wrong result: its time is not used",
        advice="please report this with the output of `timeroof machine --json -`",
    )


@contextmanager
def recorded(errors: list[str]) -> Iterator[None]:
    """Note a probe error, once, and go on: one bad kernel must not cost the other figures."""
    try:
        yield
    except ProbeError as error:
        if error.message not in errors:
            errors.append(error.message)


# How far a measurement is: named steps with weights, told to whoever wants to show them.


Progress = Callable[[str, float], None]


class Steps:
    """Announces steps; weights are rough shares of the whole.

    >>> seen = []
    >>> steps = Steps(lambda name, share: seen.append((name, share)), total=4.0)
    >>> steps.begin("a", 1.0); steps.begin("b", 3.0); steps.end()
    >>> seen
    [('a', 0.0), ('b', 0.25), ('done', 1.0)]
    """

    def __init__(self, progress: Progress | None, total: float) -> None:
        self._progress, self._total = progress, total
        self._done = self._running = 0.0

    def begin(self, name: str, weight: float) -> None:
        """The step before is over, this one begins."""
        self._done += self._running
        self._running = weight
        self._tell(name, min(self._done / self._total, 0.99))

    def end(self) -> None:
        """All is done."""
        self._tell("done", 1.0)

    def _tell(self, name: str, share: float) -> None:
        if self._progress is not None:
            self._progress(name, share)


class Budget:
    """Time left for what is good to have but not needed."""

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start_s, self._limit_s = clock(), limit_s

    def used_s(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._start_s

    def left(self, share: float = 1.0) -> bool:
        """Whether less than a share of the time is used."""
        return self.used_s() < self._limit_s * share
