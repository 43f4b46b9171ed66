"""Sampling with a clock that tests move: warm-up, batches, confidence, cold caches."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from itertools import chain, cycle, repeat

from timeroof.study.case import Plan
from timeroof.study.worker.sampling import Reading, sample, wall_clock


class FakeClock:
    """Every execution takes the next of these seconds."""

    def __init__(self, seconds: Iterator[float]) -> None:
        self.now_s = 0.0
        self._seconds = seconds
        self.asked: list[int] = []

    def __call__(self, run: Callable[[], object], times: int) -> Reading:
        spent = 0.0
        for _ in range(times):
            run()
            spent += next(self._seconds)
        self.asked.append(times)
        self.now_s += spent
        return Reading(spent, 2 * times)

    def now(self) -> float:
        return self.now_s


def nothing() -> None:
    pass


def test_a_steady_kernel_needs_the_least_samples() -> None:
    clock = FakeClock(repeat(0.01))
    found = sample(nothing, clock, Plan(least=10), now=clock.now)
    assert len(found.samples_s) == 10
    assert found.confidence == 0.0
    assert found.faults == [2.0] * 10


def test_a_noisy_kernel_is_sampled_until_the_time_is_over() -> None:
    clock = FakeClock(cycle([0.01, 0.02]))
    found = sample(nothing, clock, Plan(budget_s=1.0, precision=0.001, most=10_000), now=clock.now)
    assert 60 < len(found.samples_s) < 70
    assert found.confidence is not None
    assert found.confidence > 0.001


def test_a_slow_start_is_not_sampled() -> None:
    clock = FakeClock(chain([1.0, 0.5, 0.1], repeat(0.01)))
    found = sample(nothing, clock, Plan(warmup_s=10.0), now=clock.now)
    assert max(found.samples_s) == 0.01


def test_a_short_kernel_is_run_many_times_a_sample() -> None:
    clock = FakeClock(repeat(2e-6))
    found = sample(nothing, clock, Plan(sample_s=200e-6), now=clock.now)
    assert found.executions_per_sample in (100, 101)
    assert abs(statistics.median(found.samples_s) - 2e-6) < 1e-12


def test_cold_samples_are_single_executions_behind_a_flush() -> None:
    events: list[str] = []
    clock = FakeClock(repeat(2e-6))
    found = sample(
        lambda: events.append("run"),
        clock,
        Plan(least=5),
        lambda: events.append("flush"),
        now=clock.now,
    )
    assert found.executions_per_sample == 1
    last = events[-10:]
    assert last == ["flush", "run"] * 5


def test_what_takes_long_is_sampled_five_times() -> None:
    clock = FakeClock(repeat(100.0))
    assert len(sample(nothing, clock, Plan(), now=clock.now).samples_s) == 5


def test_a_real_clock_counts_up() -> None:
    reading = wall_clock(nothing, 3)
    assert reading.time_s > 0
    assert reading.faults >= 0
