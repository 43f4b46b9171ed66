"""Profiled steps against unprofiled ones, without the profiler's own cost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from tests.live.test_cutting import timed
from timeroof.live.accounting import Balance, account, balance, idle_seconds, middle_half
from timeroof.live.building import faults_in_bounds
from timeroof.live.recording import CleanStep, Recording

WORK_NS, FAULT_NS, COST_NS = 1_000_000, 2_000, 500


def recorded(clean: list[int], watched: list[int]) -> Recording:
    """Steps of the same work with so many faults each, two events in a timed one."""
    step = timed([("a", 10, 60, 1), ("b", 70, 90, 1)])
    return Recording(
        clean=[CleanStep(WORK_NS + f * FAULT_NS, f, False) for f in clean],
        timed=[
            replace(step, finish_ns=WORK_NS + 2 * COST_NS + f * FAULT_NS, faults=f) for f in watched
        ],
    )


def balanced(recording: Recording) -> Balance:
    accounts = [account(s, COST_NS) for s in recording.timed]
    chosen = middle_half([s.duration_ns for s in recording.timed])
    return balance(recording, accounts, chosen)


@given(st.integers(0, 500), st.integers(0, 500))
def test_what_profiled_steps_leave_is_in_no_part(clean: int, watched: int) -> None:
    found = balanced(recorded([clean] * 5, [watched] * 5))
    assert found.profiler_s == pytest.approx(2 * COST_NS / 1e9)
    unexplained_s = found.wall_s - found.corrected_s
    assert unexplained_s == pytest.approx((clean - watched) * FAULT_NS / 1e9, abs=1e-12)
    assert found.error_s == pytest.approx(0.0, abs=1e-12)
    assert found.wall_s == found.clean_s == pytest.approx((WORK_NS + clean * FAULT_NS) / 1e9)


def test_sleep_comes_out_of_the_gaps_and_not_twice_out_of_the_data_loaders() -> None:
    loading = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    step = replace(timed([("a", 10, 60, 1), (loading, 70, 90, 1)]), asleep_ns=35)
    found = account(step, 0.0)
    assert found.idle_ns["data"] == 20
    assert found.idle_ns["asleep"] == 15
    assert found.idle_ns["python"] == 15
    assert int(found.self_ns.sum()) + sum(found.idle_ns.values()) == step.duration_ns


@given(st.integers(0, 1000))
def test_parts_sum_however_long_the_sleep(asleep_ns: int) -> None:
    found = account(replace(timed([("a", 10, 60, 1)]), asleep_ns=asleep_ns), 3.0)
    assert found.idle_ns["asleep"] <= 50
    assert int(found.self_ns.sum()) + sum(found.idle_ns.values()) == 100


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([0, 400, 500, 600, 700], 500),  # 500 faults of 2 µs in steps of 2 ms: the usual ones
        ([0, 10, 20, 30, 40], 0),  # 40 µs of 1 ms: the fewest
        ([18, 19, 20, 20, 21], 18),
        ([0, 0, 0], 0),
    ],
)
def test_faults_that_come_and_go_decide_nothing_where_they_are_few(
    counts: list[int], expected: int
) -> None:
    clean = [CleanStep(WORK_NS + f * FAULT_NS, f, False) for f in counts]
    assert faults_in_bounds(clean, FAULT_NS / 1e9) == expected


@pytest.mark.parametrize(("waited_ns", "python_ns"), [(0, 60), (40, 20), (90, 0)])
def test_python_has_no_more_than_what_the_thread_ran(waited_ns: int, python_ns: int) -> None:
    """Of a step of 100 ns with an op of 40, that waited for a CPU between its ops."""
    step = replace(timed([("a", 10, 50, 1)]), waited_ns=waited_ns)
    accounts = [account(step, 0.0)] * 4
    idle = idle_seconds(accounts, [0, 1], 0.25, 40e-9)
    assert idle["python"] == pytest.approx(python_ns * 1e-9)
    assert idle_seconds(accounts, [0, 1], None, 40e-9)["python"] == pytest.approx(60e-9)
