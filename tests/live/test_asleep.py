"""Time asleep needs a thread that gave its CPU up, and stretches long enough to sleep in."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st

from tests.live.test_cutting import timed
from timeroof.live.accounting import account
from timeroof.live.records import slept_ns
from timeroof_recorder import clocks
from timeroof_recorder.clocks import Clocks, counts_sleeps

MS = 1_000_000
SLEEP_S = 0.05


class Slept(NamedTuple):
    """Nanoseconds asleep, and how often the thread gave its CPU up."""

    ns: int
    times: int | None


def slept(switches: int | None, stolen_ns: int = 30 * MS, others_ns: int = 0) -> int:
    """A step of 100 ms of which the thread was stopped for some time."""
    return slept_ns(100 * MS, 100 * MS - stolen_ns, 0, switches, others_ns)


def test_a_thread_that_never_gave_its_cpu_up_did_not_sleep() -> None:
    assert slept(switches=0) == 0
    assert slept(switches=3) == 30 * MS
    assert slept(switches=3, stolen_ns=MS) == 0


def test_waiting_for_threads_that_wait_for_a_cpu_is_not_sleep() -> None:
    assert slept(switches=3, others_ns=20 * MS) == 10 * MS
    assert slept(switches=3, others_ns=260 * MS) == 0


def test_other_threads_are_all_but_this_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for thread, text in (
        ("1", "5 7 1"),
        ("2", "gone"),
        (str(threading.get_native_id()), "1 900 1"),
    ):
        (tmp_path / thread).mkdir()
        (tmp_path / thread / "schedstat").write_text(text)
    monkeypatch.setattr(clocks, "_TASKS", str(tmp_path))
    assert clocks._others_queued_ns() == 7


def test_where_no_switch_is_counted_the_clocks_alone_decide() -> None:
    assert slept(switches=None) == 30 * MS


def sleep_plainly() -> None:
    time.sleep(SLEEP_S)


def wait_for_a_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    timer = threading.Timer(SLEEP_S, lock.release)
    timer.start()
    with lock:
        pass
    timer.join()


def wait_for_a_socket() -> None:
    here, there = socket.socketpair()
    with here, there:
        timer = threading.Timer(SLEEP_S, lambda: there.sendall(b"x"))
        timer.start()
        here.recv(1)
        timer.join()


def watched(wait: Callable[[], None]) -> Slept:
    watch = Clocks()
    watch.watch_others()
    watch.begin()
    wait()
    watch.end()
    read = watch.read()
    return Slept(slept_ns(*read), read[3])


@pytest.mark.parametrize("wait", [sleep_plainly, wait_for_a_lock, wait_for_a_socket])
def test_whatever_really_sleeps_is_found(wait: Callable[[], None]) -> None:
    # On a busy machine this thread may come to the lock when it is free already.
    found = next(s for s in (watched(wait) for _ in range(20)) if s.ns > 0.4 * SLEEP_S * 1e9)
    assert found.times or not counts_sleeps()


def compute() -> None:
    begin_ns = time.thread_time_ns()
    while time.thread_time_ns() - begin_ns < 2 * MS:
        sum(range(500))


def test_arithmetic_is_not_asleep() -> None:
    if not counts_sleeps():
        pytest.skip("this system counts no voluntary context switches")
    for _ in range(20):
        found = watched(compute)
        assert found.times or not found.ns


def step(sleeps: int | None, asleep_ns: int = 1000) -> dict[str, int]:
    """Idle times of a step of 100 ns with gaps of 10, 20 and 40 ns between its ops."""
    ops = [("a", 10, 30, 1), ("b", 50, 55, 1), ("c", 95, 100, 1)]
    return account(replace(timed(ops), asleep_ns=asleep_ns, sleeps=sleeps), 0.0).idle_ns


@pytest.mark.parametrize(
    ("sleeps", "most"), [(0, 0), (1, 40), (2, 60), (3, 70), (9, 70), (None, 70)]
)
def test_so_many_sleeps_fit_into_so_many_gaps(sleeps: int | None, most: int) -> None:
    idle = step(sleeps)
    assert idle["asleep"] == most
    assert idle["asleep"] + idle["python"] == 70


def test_ops_of_a_thread_that_is_waited_for_do_not_cut_the_sleep() -> None:
    """One sleep from 10 to 90, while another thread runs two ops of 10 ns."""
    ops = [("a", 0, 10, 1), ("x", 20, 30, 2), ("x", 50, 60, 2), ("b", 90, 100, 1)]
    found = account(replace(timed(ops), asleep_ns=80, sleeps=1), 0.0)
    assert found.idle_ns["asleep"] == 60


@given(st.integers(0, 200), st.none() | st.integers(0, 5))
def test_the_parts_of_a_step_sum_to_it(asleep_ns: int, sleeps: int | None) -> None:
    idle = step(sleeps, asleep_ns)
    assert min(idle.values()) >= 0
    assert sum(idle.values()) == 70
    assert idle["asleep"] == 0 or idle["asleep"] >= 2
