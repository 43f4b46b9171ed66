"""What recording one event costs, from rounds of two small programs."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from timeroof.core.errors import TimeroofError
from timeroof.core.files import keep_bytes, regular_bytes
from timeroof.live.recording import TimedStep
from timeroof.live.running import event_costs_file, kept_figures, this_machine
from timeroof.model.stats import median_error
from timeroof_recorder.clocks import CLOSE, FAR

# Rounds that do.
LEAST_ROUNDS = 4
# Rounds that took so many times longer than they ran are of this run alone: what others have in the
# caches makes an event dear, too.
MOST_STRETCH = 1.5
# How far beyond the second program the line through both is believed.
FARTHEST = 2.0


class EventCost(NamedTuple):
    """Nanoseconds per event, and the standard error of that."""

    cost_ns: float
    error_ns: float


class Round(NamedTuple):
    """A round of a small program: the thread's own time, elapsed time (ns) and turns without the
    profiler and with it, the events seen, and the time that they cover."""

    bare: tuple[int, int, int]
    watched: tuple[int, int, int]
    events: int
    length_ns: int

    @property
    def cost_ns(self) -> float:
        """Own time more per event."""
        own, _, turns = self.bare
        more = self.watched[0] / self.watched[2] - own / turns
        return more / (self.events / self.watched[2])

    @property
    def stretch(self) -> float:
        """How much longer it took than its thread's own time."""
        return (self.bare[1] + self.watched[1]) / max(1, self.bare[0] + self.watched[0])


class Program(NamedTuple):
    """One small program: what an event costs in it of a CPU's time, the error of that, and the
    program's time per event."""

    cost_ns: float
    error_ns: float
    spacing_ns: float

    @classmethod
    def of(cls, rounds: Sequence[Round]) -> Program | None:
        """The median of the rounds, as if they had had the CPUs for themselves; None where there
        are few."""
        if len(rounds) < LEAST_ROUNDS:
            return None
        costs = [r.cost_ns for r in rounds]
        middle = max(statistics.median(costs), 0.0)
        spacing = statistics.median(r.length_ns / r.events for r in rounds)
        return cls(middle, median_error(costs) or 0.0, spacing / stretch_of(rounds))


def stretch_of(rounds: Sequence[Round]) -> float:
    """How much longer rounds took than they ran, as others had the CPUs: it is of this run alone,
    so it is not kept."""
    return max(1.0, statistics.median(r.stretch for r in rounds)) if rounds else 1.0


def event_cost(
    rounds: Mapping[str, Sequence[Round]], kept: Mapping[str, Program], steps: Sequence[TimedStep]
) -> EventCost | None:
    """What an event costs in a program with these steps; None where nothing is known.

    Two programs were measured: one whose ops follow one another closely, and one with kernels
    between them, where an event costs more, as it finds other things in the caches. The program's
    own time per event says where between the two it lies; far beyond them nothing is known, and
    nothing depends on it either, as there are few events then.
    """
    close = Program.of(rounds.get(CLOSE, ())) or kept.get(CLOSE)
    far = Program.of(rounds.get(FAR, ())) or kept.get(FAR)
    if close is None or far is None:
        one = close or far
        return None if one is None else EventCost(one.cost_ns, one.error_ns)
    first, second = close.spacing_ns, far.spacing_ns
    place = (spacing_ns(steps) - first) / (second - first) if second > first else 1.0
    ends = [EventCost(p.cost_ns, p.error_ns) for p in (close, far)]
    return between(ends[0], ends[1], min(max(place, 0.0), FARTHEST))


def between(close: EventCost, far: EventCost, place: float) -> EventCost:
    """The cost at a place on the line from the close ops (0) to those with kernels (1).

    >>> between(EventCost(400.0, 0.0), EventCost(800.0, 0.0), 0.5).cost_ns
    600.0
    """
    cost_ns = close.cost_ns + place * (far.cost_ns - close.cost_ns)
    error_ns = math.hypot((1 - place) * close.error_ns, place * far.error_ns)
    return EventCost(max(cost_ns, 0.0), error_ns)


def spacing_ns(steps: Sequence[TimedStep]) -> float:
    """Time per event, without what the program slept or waited for a CPU."""
    events = sum(len(step) for step in steps)
    return sum(step.duration_ns - step.asleep_ns - step.waited_ns for step in steps) / max(
        events, 1
    )


# Calibrations are kept per machine and version of a framework: a program's end is quick then.


def kept_calibrations() -> dict[str, dict[str, Program]]:
    """Programs of this machine by framework and version ("torch 2.9.0")."""
    return {
        framework: {name: Program(*figures) for name, figures in programs.items()}
        for framework, programs in kept_figures().items()
        if all(len(figures) == 3 for figures in programs.values())
    }


def keep_calibration(framework: str, rounds: Mapping[str, Sequence[Round]]) -> None:
    """Keep what a run has measured of both programs; not beside busy neighbours."""
    if any(stretch_of(own) > MOST_STRETCH for own in rounds.values()):
        return
    made = {name: Program.of(rounds.get(name, ())) for name in (CLOSE, FAR)}
    known = {name: list(program) for name, program in made.items() if program is not None}
    if len(known) < 2:
        return
    try:
        every = json.loads(regular_bytes(event_costs_file()))
    except (OSError, ValueError):
        every = {}
    if not isinstance(every, dict):
        every = {}
    every.setdefault(this_machine(), {})[framework] = known
    with suppress(OSError, TimeroofError):
        event_costs_file().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        keep_bytes(event_costs_file(), json.dumps(every).encode())
