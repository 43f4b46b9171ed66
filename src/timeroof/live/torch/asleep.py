"""How long the stepping thread neither ran nor wanted to: sleep, files, the network, locks."""

from __future__ import annotations

import resource
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

_SCHEDSTAT = Path("/proc/thread-self/schedstat")
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

    >>> asleep = Asleep()
    >>> asleep.begin()
    >>> time.sleep(0.05)
    >>> asleep.end().ns > 20_000_000
    True
    """

    def __init__(self) -> None:
        self._begin = (0, 0, 0, 0)
        self._counts_sleeps = counts_sleeps()

    def begin(self) -> None:
        """A step of this thread begins."""
        self._begin = _clocks()

    def end(self) -> Slept:
        """What was slept since the beginning; 0 ns where that is too little to be believed."""
        now = _clocks()
        elapsed, own, queued, switches = (n - b for n, b in zip(now, self._begin, strict=True))
        asleep_ns = elapsed - own - queued
        if asleep_ns < LEAST_SHARE * elapsed:
            asleep_ns = 0
        if not self._counts_sleeps:
            return Slept(asleep_ns, None)
        return Slept(asleep_ns if switches else 0, switches)


@cache
def counts_sleeps() -> bool:
    """Whether this system counts voluntary context switches; some sandboxes always say 0."""
    before = _voluntary_switches()
    time.sleep(_NAP_S)
    return _voluntary_switches() > before


def _voluntary_switches() -> int:
    return resource.getrusage(_WHOSE).ru_nvcsw


def _clocks() -> tuple[int, int, int, int]:
    """Elapsed, the thread's own, what it waited for a CPU (ns), and its voluntary switches."""
    try:
        queued = int(_SCHEDSTAT.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        queued = 0
    return time.perf_counter_ns(), time.thread_time_ns(), queued, _voluntary_switches()
