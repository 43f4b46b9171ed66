"""How fast the machine was while a program ran: a fixed piece of work, timed beside clean steps.

A virtual machine may share its cores with a neighbour whom nobody here can see: for minutes all
steps take a fifth longer, and no sample of the run shows that it was not the program. A product
of two long integers uses the core's units as densely as a kernel does (it slows down about twice
as much), needs neither torch nor memory, and leaves the program's state alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable

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
