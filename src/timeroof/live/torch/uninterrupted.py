"""Signals wait while instruments are switched on or off.

A signal's exception between torch's switching and our noting it would leave the profiler on: the
program would then crash at its end, in place of a partial report.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM reach the program's handlers when the block has ended.

    Nothing happens in other threads than the main one: handlers never run there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def hold(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    # Default actions and handlers that Python does not know cannot leave us half done.
    before = {s: h for s in _SIGNALS if callable(h := signal.getsignal(s))}
    for number in before:
        signal.signal(number, hold)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for each in dict.fromkeys(came):
            signal.raise_signal(each)
