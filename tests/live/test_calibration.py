"""What an event of the profiler costs: between two programs, and measured with the real one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from timeroof.live.calibration import (
    EventCost,
    Program,
    Round,
    between,
    event_cost,
    keep_calibration,
    kept_calibrations,
    spacing_ns,
    stretch_of,
)
from timeroof.live.recording import TimedStep
from timeroof.live.records import process_of
from timeroof_recorder.clocks import Calibration, Rounds
from timeroof_recorder.log import Log, records
from timeroof_recorder.torch.beside import close_ops
from timeroof_recorder.torch.session_instruments import TorchInstruments

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


def rounds_of(folder: Path, **known: object) -> dict[str, list[Round]]:
    log = Log(str(folder))
    instruments = TorchInstruments()
    Calibration(instruments, log, is_known=bool(known)).at_end()
    assert not instruments.is_foreign()
    return {} if log.path is None else process_of(records(Path(log.path).read_bytes())).rounds


def test_kernels_lie_between_the_events_of_the_second_program(tmp_path: Path) -> None:
    rounds = rounds_of(tmp_path)
    close, far = Program.of(rounds["close"]), Program.of(rounds["far"])
    assert close is not None
    assert far is not None
    assert far.spacing_ns > close.spacing_ns
    cost = event_cost(rounds, {}, [step([(0, 10_000_000, 1)])])
    assert cost is not None
    # Beside other programs it may drown in noise, never fall below 0.
    assert 0 <= cost.cost_ns < float("inf")


def test_what_is_known_of_a_machine_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIMEROOF_HOME", str(tmp_path))
    assert rounds_of(tmp_path, known=True) == {}
    one = Round((1000, 1000, 1), (1500, 1500, 1), 10, 2000)
    keep_calibration("torch 2.9", {"close": [one] * 4})  # half of it is nothing
    assert kept_calibrations() == {}
    keep_calibration("torch 2.9", {"close": [one] * 4, "far": [one] * 4})
    (kept,) = kept_calibrations().values()
    assert kept["close"] == Program(50.0, 0.0, 200.0)
    assert event_cost({}, kept, [step([(0, 10_000, 1)])]) == EventCost(50.0, 0.0)


def test_what_is_measured_beside_busy_neighbours_is_of_that_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIMEROOF_HOME", str(tmp_path))
    # As above, but four times as long as it ran.
    one = Round((1000, 4000, 1), (1500, 6000, 1), 10, 8000)
    assert stretch_of([one] * 4) == 4.0
    assert Program.of([one] * 4) == Program(50.0, 0.0, 200.0)
    keep_calibration("torch 2.9", {"close": [one] * 4, "far": [one] * 4})
    assert kept_calibrations() == {}


def test_half_a_round_is_forgotten(tmp_path: Path) -> None:
    log = Log(str(tmp_path))
    rounds = Rounds("close", close_ops(), TorchInstruments())
    rounds.watched(1, log)
    assert rounds.taken == 0
    assert log.path is None


def test_measuring_leaves_threads_random_numbers_and_gradients_alone(tmp_path: Path) -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    with torch.no_grad():
        assert rounds_of(tmp_path)
        assert not torch.is_grad_enabled()
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


def test_a_profiler_of_the_programs_own_is_left_alone(tmp_path: Path) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        log = Log(str(tmp_path))
        Calibration(TorchInstruments(), log, is_known=False).at_end()
    assert log.path is None
