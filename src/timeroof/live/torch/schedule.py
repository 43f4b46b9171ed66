"""Which pass a step gets: warm-up, then timed, described and clean ones in turn."""

from __future__ import annotations

import random
import statistics
from dataclasses import replace
from enum import StrEnum

from timeroof.live.torch.recording import CleanStep, Recording

# After the first window of a long run, short ones at steps that lie ever farther apart.
LATER_WINDOW = 5
MOST_TIMED = 48
MOST_REPEATS = 3
# One pass in so many shows primitives, so that their shares do not hang on a single step.
PRIMITIVES_EVERY = 8
MOST_PRIMITIVES_PLACE = 24
# From so many steps on, one is described a second time: sizes may change from step to step.
DESCRIBED_TWICE = 8


class Pass(StrEnum):
    """What is done to a step."""

    # Nothing that can be used: it began before anybody looked, or its pass was given up.
    UNSEEN = "unseen"
    WARMUP = "warmup"
    CLEAN = "clean"
    TIMED = "timed"
    DESCRIBED = "described"
    PRIMITIVES = "primitives"
    # In place of primitives where the program uses a GPU.
    DEVICE = "device"
    # Without instruments, but caches and memory are still as those of the last step left them.
    SETTLING = "settling"
    # Without instruments like a clean one, after all that was to be looked at.
    FREE = "free"


UNTOUCHED = (Pass.CLEAN, Pass.FREE)
# Without instruments, but slower than usual perhaps: one stands in where no better one was seen.
UNSETTLED = (Pass.WARMUP, Pass.SETTLING)
INSTRUMENTED = (Pass.TIMED, Pass.DESCRIBED, Pass.PRIMITIVES, Pass.DEVICE)


class Schedule:
    """Hands out passes step by step.

    The most telling passes come first, as nobody knows how many steps a program has: ops
    with their times, then their shapes, then settled steps without instruments. Until one of
    those is seen, the last step of the warm-up stands in for it, so that it need not come
    before the timed one: a program of three steps has times, one of four shapes as well, and
    from six on (`warmup` is one less than the steps that pass first) nothing stands in.
    No timed pass follows a timed one: an annotation that is open over both would be written
    into memory that torch has freed. Between an instrumented step and a clean one lies one
    in which caches and memory settle; it is none of the `steps`. The end of every window is
    described once more, to see whether sizes are still the same.

    >>> plan = Schedule(warmup=1, steps=8)
    >>> " ".join(str(plan.next())[0] for _ in range(15))
    'w t d s c p s c t s c d s f f'
    """

    HEAD = (Pass.TIMED, Pass.DESCRIBED, Pass.CLEAN, Pass.PRIMITIVES)

    def __init__(self, warmup: int, steps: int) -> None:
        self.warmup, self.steps = warmup, steps
        self._step = -1
        self._timed = 0
        self._next_window = 2 * (warmup + steps)
        self._last = Pass.WARMUP
        self._repeats = 0
        self._repeat: Pass | None = None

    def next(self) -> Pass:
        """The pass of the next step."""
        if self._repeat is not None:
            self._last, self._repeat = self._repeat, None
            return self._last
        chosen = self._pass(self._step + 1)
        if chosen in UNTOUCHED and self._last in INSTRUMENTED:
            self._last = Pass.SETTLING
            return self._last
        self._step += 1
        self._timed += chosen is Pass.TIMED
        self._last = chosen
        return chosen

    def repeat(self, lost: Pass) -> None:
        """A pass could not be completed: do it again at the next step, a few times at most."""
        self._repeats += 1
        if self._repeats <= MOST_REPEATS:
            self._repeat = lost

    def _pass(self, step: int) -> Pass:
        if step < self.warmup:
            return Pass.WARMUP
        place = step - self.warmup
        if place < self.steps:
            if place < len(self.HEAD):
                return self.HEAD[place]
            if _shows_primitives(place):
                return Pass.PRIMITIVES
            if self.steps >= DESCRIBED_TWICE and place == self._last_described():
                return Pass.DESCRIBED
            return Pass.CLEAN if place % 2 == 0 else Pass.TIMED
        return self._later(step)

    def _last_described(self) -> int:
        last = self.steps - 1
        return last - 1 if _shows_primitives(last) else last

    def _later(self, step: int) -> Pass:
        if step < self._next_window or self._timed >= MOST_TIMED:
            return Pass.FREE
        place = step - self._next_window
        if place + 1 == LATER_WINDOW:
            self._next_window *= 2
            return Pass.DESCRIBED
        return Pass.CLEAN if place % 2 == 0 else Pass.TIMED


def _shows_primitives(place: int) -> bool:
    return place % PRIMITIVES_EVERY == 3 and place < MOST_PRIMITIVES_PLACE


# Clean steps: of a long run a fair sample, of a short one what stands in.


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
    """Where no clean step was seen, take the quickest unsettled one; warm-up only adds time. Its
    page faults may be those of the warm-up: at most as many count as in the timed steps."""
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
