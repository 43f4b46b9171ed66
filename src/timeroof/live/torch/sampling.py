"""Clean steps: of a long run a fair sample, of a short one what stands in; can it be believed?"""

from __future__ import annotations

import random
import statistics
from dataclasses import replace

from timeroof.core.units import format_seconds
from timeroof.live.torch.recording import CleanStep, Recording

MOST_CLEAN = 200
# A step that took so many times as long as timed ones still did something else (compiling).
MOST_UNSETTLED = 2.0


class CleanSample:
    """Keeps at most so many of all clean steps, each with the same chance."""

    def __init__(self, most: int = MOST_CLEAN) -> None:
        self._most, self._seen = most, 0
        # Numbers of its own: the program's random numbers stay as they are.
        self._random = random.Random(0)

    def take(self, found: Recording, step: CleanStep, *, settled: bool) -> None:
        """A step without instruments ended; an unsettled one is kept until a settled one comes."""
        if settled:
            self.add(found.clean, step)
        elif not found.clean:
            # The last of a warm-up is the most settled one of it, that after instruments is later.
            found.unsettled = [*found.unsettled[-1:], step] if found.timed else [step]

    def add(self, kept: list[CleanStep], step: CleanStep) -> None:
        """Put a step into the sample, perhaps in place of another."""
        self._seen += 1
        if len(kept) < self._most:
            kept.append(step)
            return
        place = self._random.randrange(self._seen)
        if place < self._most:
            kept[place] = step


def stand_in(found: Recording) -> None:
    """Where no clean step was seen, take the quickest unsettled one; warm-up only adds time.

    Its page faults may be those of the warm-up: at most as many count as in the timed steps.
    """
    if found.clean or not found.timed or not found.unsettled:
        return
    quickest = min(found.unsettled, key=lambda step: step.duration_ns)
    usual_ns = statistics.median(step.duration_ns for step in found.timed)
    if quickest.duration_ns > MOST_UNSETTLED * usual_ns:
        return
    fewest = min(quickest.faults, *(step.faults for step in found.timed))
    found.clean = [replace(quickest, faults=fewest)]
    found.note(
        "The only unprofiled step was still warming up, or came right after a profiled one. Its"
        " time is the step time here. Run more steps for a settled one."
    )


def slow_clean_note(found: Recording) -> str | None:
    """A word where steps without instruments are slower than timed ones, beyond chance."""
    # Here, so that its libraries are not loaded before the program.
    from timeroof.model.stats import two_samples

    clean = [s.duration_ns for s in found.clean if not s.profiled]
    timed = [s.duration_ns for s in found.timed]
    if len(clean) < 4 or len(timed) < 4:
        return None
    ratio = two_samples(timed, clean)
    if ratio is None or ratio.value <= 1 or not ratio.counts():
        return None
    middle = statistics.median(clean), statistics.median(timed)
    return (
        f"clean steps took longer than timed ones ({format_seconds(middle[0] / 1e9, 4)} against"
        f" {format_seconds(middle[1] / 1e9, 4)}, medians): steps differ, or the machine was"
        " busy; take the step time with care"
    )
