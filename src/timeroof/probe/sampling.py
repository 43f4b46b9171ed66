"""How a figure is sampled, and what a probe hands over: a machine and its measured ceilings.

Calibrated repetitions, at least ten samples, best, median, spread.

Seconds come from the `run` that is passed in, never from a clock of this file, so that
tests with a made-up `run` are exact.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from timeroof.core.errors import TimeroofError
from timeroof.core.machine import Ceiling, Machine, Scope
from timeroof.core.units import format_percent
from timeroof.model import stats

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
    def spread(self) -> float:
        """(p75 − p25) / median, 0 for one sample."""
        return stats.spread(self.times_s) or 0.0

    def joined(self, other: Samples) -> Samples:
        """The samples of two sittings as one."""
        return Samples([*self.times_s, *other.times_s], self.repetitions)


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
    """Sample `run(repetitions) -> seconds` until its best is confirmed. On a quiet machine that is
    the least number of samples; on a busy one sampling goes on, up to the plan's most, since a
    quiet moment is what shows the ceiling."""
    plan = plan or Plan()
    repetitions = calibrate(run, plan)
    times_s: list[float] = []
    while len(times_s) < plan.most:
        times_s.append(run(repetitions) / repetitions)
        limit = min(times_s) * (1 + plan.close)
        near = sum(time_s <= limit for time_s in times_s)
        enough = sum(times_s) * repetitions > plan.limit_s or near >= plan.confirmed
        if len(times_s) >= plan.least and enough:
            break
    return Samples(times_s, repetitions)


# Was the machine quiet while we measured? Warnings are values that say what to try.


# Shares of all CPU time above which a neighbour is worth a word.
BUSY_SHARE = 0.05
STOLEN_SHARE = 0.02
WIDE_SPREAD = 0.10
AGAIN = "Run `timeroof machine --fresh` to measure again."


@dataclass(frozen=True)
class CpuTimes:
    """Seconds of all CPUs together since boot, as the kernel counts them."""

    busy_s: float
    stolen_s: float
    total_s: float


def read_cpu_times(root: Path = Path("/")) -> CpuTimes | None:
    """The first line of /proc/stat, or None where there is none."""
    try:
        with (root / "proc/stat").open() as stat:
            fields = [float(word) for word in stat.readline().split()[1:]]
    except (OSError, ValueError):
        return None
    if len(fields) < 8:
        return None
    tick_s = 1.0 / (os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)
    user, nice, system, idle, iowait, irq, softirq, stolen = fields[:8]
    busy = user + nice + system + irq + softirq
    return CpuTimes(busy * tick_s, stolen * tick_s, (busy + idle + iowait + stolen) * tick_s)


class Watch:
    """Looks at the machine before and after, and says who else was running."""

    def __init__(
        self, root: Path = Path("/"), own_time: Callable[[], float] = time.process_time
    ) -> None:
        self._root, self._own_time = root, own_time
        self._before = read_cpu_times(root)
        self._own_before_s = own_time()

    def warnings(self) -> list[str]:
        """What disturbed the time since the watch began."""
        after = read_cpu_times(self._root)
        if self._before is None or after is None:
            return []
        total_s = after.total_s - self._before.total_s
        if total_s <= 0:
            return []
        own_s = self._own_time() - self._own_before_s
        others = (after.busy_s - self._before.busy_s - own_s) / total_s
        stolen = (after.stolen_s - self._before.stolen_s) / total_s
        found = []
        if others > BUSY_SHARE:
            found.append(
                f"Other programs used {format_percent(others)} of the CPU during the measurement."
                f" Close them. {AGAIN}"
            )
        if stolen > STOLEN_SHARE:
            found.append(
                f"The host took {format_percent(stolen)} of the CPU time from this virtual machine."
                f" {AGAIN}"
            )
        return found


def spread_warning(spreads: dict[str, float], *, disturbed: bool) -> str | None:
    """A word when samples differ: of which ceilings, how far, and what to do.

    `disturbed`: whether other programs or the host were seen to take CPU time, which is the cause
    then, and said already.
    """
    wide = {name: value for name, value in spreads.items() if value > WIDE_SPREAD}
    if not wide:
        return None
    worst = max(wide, key=lambda name: wide[name])
    are = "1 ceiling varies" if len(wide) == 1 else f"{len(wide)} of {len(spreads)} ceilings vary"
    words = (
        f"{are} by more than {format_percent(WIDE_SPREAD)} between samples, most of all {worst}"
        f" ({format_percent(wide[worst])}). Each ceiling is among its best samples."
    )
    return words if disturbed else f"{words} No other program was seen. {AGAIN}"


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
    # Whether other programs or the host had the CPUs meanwhile.
    is_disturbed: bool = False


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
