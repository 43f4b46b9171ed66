"""TensorFlow's profiler, at the level at which every node of a graph is an event.

2.20 and 2.21 ignore the option for it, so the level is set where the profiler looks for it. That
symbol is private: without it only longer ops are seen, and a note says so.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from timeroof_recorder.process import Ignoring, QuietErrors

BEGIN, FINISH = "timeroof#begin", "timeroof#finish"
_LEVEL = "_ZN3tsl8profiler8internal13g_trace_levelE"
_EVERY_NODE = 3
_SUFFIX = ".xplane.pb"


class Profiler:
    """One session of TensorFlow's profiler at a time."""

    def __init__(self) -> None:
        self._native: Any = None
        self._traces: Any = None
        with Ignoring("TensorFlow's profiler is not where it was"):
            home = "tensorflow.python.profiler.internal"
            self._native = import_module(f"{home}._pywrap_profiler")
            self._traces = import_module(f"{home}._pywrap_traceme")
        self._level = _level()
        self._session: Any = None
        self._folder = ""

    @property
    def can_time(self) -> bool:
        """Whether this version's profiler is one that is known."""
        return hasattr(self._native, "ProfilerSession") and hasattr(self._traces, "TraceMe")

    @property
    def sees_all(self) -> bool:
        """Whether every node can be seen."""
        return self._level is not None

    @property
    def is_on(self) -> bool:
        """Whether it records."""
        return self._session is not None

    def start(self, folder: str) -> bool:
        """Begin to record; False where somebody else does."""
        if not self.can_time or self._session is not None:
            return False
        session = self._native.ProfilerSession()
        try:
            with QuietErrors():
                session.start(folder, {})
        except Exception:  # another session is on
            return False
        self._session, self._folder = session, folder
        if self._level is not None:
            self._level.value = _EVERY_NODE
        return True

    def mark(self, name: str) -> None:
        """An event that lasts for a moment."""
        if self._session is not None:
            trace = self._traces.TraceMe(name)
            trace.__enter__() if hasattr(trace, "__enter__") else None
            _stop(trace)

    def stop(self) -> bytes | None:
        """End, and hand over the trace."""
        session, self._session = self._session, None
        if session is None:
            return None
        with QuietErrors(), Ignoring("a trace was not written"):
            session.export_to_tb()
        data = None
        for home, _, files in os.walk(self._folder):
            for name in files:
                if name.endswith(_SUFFIX):
                    with open(os.path.join(home, name), "rb") as file:  # noqa: PTH118, PTH123
                        data = file.read()
        shutil.rmtree(self._folder, ignore_errors=True)
        return data

    def abort(self) -> None:
        """End, and forget it."""
        self.stop()

    def forget(self) -> None:
        """In a forked child: it is the parent's."""
        self._session = None


def _stop(trace: Any) -> None:
    for name in ("Stop", "__exit__"):
        found = getattr(trace, name, None)
        if found is not None:
            found() if name == "Stop" else found(None, None, None)
            return


def _level() -> ctypes.c_int | None:
    """The level of the running profiler; None where this build hides it."""
    home = os.path.dirname(str(sys.modules["tensorflow"].__file__))  # noqa: PTH120
    for name in sorted(os.listdir(home)):  # noqa: PTH208
        if name.startswith("libtensorflow_framework.so"):
            with Ignoring("TensorFlow's profiler does not show its level"):
                library = ctypes.CDLL(os.path.join(home, name))  # noqa: PTH118
                return ctypes.c_int.in_dll(library, _LEVEL)
    return None


def places() -> list[object]:
    """Where the program's own profiler starts and stops."""
    owners: list[object] = [import_module("tensorflow.python.profiler.profiler_v2")]
    with Ignoring("tf.profiler.experimental is not watched"):
        owners.append(sys.modules["tensorflow"].profiler.experimental)
    return owners


# Two small graphs whose events are counted, to know what recording one costs.

# Turns of the loops, and sides of their matrices: a kernel of about a microsecond, and of ten.
TURNS, CLOSE, APART = 60, 8, 96


def chain(side: int) -> Callable[[], None]:
    """Nodes one after the other."""
    tf = sys.modules["tensorflow"]
    given = tf.fill((side, side), 1.0 / side)

    def products(x: Any) -> Any:
        for _ in range(TURNS):
            x = tf.tanh(tf.linalg.matmul(x, given))
        return x

    made = tf.function(products, autograph=False).get_concrete_function(given)

    # Not as a call of the program's.
    call = type(made).__call__
    call = getattr(call, "__wrapped__", call)

    def run() -> None:
        call(made, given)

    return run
