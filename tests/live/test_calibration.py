"""What an event of the profiler costs: between two programs, and measured with the real one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from timeroof.live.torch.calibration import (
    Calibration,
    EventCost,
    Rounds,
    between,
    close_ops,
    ops_apart,
    spacing_ns,
)
from timeroof.live.torch.recording import TimedStep

COSTS = st.builds(EventCost, st.floats(0, 1e4), st.floats(0, 1e3))


def step(spans: list[tuple[int, int, int]]) -> TimedStep:
    """A step of events (start, end, thread)."""
    table = np.array(spans, np.int64).reshape(-1, 3)
    return TimedStep(
        names=("op",),
        name=np.zeros(len(table), np.int64),
        start_ns=table[:, 0],
        end_ns=table[:, 1],
        thread=table[:, 2],
        sequence=np.full(len(table), -1),
        scope=np.zeros(len(table), np.int64),
        begin_ns=0,
        finish_ns=int(table[:, 1].max(initial=0)),
        main_thread=1,
    )


def test_the_time_per_event_leaves_sleep_out() -> None:
    steps = [step([(0, 600, 1), (600, 1000, 1)]), step([(0, 3000, 1)])]
    assert spacing_ns(steps) == pytest.approx(4000 / 3)
    assert spacing_ns([replace(steps[1], asleep_ns=1000)]) == pytest.approx(2000)
    assert spacing_ns([]) == 0.0


@given(COSTS, COSTS, st.floats(0, 3))
def test_a_cost_is_never_negative_and_meets_both_ends(
    close: EventCost, far: EventCost, place: float
) -> None:
    assert between(close, far, place).cost_ns >= 0
    assert between(close, far, 0.0) == pytest.approx(close)
    assert between(close, far, 1.0) == pytest.approx(far)


def test_kernels_lie_between_the_events_of_the_second_program() -> None:
    close, far = Rounds(close_ops), Rounds(ops_apart)
    for rounds in (close, far):
        for _ in range(4):
            rounds.settle()
            rounds.bare(1)
            rounds.watched(1)
    assert len(close) == len(far) == 4
    assert far.spacing_ns > close.spacing_ns


def test_half_a_round_is_forgotten() -> None:
    rounds = Rounds(close_ops)
    rounds.watched(1)
    assert len(rounds) == 0


def test_measuring_leaves_threads_random_numbers_and_gradients_alone() -> None:
    threads, state, enabled = torch.get_num_threads(), torch.get_rng_state(), False
    with torch.no_grad():
        cost = Calibration().cost([step([(0, 10_000_000, 1)])])
        enabled = torch.is_grad_enabled()
    assert cost is not None
    assert cost.cost_ns > 0
    assert cost.error_ns >= 0
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
    assert not enabled


def test_a_profiler_of_the_programs_own_is_left_alone() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert Calibration().cost([step([(0, 10, 1)])]) is None
