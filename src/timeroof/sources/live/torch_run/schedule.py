"""Which pass a step gets: warm-up, then timed, described and clean ones in turn."""

from __future__ import annotations

from enum import StrEnum

# After the first window of a long run, short ones at steps that lie ever farther apart.
LATER_WINDOW = 4
MOST_TIMED = 48
# One pass in so many shows primitives, so that their shares do not hang on a single step.
PRIMITIVES_EVERY = 8
MOST_PRIMITIVES_PLACE = 24


class Pass(StrEnum):
    """What is done to a step."""

    WARMUP = "warmup"
    CLEAN = "clean"
    TIMED = "timed"
    DESCRIBED = "described"
    PRIMITIVES = "primitives"
    # In place of primitives where the program uses a GPU.
    DEVICE = "device"
    FREE = "free"


class Schedule:
    """Hands out passes step by step.

    The most telling passes come first, as nobody knows how many steps a program has. No
    timed pass follows a timed one: an annotation that is open over both would be written
    into memory that torch has freed.

    >>> plan = Schedule(warmup=1, steps=8)
    >>> [str(plan.next())[0] for _ in range(10)]
    ['w', 't', 'd', 'c', 'p', 'c', 't', 'c', 't', 'f']
    """

    HEAD = (Pass.TIMED, Pass.DESCRIBED, Pass.CLEAN, Pass.PRIMITIVES)

    def __init__(self, warmup: int, steps: int) -> None:
        self.warmup, self.steps = warmup, steps
        self._step = -1
        self._timed = 0
        self._next_window = 2 * (warmup + steps)

    def next(self) -> Pass:
        """The pass of the next step."""
        self._step += 1
        chosen = self._pass(self._step)
        self._timed += chosen is Pass.TIMED
        return chosen

    def _pass(self, step: int) -> Pass:
        if step < self.warmup:
            return Pass.WARMUP
        place = step - self.warmup
        if place < self.steps:
            if place < len(self.HEAD):
                return self.HEAD[place]
            if place % PRIMITIVES_EVERY == 3 and place < MOST_PRIMITIVES_PLACE:
                return Pass.PRIMITIVES
            return Pass.CLEAN if place % 2 == 0 else Pass.TIMED
        return self._later(step)

    def _later(self, step: int) -> Pass:
        if step < self._next_window or self._timed >= MOST_TIMED:
            return Pass.FREE
        place = step - self._next_window
        if place + 1 == LATER_WINDOW:
            self._next_window *= 2
        return Pass.CLEAN if place % 2 == 0 else Pass.TIMED
