"""Signals wait while instruments are switched."""

from __future__ import annotations

import functools
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from timeroof.live.records import read_folder
from timeroof_recorder.instruments import Instruments
from timeroof_recorder.log import Log
from timeroof_recorder.process import Uninterrupted, is_from_handler
from timeroof_recorder.session import Session


def test_ctrl_c_comes_when_the_block_has_ended() -> None:
    done = []
    handler = signal.getsignal(signal.SIGINT)

    def interrupted() -> None:
        with Uninterrupted():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            done.append(True)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == [True]
    assert signal.getsignal(signal.SIGINT) is handler


def test_handlers_of_the_program_get_their_signal_once() -> None:
    came: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    before = signal.signal(signal.SIGTERM, handle)
    try:
        with Uninterrupted():
            signal.raise_signal(signal.SIGTERM)
            assert came == []
        assert came == [signal.SIGTERM]
        with Uninterrupted():
            pass
        assert signal.getsignal(signal.SIGTERM) is handle
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with Uninterrupted():
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_are_left_alone() -> None:
    seen: list[bool] = []

    def work() -> None:
        handler = signal.getsignal(signal.SIGINT)
        with Uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT) is handler)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [True]


class LateError(Exception):
    """What a program's own handler raises."""


class Alarm:
    """A handler that is an object."""

    def __call__(self, *_: object) -> None:
        raise LateError

    def ring(self, *_: object) -> None:
        raise LateError


def late(*_: object) -> None:
    raise LateError


@pytest.fixture(params=[late, Alarm(), Alarm().ring, functools.partial(late, 1)])
def alarm(request: pytest.FixtureRequest) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, request.param)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("alarm")
def test_an_exception_of_a_handler_is_told_from_one_of_ours() -> None:
    with pytest.raises(LateError) as rang:
        signal.raise_signal(signal.SIGALRM)
    assert is_from_handler(rang.value)
    with pytest.raises(ValueError, match="ours") as ours:
        raise ValueError("ours")
    assert not is_from_handler(ours.value)


@pytest.mark.usefixtures("alarm")
def test_an_alarm_that_rings_while_we_look_reaches_the_program(tmp_path: Path) -> None:
    session = Session(Log(str(tmp_path)), {}, Instruments())
    with pytest.raises(LateError), session._guard:
        signal.raise_signal(signal.SIGALRM)
    assert read_folder(tmp_path) == []
    with session._guard:
        raise ValueError("ours")
    assert [seen.failed for seen in read_folder(tmp_path)] == ["ours"]


def test_processes_come_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    first, second = Log(str(tmp_path)), Log(str(tmp_path))
    first.write("failed", "first")
    second.write("failed", "second")
    time.sleep(0.02)  # longer than the clock of the file system
    first.write("note", "late", {})
    assert [seen.failed for seen in read_folder(tmp_path)] == ["first", "second"]
