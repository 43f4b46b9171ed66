"""What a probe hands over: the machine and everything behind its ceilings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from timeroof.core.errors import TimeroofError
from timeroof.core.machine import Ceiling, Machine, Scope
from timeroof.probe.sampling import Samples

MEASUREMENT_SCHEMA = "timeroof.measurement/1"


class SweepPoint(msgspec.Struct, kw_only=True, frozen=True):
    """Useful bandwidth of one access pattern at one total working set."""

    pattern: str
    size_bytes: int
    threads: int
    rate_per_s: float
    spread: float


class Clock(msgspec.Struct, kw_only=True, frozen=True):
    """Cycles per second found with a chain of dependent adds."""

    scope: Scope
    threads: int
    rate_per_s: float


class Measurement(msgspec.Struct, kw_only=True, frozen=True):
    """A measured machine with its curve, its clocks and what there is to say about it. `notes` say
    what was assumed or left out, `warnings` what may have disturbed the figures and what to do,
    `errors` which values were refused because they cannot be right."""

    machine: Machine
    schema: str = MEASUREMENT_SCHEMA
    created: str = ""
    quick: bool = False
    duration_s: float = 0.0
    fingerprint: str = ""
    clocks: list[Clock] = []
    sweep: list[SweepPoint] = []
    notes: list[str] = []
    warnings: list[str] = []
    errors: list[str] = []


@dataclass(frozen=True)
class Figure:
    """Amount per second: the best of several samples, and how far they scatter."""

    rate_per_s: float
    spread: float

    @classmethod
    def of(cls, samples: Samples, amount: float) -> Figure:
        """The figure of samples in each of which one repetition does an amount.

        >>> Figure.of(Samples([2.0, 4.0]), amount=8.0).rate_per_s
        4.0
        """
        return cls(amount / samples.best_s, samples.spread)

    def better(self, other: Figure | None) -> Figure:
        """The higher of two figures."""
        return self if other is None or self.rate_per_s >= other.rate_per_s else other

    def ceiling(
        self, resource: str, source: str, *, scope: Scope = "all", threads: int | None = None,
        variants: Mapping[str, float] | None = None,
    ) -> Ceiling:  # fmt: skip
        """The figure as a measured ceiling of a machine."""
        return Ceiling(
            resource=resource,
            rate=self.rate_per_s,
            origin="measured",
            scope=scope,
            threads=threads,
            spread=self.spread,
            source=source,
            variants=dict(variants or {}),
        )


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
        if self._progress is not None:
            self._progress(name, min(self._done / self._total, 0.99))

    def end(self) -> None:
        """All is done."""
        if self._progress is not None:
            self._progress("done", 1.0)


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
