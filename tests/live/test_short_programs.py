"""What programs of few steps get: which passes, and which step stands in for a clean one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from tests.live.test_cutting import timed
from timeroof.live.kind import StepSeen
from timeroof.live.reading import MOST_CLEAN, stand_in, take_unprofiled
from timeroof.live.recording import CleanStep, Recording
from timeroof_recorder.schedule import Pass, Schedule

STEP = timed([("a", 10, 60, 1)])  # of 100 ns


def passes_of(program_steps: int, warmup: int = 2, steps: int = 20) -> list[str]:
    """The first step of a program is over when the first pass is handed out."""
    plan = Schedule(warmup - 1, steps)
    return [plan.next() for _ in range(program_steps - 1)]


def watched(passes: list[str]) -> Recording:
    """What a session keeps of steps without instruments; every step takes as many ns as it is."""
    found = Recording(timed=[STEP for done in passes if done == Pass.TIMED])
    steps = [StepSeen(n, p, n, 0, 0, False, None, 0) for n, p in enumerate(passes, 2)]
    take_unprofiled(found, steps)
    stand_in(found)
    return found


@given(st.integers(1, 6), st.integers(0, 300), st.integers(4, 40))
def test_every_further_step_adds_to_the_report(warmup: int, further: int, steps: int) -> None:
    passes = passes_of(warmup + further, warmup, steps)
    assert passes[: warmup - 1] == [Pass.WARMUP] * (warmup - 1)
    seen = Counter(passes[warmup - 1 :])
    assert bool(seen[Pass.TIMED]) == (further >= 1)
    assert bool(seen[Pass.DESCRIBED]) == (further >= 2)
    assert bool(seen[Pass.CLEAN]) == (further >= 4)
    assert not seen[Pass.UNSEEN] + seen[Pass.WARMUP]


@given(st.integers(4, 300))
def test_from_four_steps_on_one_is_timed_one_described_and_one_unprofiled(steps: int) -> None:
    passes = passes_of(steps)
    assert {Pass.TIMED, Pass.DESCRIBED} <= set(passes)
    found = watched(passes)
    assert 1 <= len(found.clean) <= MOST_CLEAN
    stands_in = any("only unprofiled step" in note for note in found.notes)
    assert stands_in == (steps < 6)


@pytest.mark.parametrize(
    ("steps", "clean_step"),
    [(1, None), (2, None), (3, 2), (4, 2), (5, 2), (6, 6)],
)
def test_which_step_is_the_unprofiled_one_of_a_short_program(
    steps: int, clean_step: int | None
) -> None:
    found = watched(passes_of(steps))
    assert [step.duration_ns for step in found.clean] == ([clean_step] if clean_step else [])


def test_a_program_of_twenty_steps_has_several_clean_and_timed_ones() -> None:
    seen = Counter(passes_of(20))
    assert seen[Pass.CLEAN] >= 5
    assert seen[Pass.TIMED] >= 4


def test_a_step_that_compiled_does_not_stand_in() -> None:
    found = Recording(timed=[STEP], unsettled=[CleanStep(201, 0)])
    stand_in(found)
    assert found.clean == []
    assert found.notes == []
    found.unsettled.append(CleanStep(200, 0))
    stand_in(found)
    assert [step.duration_ns for step in found.clean] == [200]


def test_page_faults_of_a_warm_up_do_not_reach_bounds() -> None:
    found = Recording(timed=[replace(STEP, faults=7)], unsettled=[CleanStep(90, 5000)])
    stand_in(found)
    assert found.clean == [CleanStep(90, 7)]


def test_a_clean_step_needs_no_other_in_its_place() -> None:
    found = Recording(timed=[STEP], unsettled=[CleanStep(50, 0)], clean=[CleanStep(90, 0)])
    stand_in(found)
    assert found.clean == [CleanStep(90, 0)]
    assert found.notes == []
