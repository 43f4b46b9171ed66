"""Plain data: who owns which nanosecond, which op is which, whose faults."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from timeroof.live.accounting import account, exclusive, middle_half
from timeroof.live.building import share_faults
from timeroof.live.memory import Lives, completion_order
from timeroof.live.recording import Described, EventName, TensorSeen, TimedStep, align
from timeroof.live.rows import timeline
from timeroof_recorder.schedule import INSTRUMENTED, UNTOUCHED, Pass, Schedule
from timeroof_recorder.torch import cause_of_name, phase_of_name


def timed(events: list[tuple[str, int, int, int]], finish: int = 100) -> TimedStep:
    """A step from (name, start, end, thread)."""
    events = sorted(events, key=lambda e: (e[1], -e[2]))
    names = list(dict.fromkeys(e[0] for e in events))
    return TimedStep(
        names=tuple(names),
        name=np.array([names.index(e[0]) for e in events], np.int64),
        start_ns=np.array([e[1] for e in events], np.int64),
        end_ns=np.array([e[2] for e in events], np.int64),
        thread=np.array([e[3] for e in events], np.int64),
        sequence=np.full(len(events), -1),
        scope=np.zeros(len(events), np.int64),
        begin_ns=0,
        finish_ns=finish,
        main_thread=1,
        told=tuple(told_of(name) for name in names),
    )


def told_of(name: str) -> EventName:
    """What torch's instruments say of events of a name."""
    causes = (cause_of_name(name, is_numbered) for is_numbered in (False, True))
    return EventName(*causes, phase_of_name(name))


def described(names: list[str]) -> list[Described]:
    return [Described(n, None, 1, -1, 0, "", (), ()) for n in names]


def test_self_times_and_gaps_cover_the_step() -> None:
    cut = exclusive(timed([("a", 10, 60, 1), ("b", 20, 30, 1), ("c", 40, 50, 1)]))
    assert cut.self_ns.tolist() == [30, 10, 10]
    assert cut.gap_ns == 50
    assert cut.parent.tolist() == [-1, 0, 0]


def test_other_threads_only_fill_gaps() -> None:
    cut = exclusive(timed([("a", 10, 30, 1), ("x", 20, 50, 2), ("y", 60, 70, 3)]))
    assert cut.self_ns.tolist() == [20, 20, 10]
    assert cut.gap_ns == 50


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.integers(0, 99), st.integers(0, 60), st.integers(1, 3)
        ),
        max_size=30,
    ),
    st.floats(0, 40),
)
def test_every_nanosecond_is_somebody_s_once(events: list, cost_ns: float) -> None:
    step = timed([(n, s, min(s + d, 100), t) for n, s, d, t in events])
    cut = exclusive(step)
    assert int(cut.self_ns.sum()) + cut.gap_ns == 100
    assert (cut.self_ns >= 0).all()
    found = account(step, cost_ns)
    assert int(found.self_ns.sum()) + sum(found.idle_ns.values()) == 100
    assert all(ns >= 0 for ns in found.idle_ns.values())


def test_the_profiler_s_cost_comes_out_of_what_surrounds_an_event() -> None:
    found = account(timed([("a", 10, 60, 1), ("b", 20, 30, 1), ("c", 40, 50, 1)]), 5.0)
    assert found.self_ns.tolist() == [20, 10, 10]
    assert found.idle_ns["profiler"] == 15
    assert found.idle_ns["python"] == 45
    assert found.raw_ns.tolist() == [30, 10, 10]


@given(st.floats(0, 12))
def test_the_timeline_is_the_step_without_the_profiler(cost_ns: float) -> None:
    step = timed([("a", 10, 60, 1), ("b", 20, 30, 1), ("c", 40, 50, 1), ("x", 55, 80, 2)])
    found = account(step, cost_ns)
    table = timeline(found, np.array([0, 1, 2, 3]))
    assert table["duration_s"].sum() == pytest.approx((100 - found.idle_ns["profiler"]) / 1e9)
    ends = (table["start_s"] + table["duration_s"]).to_list()
    assert table["start_s"].to_list()[1:] == pytest.approx(ends[:-1])
    own_s = dict(
        table.drop_nulls("kernel").group_by("kernel").agg(pl.col("duration_s").sum()).rows()
    )
    for event, ns in enumerate(found.self_ns.tolist()):
        assert own_s.get(event, 0.0) == pytest.approx(ns / 1e9)


def test_equal_sequences_match_one_to_one() -> None:
    step = timed([("a", 0, 1, 1), ("b", 2, 3, 1), ("a", 4, 5, 1)])
    assert align(step, described(["a", "b", "a"])).tolist() == [0, 1, 2]


def test_differing_sequences_match_where_they_agree() -> None:
    step = timed([("a", 0, 1, 1), ("x", 2, 3, 1), ("b", 4, 5, 1), ("a", 6, 7, 1)])
    assert align(step, described(["a", "b", "y", "a"])).tolist() == [0, -1, 1, 3]


def test_no_timed_pass_follows_a_timed_one_and_all_kinds_come_early() -> None:
    plan = Schedule(warmup=2, steps=20)
    passes = [plan.next() for _ in range(2000)]
    assert passes[:2] == [Pass.WARMUP] * 2
    assert set(passes[2:6]) == {Pass.TIMED, Pass.DESCRIBED, Pass.SETTLING, Pass.CLEAN}
    busy = [p in (Pass.TIMED, Pass.PRIMITIVES) for p in passes]
    assert not any(a and b for a, b in pairwise(busy))
    assert not any(a in INSTRUMENTED and b in UNTOUCHED for a, b in pairwise(passes))
    assert passes.count(Pass.FREE) > 1850
    assert 0 < passes[22:].count(Pass.TIMED) < 50


def test_faults_never_exceed_pages_and_large_blocks_come_first() -> None:
    large, small = {1: 64 << 20}, {2: 1 << 20}
    assert share_faults(100.0, [large, small]) == [100.0, 0.0]
    pages = (64 << 20) // 4096
    assert share_faults(pages + 1e6, [large, small]) == [pages, 256.0]
    assert share_faults(0.0, [large]) == [0.0]


def test_the_middle_half_is_around_the_median() -> None:
    assert middle_half([3]) == [0]
    assert middle_half([3, 1]) == [0, 1]
    assert [sorted([9, 1, 5, 3, 7])[i] for i in (1, 2, 3)] == sorted(
        [9, 1, 5, 3, 7][i] for i in middle_half([9, 1, 5, 3, 7])
    )


def test_a_step_without_events_is_all_gap() -> None:
    found = account(timed([]), 100.0)
    assert found.idle_ns["python"] == 100
    assert pytest.approx(sum(found.idle_ns.values())) == 100


def test_ops_end_after_those_that_they_call() -> None:
    ops = [Described("x", parent, 1, -1, 0, "", (), ()) for parent in (None, 0, 1, 0, None)]
    assert completion_order(ops) == [2, 1, 3, 0, 4]
    assert completion_order([]) == []


def seen(storage: int) -> TensorSeen:
    return TensorSeen((4,), "float", (1,), storage, 0, 4, "cpu")


def test_a_storage_that_gets_a_freed_one_s_number_is_a_new_one() -> None:
    outer = Described("outer", None, 1, -1, 0, "", (seen(1),), (seen(2),))
    inner = Described("empty", 0, 1, -1, 0, "", (), (seen(2),))
    later = Described("later", None, 1, -1, 0, "", (seen(1),), (seen(2),))
    lives = Lives([outer, inner, later])
    names = []
    for place in (1, 0, 2):
        lives.end(place)
        names.append((lives.named(1), lives.named(2)))
    assert names == [((1, 0), (2, 1)), ((1, 0), (2, 1)), ((1, 0), (2, 2))]


def test_waiting_for_a_collective_is_communication_and_what_overlaps_it_is_not() -> None:
    events = [("aten::mm", 0, 30, 1), ("gloo:all_reduce", 20, 80, 2), ("aten::add", 70, 90, 1)]
    found = account(timed(events), 0.0)
    assert found.idle_ns["communication"] == 40
    assert found.idle_ns["python"] == 10
    assert sum(found.idle_ns.values()) + int(found.self_ns.sum()) == 100
