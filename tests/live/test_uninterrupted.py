"""Signals wait while instruments are switched."""

from __future__ import annotations

import signal
import threading
from types import FrameType

import pytest

from timeroof.live.torch.uninterrupted import uninterrupted


def test_ctrl_c_comes_when_the_block_has_ended() -> None:
    done = []
    handler = signal.getsignal(signal.SIGINT)

    def interrupted() -> None:
        with uninterrupted():
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
        with uninterrupted():
            signal.raise_signal(signal.SIGTERM)
            assert came == []
        assert came == [signal.SIGTERM]
        with uninterrupted():
            pass
        assert signal.getsignal(signal.SIGTERM) is handle
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with uninterrupted():
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_are_left_alone() -> None:
    seen: list[bool] = []

    def work() -> None:
        handler = signal.getsignal(signal.SIGINT)
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT) is handler)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [True]
