"""Signals wait while instruments are switched on or off.

A signal's exception between torch's switching and our noting it would leave the profiler on: the
program would then crash at its end, in place of a partial report.
"""

from __future__ import annotations

import functools
import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import CodeType, FrameType
from typing import Any

from timeroof.live.torch.schedule import UNTOUCHED, Pass

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def is_from_handler(error: BaseException) -> bool:
    """Whether a handler of the program's raised it: a signal (an alarm, say) came while we ran."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {_code_of(handler) for handler in handlers} - {None}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def _code_of(handler: Any) -> CodeType | None:
    """The code of a function, a method, or an object that can be called."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    for found in (handler, getattr(handler, "__call__", None)):  # noqa: B004
        code = getattr(getattr(found, "__func__", found), "__code__", None)
        if isinstance(code, CodeType):
            return code
    return None


def switching(pass_: Pass) -> AbstractContextManager[None]:
    """Signals wait where instruments are switched; steps without any are not held up."""
    return nullcontext() if pass_ in UNTOUCHED else uninterrupted()


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
