"""How fast the machine was while a program ran: a fixed piece of work, timed beside clean steps.

A virtual machine may share its cores with a neighbour whom nobody here can see: for minutes all
steps take a fifth longer, and no sample of the run shows that it was not the program. A product
of two long integers uses the core's units as densely as a kernel does (it slows down about twice
as much), needs neither torch nor memory, and leaves the program's state alone.
"""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

# About 60 µs each: long for the clock, short for a program.
BITS = 12_000
_LEFT, _RIGHT = (1 << BITS) // 7, (1 << BITS) // 11
# At most so often and so many: a program of short steps must not spend its time on this.
EVERY_NS = 10_000_000
MOST_SAMPLES = 200
TURNS = 3


class Pace:
    """Times the fixed work now and then.

    >>> now_ns = iter([20_000_000, 0, 500, 1_000, 1_200, 2_000, 2_300])
    >>> samples: list[float] = []
    >>> Pace(lambda: next(now_ns)).take(samples)
    >>> samples
    [2e-07]
    """

    def __init__(self, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock_ns = clock_ns
        self._next_ns = 0

    def take(self, samples: list[float]) -> None:
        """Add the seconds of one more, if it is time."""
        now_ns = self._clock_ns()
        if len(samples) >= MOST_SAMPLES or now_ns < self._next_ns:
            return
        self._next_ns = now_ns + EVERY_NS
        # The best of a few: the first finds the program's data in the caches.
        samples.append(min(self._once_ns() for _ in range(TURNS)) / 1e9)

    def _once_ns(self) -> int:
        begin_ns = self._clock_ns()
        _LEFT * _RIGHT
        return self._clock_ns() - begin_ns


# How long the stepping thread neither ran nor wanted to: sleep, files, the network, locks.


_SCHEDSTAT = Path("/proc/thread-self/schedstat")
_TASKS = Path("/proc/self/task")
# Shares of a step below this are what clocks and a host's pauses of a virtual machine amount to.
LEAST_SHARE = 0.02
# Linux counts per thread; elsewhere the process's count is what there is.
_WHOSE = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
# Any sleep that gives the CPU up, to see whether this system counts such sleeps.
_NAP_S = 1e-4


class Slept(NamedTuple):
    """Nanoseconds asleep, and how often the thread gave its CPU up (None: not counted here)."""

    ns: int
    times: int | None


class Asleep:
    """Elapsed time less the thread's own, and less its waiting for a CPU (where Linux counts it).

    Pauses of a virtual machine and a container's quota stop a thread too, and no clock of its own
    tells them from sleep. But a thread that sleeps gives its CPU up itself: without a voluntary
    context switch nothing was slept, however long the step stood still.

    Nor is it the program that sleeps where an op waits for its other threads and those wait for a
    CPU: as much as they waited is left out.
    """

    def __init__(self) -> None:
        self._begin = self._end = (0, 0, 0, 0)
        self._others_ns = 0
        self._counts_sleeps = counts_sleeps()

    def watch_others(self) -> None:
        """Look at the other threads; takes longer than the rest, so before a step begins."""
        self._others_ns = _others_queued_ns()

    def begin(self) -> None:
        """A step of this thread begins."""
        self._begin = _clocks()

    def end(self) -> None:
        """The step ended."""
        self._end = _clocks()

    def slept(self) -> Slept:
        """What was slept in the step; 0 ns where that is too little to be believed."""
        both = zip(self._end, self._begin, strict=True)
        elapsed, own, queued, switches = (end - begin for end, begin in both)
        # Counts of threads that have ended meanwhile are gone.
        others_ns = max(0, _others_queued_ns() - self._others_ns)
        asleep_ns = elapsed - own - queued - others_ns
        if asleep_ns < LEAST_SHARE * elapsed:
            asleep_ns = 0
        told = Slept(asleep_ns if switches else 0, switches)
        return told if self._counts_sleeps else Slept(asleep_ns, None)


@cache
def counts_sleeps() -> bool:
    """Whether this system counts voluntary context switches; some sandboxes always say 0."""
    before = _voluntary_switches()
    time.sleep(_NAP_S)
    return _voluntary_switches() > before


def _voluntary_switches() -> int:
    return resource.getrusage(_WHOSE).ru_nvcsw


def _others_queued_ns() -> int:
    me = str(threading.get_native_id())
    tasks = _TASKS.glob("*/schedstat")
    return sum(_queued_ns(task) for task in tasks if task.parent.name != me)


def _queued_ns(schedstat: Path) -> int:
    """What a thread has waited for a CPU; 0 where nobody counts it, or the thread has ended."""
    try:
        return int(schedstat.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _clocks() -> tuple[int, int, int, int]:
    """Elapsed, the thread's own, what it waited for a CPU (ns), and its voluntary switches."""
    queued_ns = _queued_ns(_SCHEDSTAT)
    return time.perf_counter_ns(), time.thread_time_ns(), queued_ns, _voluntary_switches()
