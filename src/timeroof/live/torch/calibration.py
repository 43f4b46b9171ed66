"""What recording one event costs, measured on small programs of our own."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from timeroof.live.torch.process import unseen
from timeroof.live.torch.recording import TimedStep
from timeroof.live.torch.timing import Timing, is_profiling

if TYPE_CHECKING:
    from torch import Tensor

# The small programs draw no random numbers and call no module: modes and hooks see none of them.
CHANNELS, SIZE, BATCH, DEPTH = 8, 16, 4, 8


def close_ops() -> Callable[[], None]:
    """Small element-wise ops and views with their backward pass, one right after the other."""
    import torch

    with unseen():
        weight, bias, x = _full(8, 4, grad=True), _full(8, 4, grad=True), _full(8, 4)

    def run() -> None:
        with unseen():
            y = x
            for _ in range(16):
                y = torch.sigmoid(y * weight + bias).narrow(0, 0, 8)
                y = y.reshape(4, 8).t()
            torch.autograd.grad(y.sum(), (weight, bias))

    return run


def ops_apart() -> Callable[[], None]:
    """A small convolution net with its backward pass: kernels of ten microseconds between events.
    The kernels push the profiler's code and data out of the near caches."""
    import torch
    from torch.nn import functional

    with unseen():
        kernels = [_full(CHANNELS, CHANNELS, 3, 3, grad=True) for _ in range(DEPTH)]
        scales = [_full(CHANNELS, grad=True) for _ in range(2 * DEPTH)]
        x = _full(BATCH, CHANNELS, SIZE, SIZE)

    def run() -> None:
        with unseen():
            y = x
            for depth, kernel in enumerate(kernels):
                z = functional.conv2d(y, kernel, padding=1)
                z = functional.batch_norm(
                    z, None, None, scales[2 * depth], scales[2 * depth + 1], training=True
                )
                z = functional.relu(z)
                y = torch.cat([z[:, : CHANNELS // 2], y[:, CHANNELS // 2 :]], 1)
            torch.autograd.grad(y.mean((2, 3)).logsumexp(1).sum(), kernels + scales)

    return run


def _full(*shape: int, grad: bool = False) -> Tensor:
    import torch

    return torch.full(shape, 0.1, dtype=torch.float32, device="cpu", requires_grad=grad)


# Events of one turn of the small programs, and the most turns that a round may have.
TURN_EVENTS = 800
MOST_TURNS = 50
# Rounds beside the program's own steps that do.
ROUNDS_IN_PLACE = 4
# Rounds that are needed at the end, and the most that are taken to know the cost well enough: its
# error is then at most this share of the program's time.
LEAST_ROUNDS, MOST_ROUNDS = 8, 48
NEGLIGIBLE = 0.005
# How far beyond the second program the line through both is believed.
FARTHEST = 2.0


class EventCost(NamedTuple):
    """Nanoseconds per event, and the standard error of that."""

    cost_ns: float
    error_ns: float


class Rounds:
    """Turns of one small program, each round once without the profiler and once with it. Measured
    in the thread's own time, which a busy machine does not change much, and then stretched as much
    as the rounds were."""

    def __init__(self, make: Callable[[], Callable[[], None]]) -> None:
        self._make = make
        self._made: Callable[[], None] | None = None
        self._bare_ns: float | None = None
        # Nanoseconds per event, and how much longer the rounds were than their thread's own time.
        self._costs: list[float] = []
        self._stretch: list[float] = []
        self._spacing: list[float] = []

    def __len__(self) -> int:
        return len(self._costs)

    @property
    def spacing_ns(self) -> float:
        """Time per event."""
        return statistics.median(self._spacing)

    def settle(self) -> None:
        """A turn that is not looked at: the caches are full of something else."""
        self._own_ns(1)

    def bare(self, turns: int) -> None:
        """The half of a round without the profiler."""
        self._bare_ns = self._own_ns(turns) / turns

    def watched(self, turns: int) -> None:
        """The other half; a round without its first is forgotten."""
        timing = Timing()
        timing.start()
        try:
            own_ns = self._own_ns(turns)
        finally:
            step = timing.stop()
        if step is not None and len(step) and self._bare_ns is not None:
            self._costs.append((own_ns / turns - self._bare_ns) / (len(step) / turns))
            self._spacing.append(spacing_ns([step]))
        self._bare_ns = None

    def cost(self) -> EventCost:
        """The median of the rounds."""
        # Here, so that its libraries are not loaded before the program.
        from timeroof.model.stats import median_error

        stretch = max(1.0, statistics.median(self._stretch))
        middle = statistics.median(self._costs)
        return EventCost(max(middle, 0.0) * stretch, (median_error(self._costs) or 0.0) * stretch)

    def _own_ns(self, turns: int) -> int:
        if self._made is None:
            self._made = self._make()
        wall, own = time.perf_counter_ns(), time.thread_time_ns()
        for _ in range(turns):
            self._made()
        own_ns = max(1, time.thread_time_ns() - own)
        self._stretch.append((time.perf_counter_ns() - wall) / own_ns)
        return own_ns


class Calibration:
    """What an event costs in this program.

    Two programs are measured: one whose ops follow one another closely, and one with kernels
    between them, where an event costs more, as it finds other things in the
    caches. The program's own time per event says where between the two it lies; far beyond them
    nothing is known, and nothing depends on it either, as there are few events then.

    The first has as many events as a step of the program, as their records leave the caches,
    too. Its round without the profiler comes right before a timed step, that with it right
    after: both find the caches as the program's ops do, full of something else.
    """

    def __init__(self) -> None:
        self._close, self._far = Rounds(close_ops), Rounds(ops_apart)
        self._turns = 1

    def before_step(self) -> None:
        """A round without the profiler, before a timed step."""
        if not is_profiling():
            self._close.bare(self._turns)

    def after_step(self, events: int) -> None:
        """A round with the profiler, after a timed step with so many events (0: to warm it up)."""
        if not is_profiling():
            self._close.watched(self._turns)
        self._turns = max(1, min(MOST_TURNS, round(events / TURN_EVENTS)))

    def cost(self, steps: Sequence[TimedStep]) -> EventCost | None:
        """For a program with these steps; None where nothing could be measured."""
        also_close = len(self._close) < ROUNDS_IN_PLACE
        if is_profiling():  # the program's own was left on
            return None if also_close else self._close.cost()
        import torch

        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # however many the program has
        try:
            return self._measured(spacing_ns(steps), also_close)
        finally:
            torch.set_num_threads(threads)

    def _measured(self, spacing: float, also_close: bool) -> EventCost:
        self._take(also_close)  # the first uses are slow
        self._far = Rounds(ops_apart)
        for taken in range(MOST_ROUNDS):
            self._take(also_close)
            if taken + 1 >= LEAST_ROUNDS:
                cost = self._between(spacing)
                if cost.error_ns <= NEGLIGIBLE * spacing:
                    break
        return cost

    def _take(self, also_close: bool) -> None:
        """One round of the program with kernels; one of the other where the steps gave too few."""
        for rounds in (self._far, self._close) if also_close else (self._far,):
            self._far.settle()
            rounds.bare(1)
            self._far.settle()
            rounds.watched(1)

    def _between(self, spacing: float) -> EventCost:
        """For a program with this time per event: on the line through both small programs."""
        first, second = self._close.spacing_ns, self._far.spacing_ns
        place = (spacing - first) / (second - first) if second > first else 1.0
        return between(self._close.cost(), self._far.cost(), min(max(place, 0.0), FARTHEST))


def between(close: EventCost, far: EventCost, place: float) -> EventCost:
    """The cost at a place on the line from the close ops (0) to those with kernels (1).

    >>> between(EventCost(400.0, 0.0), EventCost(800.0, 0.0), 0.5).cost_ns
    600.0
    """
    cost_ns = close.cost_ns + place * (far.cost_ns - close.cost_ns)
    error_ns = math.hypot((1 - place) * close.error_ns, place * far.error_ns)
    return EventCost(max(cost_ns, 0.0), error_ns)


def spacing_ns(steps: Sequence[TimedStep]) -> float:
    """Time per event, without what the program slept."""
    events = sum(len(step) for step in steps)
    return sum(step.duration_ns - step.asleep_ns for step in steps) / max(events, 1)
