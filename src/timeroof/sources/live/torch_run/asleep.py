"""How long the stepping thread neither ran nor wanted to: sleep, files, the network, locks."""

from __future__ import annotations

import time
from pathlib import Path

_SCHEDSTAT = Path("/proc/thread-self/schedstat")
# Shares of a step below this are what clocks and a host's pauses of a virtual machine amount to.
LEAST_SHARE = 0.02


class Asleep:
    """Elapsed time less the thread's own, and less its waiting for a CPU (where Linux counts it).

    >>> asleep = Asleep()
    >>> asleep.begin()
    >>> time.sleep(0.05)
    >>> asleep.end_ns() > 20_000_000
    True
    """

    def __init__(self) -> None:
        self._begin = (0, 0, 0)

    def begin(self) -> None:
        """A step of this thread begins."""
        self._begin = _clocks_ns()

    def end_ns(self) -> int:
        """Nanoseconds asleep since the beginning; 0 where they are too few to be believed."""
        elapsed, own, queued = (n - b for n, b in zip(_clocks_ns(), self._begin, strict=True))
        asleep_ns = elapsed - own - queued
        return asleep_ns if asleep_ns >= LEAST_SHARE * elapsed else 0


def _clocks_ns() -> tuple[int, int, int]:
    """Elapsed, the thread's own, and what it waited for a CPU."""
    try:
        queued = int(_SCHEDSTAT.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        queued = 0
    return time.perf_counter_ns(), time.thread_time_ns(), queued
