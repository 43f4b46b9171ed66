"""What recording one event costs, measured on a small program of its own."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

from timeroof.sources.live.torch_run.timing import Timing, is_profiling

# Events of one turn of the small program, and the most turns that a round may have.
TURN_EVENTS = 800
MOST_TURNS = 50
ROUNDS = 12
# Turns between two steps of the program: about so many, however long a round is.
TURNS_AT_ONCE = 12


class EventCost(NamedTuple):
    """Nanoseconds per event, and the standard error of that."""

    cost_ns: float
    error_ns: float


class Span(NamedTuple):
    """Elapsed time, and the thread's own."""

    wall_ns: int
    own_ns: int


class Calibration:
    """Rounds of a few hundred small ops with the profiler on and off, alternating.

    Forward and backward, nested and not, as programs have them; as many events as a step of
    the program has, as their records leave the caches too. Measured in the thread's own
    time, which a busy machine does not change much, and then stretched as much as the rounds
    were; they are taken between the program's steps, to meet the same company.
    """

    def __init__(self) -> None:
        self._work: Callable[[], None] | None = None
        self._bare: list[float] = []
        self._watched: list[float] = []
        self._stretch: list[float] = []
        self._turns = 1

    def after_step(self, events: int) -> None:
        """Take some rounds after a timed step with so many events."""
        self._turns = max(1, min(MOST_TURNS, round(events / TURN_EVENTS)))
        self.take(max(1, TURNS_AT_ONCE // self._turns))

    def take(self, rounds: int) -> None:
        """Take some rounds; nothing where a profiler is on."""
        if is_profiling():
            return
        if self._work is None:
            self._work = _small_program()
            self._round(self._work, 1)
        for _ in range(rounds):
            bare, watched, events = self._round(self._work, self._turns)
            if events:
                self._bare.append(bare.own_ns / events)
                self._watched.append(watched.own_ns / events)
                self._stretch += [bare.wall_ns / bare.own_ns, watched.wall_ns / watched.own_ns]

    def cost(self) -> EventCost | None:
        """Difference of the medians; takes the rounds that are still missing."""
        self.take(max(0, ROUNDS - len(self._bare)))
        if len(self._bare) < 4:
            return None
        both = (self._bare, self._watched)
        middle = [statistics.median(s) for s in both]
        spread = [_spread(s) for s in both]
        error = 1.2533 * math.hypot(*spread) / math.sqrt(len(self._bare))
        stretch = max(1.0, statistics.median(self._stretch))
        return EventCost(max(middle[1] - middle[0], 0.0) * stretch, error * stretch)

    def _round(self, work: Callable[[], None], turns: int) -> tuple[Span, Span, int]:
        bare = _timed(work, turns)
        watched, events = _watched(work, turns)
        return bare, watched, events


def _spread(values: list[float]) -> float:
    low, _, high = statistics.quantiles(values, n=4)
    return (high - low) / 1.349


def _watched(work: Callable[[], None], turns: int) -> tuple[Span, int]:
    timing = Timing()
    timing.start()
    try:
        watched = _timed(work, turns)
    finally:
        step = timing.stop()
    return watched, 0 if step is None else len(step)


def _timed(work: Callable[[], None], turns: int) -> Span:
    wall, own = time.perf_counter_ns(), time.thread_time_ns()
    for _ in range(turns):
        work()
    own_ns = time.thread_time_ns() - own
    return Span(time.perf_counter_ns() - wall, max(own_ns, 1))


def _small_program() -> Callable[[], None]:
    """Small element-wise ops and views with their backward pass.

    No random numbers are drawn, and nothing is large enough for a second thread.
    """
    import torch

    def full(*shape: int, grad: bool = False) -> torch.Tensor:
        return torch.full(shape, 0.1, dtype=torch.float32, device="cpu", requires_grad=grad)

    with torch.inference_mode(mode=False):
        weight, bias, x = full(8, 4, grad=True), full(8, 4, grad=True), full(8, 4)

    def run() -> None:
        with torch.inference_mode(mode=False), torch.enable_grad():
            y = x
            for _ in range(16):
                y = torch.sigmoid(y * weight + bias).narrow(0, 0, 8)
                y = y.reshape(4, 8).t()
            torch.autograd.grad(y.sum(), (weight, bias))

    return run
