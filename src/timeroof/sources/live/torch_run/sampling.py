"""Clean steps of a long run: a fair sample of bounded size, and whether it can be believed."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

from timeroof.sources.live.torch_run.recording import CleanStep, Recording

MOST_CLEAN = 200
# So many standard errors are more than chance.
CLEARLY = 2.0


class CleanSample:
    """Keeps at most so many of all clean steps, each with the same chance."""

    def __init__(self, most: int = MOST_CLEAN) -> None:
        self._most, self._seen = most, 0
        # Numbers of its own: the program's random numbers stay as they are.
        self._random = random.Random(0)

    def add(self, kept: list[CleanStep], step: CleanStep) -> None:
        """Put a step into the sample, perhaps in place of another."""
        self._seen += 1
        if len(kept) < self._most:
            kept.append(step)
            return
        place = self._random.randrange(self._seen)
        if place < self._most:
            kept[place] = step


def slow_clean_note(found: Recording) -> str | None:
    """A word where steps without instruments are slower than timed ones, beyond chance."""
    clean = [s.duration_ns for s in found.clean if not s.profiled]
    timed = [s.duration_ns for s in found.timed]
    if len(clean) < 4 or len(timed) < 4:
        return None
    middle = statistics.median(clean), statistics.median(timed)
    if middle[0] - middle[1] <= CLEARLY * math.hypot(_error(clean), _error(timed)):
        return None
    return (
        f"clean steps took longer than timed ones ({middle[0] / 1e3:.4g} µs against"
        f" {middle[1] / 1e3:.4g} µs, medians): steps differ, or the machine was busy; take the"
        " step time with care"
    )


def _error(values: Sequence[int]) -> float:
    """Standard error of a median, from the quartiles."""
    low, _, high = statistics.quantiles(values, n=4)
    return 1.2533 * (high - low) / 1.349 / math.sqrt(len(values))
