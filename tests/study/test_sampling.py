"""Sampling with a clock that tests move: warm-up, turns, blocks, confidence, cold caches."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from itertools import chain, cycle, repeat

from timeroof.study.case import Plan
from timeroof.study.worker.sampling import Entrant, Reading, Sampled, cpu_clock, sample, wall_clock


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


def sampled(clock: FakeClock, plan: Plan, entrant: Entrant | None = None) -> Sampled:
    return sample([entrant or Entrant(nothing)], clock, plan, now=clock.now)[0]


def test_a_steady_kernel_needs_the_least_samples() -> None:
    found = sampled(FakeClock(repeat(0.01)), Plan(least=10))
    assert len(found.samples_s) == 10
    assert found.confidence == 0.0
    assert found.faults == [2.0] * 10


def test_a_noisy_kernel_is_sampled_until_the_time_is_over() -> None:
    clock = FakeClock(cycle([0.01, 0.02]))
    found = sampled(clock, Plan(budget_s=1.0, precision=0.001, most=10_000))
    assert 60 < len(found.samples_s) < 72
    assert found.confidence is not None
    assert found.confidence > 0.001


def test_a_slow_start_is_not_sampled() -> None:
    clock = FakeClock(chain([1.0, 0.5, 0.1], repeat(0.01)))
    assert max(sampled(clock, Plan(warmup_s=10.0)).samples_s) == 0.01


def test_a_short_kernel_is_run_many_times_a_sample() -> None:
    found = sampled(FakeClock(repeat(2e-6)), Plan(sample_s=200e-6))
    assert found.executions_per_sample in (100, 101)
    assert abs(statistics.median(found.samples_s) - 2e-6) < 1e-12


def test_cold_samples_are_single_executions_behind_a_flush() -> None:
    events: list[str] = []
    entrant = Entrant(lambda: events.append("run"), lambda: events.append("flush"))
    found = sampled(FakeClock(repeat(2e-6)), Plan(least=6), entrant)
    assert found.executions_per_sample == 1
    assert events[-12:] == ["flush", "run"] * 6


def test_what_takes_long_is_sampled_for_three_rounds() -> None:
    assert len(sampled(FakeClock(repeat(100.0)), Plan()).samples_s) == 6


def test_cases_take_turns_there_and_back() -> None:
    events: list[str] = []
    clock = FakeClock(repeat(0.01))
    names = ("a", "b", "c")
    entrants = [Entrant(lambda name=name: events.append(name)) for name in names]  # type: ignore[misc]
    found = sample(entrants, clock, Plan(least=4), now=clock.now)
    assert "".join(events[-12:]) == "abccbaabccba"
    assert [len(one.samples_s) for one in found] == [4, 4, 4]


def test_a_short_kernel_warms_up_before_each_of_its_blocks() -> None:
    events: list[str] = []
    clock = FakeClock(repeat(1e-3))
    entrants = [Entrant(lambda: events.append("a")), Entrant(lambda: events.append("b"))]
    sample(entrants, clock, Plan(least=4), now=clock.now)
    assert "".join(events[-16:]) == "aabbbbaaaabbbbaa"


def test_one_noisy_case_keeps_all_of_its_turn_running() -> None:
    seconds = chain([0.01] * 4, cycle([0.01, 0.01, 0.02, 0.01]))
    clock = FakeClock(seconds)
    found = sample([Entrant(nothing), Entrant(nothing)], clock, Plan(least=6, budget_s=1.0, precision=1e-3), now=clock.now)  # fmt: skip
    assert len({len(one.samples_s) for one in found}) == 1
    assert len(found[0].samples_s) > 6


def test_real_clocks_count_up() -> None:
    for clock in (wall_clock, cpu_clock):
        reading = clock(lambda: sum(range(10_000)), 3)
        assert reading.time_s > 0
        assert reading.faults >= 0


def test_cpu_time_that_misses_wall_time_is_doubted() -> None:
    found = Sampled(wall_per_cpu=[1.01] * 5)
    assert found.doubt is None
    found = Sampled(wall_per_cpu=[1.3] * 5)
    assert found.doubt is not None
    assert "CPU time" in found.doubt
