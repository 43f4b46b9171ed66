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
# Rounds on each side that are needed; what the program's steps did not give is taken at the end.
ROUNDS = 4
ROUNDS_AT_END = 12


class EventCost(NamedTuple):
    """Nanoseconds per event, and the standard error of that."""

    cost_ns: float
    error_ns: float


class Span(NamedTuple):
    """Elapsed time, and the thread's own."""

    wall_ns: int
    own_ns: int


class Calibration:
    """Rounds of a few hundred small ops with the profiler on and off.

    Forward and backward, nested and not, as programs have them; as many events as a step of
    the program has, as their records leave the caches too. Measured in the thread's own
    time, which a busy machine does not change much, and then stretched as much as the rounds
    were. A round without the profiler comes right before a timed step, one with it right after:
    both find the caches as the program's ops do, full of something else, where an event costs
    half as much again as in a loop of events.
    """

    def __init__(self) -> None:
        self._made: Callable[[], None] | None = None
        # Nanoseconds per turn, and how much longer the rounds were than their thread's own time.
        self._bare: list[float] = []
        self._watched: list[float] = []
        self._stretch: list[float] = []
        self._turns = 1
        self._events_a_turn = 0.0

    @property
    def _work(self) -> Callable[[], None]:
        if self._made is None:
            self._made = _small_program()
        return self._made

    def before_step(self) -> None:
        """A round without the profiler, before a timed step."""
        if not is_profiling():
            self._add_bare(_timed(self._work, self._turns))

    def after_step(self, events: int) -> None:
        """A round with the profiler, after a timed step with so many events."""
        self._turns = max(1, min(MOST_TURNS, round(events / TURN_EVENTS)))
        if not is_profiling():
            self._add_watched(*_watched(self._work, self._turns))

    def warm_up(self) -> None:
        """The first use of the profiler, and of the small program, is slow."""
        if not is_profiling():
            _watched(self._work, 1)

    def cost(self) -> EventCost | None:
        """Difference of the medians; takes rounds of its own where the steps gave too few."""
        if min(len(self._bare), len(self._watched)) < ROUNDS:
            self._take(ROUNDS_AT_END)
        if min(len(self._bare), len(self._watched)) < ROUNDS or not self._events_a_turn:
            return None
        both = (self._bare, self._watched)
        middle = [statistics.median(s) for s in both]
        errors = [1.2533 * _spread(s) / math.sqrt(len(s)) for s in both]
        scale = max(1.0, statistics.median(self._stretch)) / self._events_a_turn
        return EventCost(max(middle[1] - middle[0], 0.0) * scale, math.hypot(*errors) * scale)

    def _take(self, rounds: int) -> None:
        if is_profiling():
            return
        self._bare, self._watched, self._stretch = [], [], []
        for _ in range(rounds):
            self._add_bare(_timed(self._work, self._turns))
            self._add_watched(*_watched(self._work, self._turns))

    def _add_bare(self, span: Span) -> None:
        self._bare.append(span.own_ns / self._turns)
        self._stretch.append(span.wall_ns / span.own_ns)

    def _add_watched(self, span: Span, events: int) -> None:
        if events:
            self._events_a_turn = events / self._turns
            self._watched.append(span.own_ns / self._turns)
            self._stretch.append(span.wall_ns / span.own_ns)


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
