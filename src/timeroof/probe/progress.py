"""How far a measurement is: named steps with weights, told to whoever wants to show them."""

from __future__ import annotations

import time
from collections.abc import Callable

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
