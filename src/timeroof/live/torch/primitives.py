"""The primitive pass: oneDNN's and MKL's lines, taken off what C prints, in a timed step."""

from __future__ import annotations

import os
import re
from typing import Any

from timeroof.live.torch.mkl import MklSwitch, mkl_call
from timeroof.live.torch.recording import PrimitiveSeen, PrimitiveStep, Recording
from timeroof.live.torch.streams import PrintedByC, write_all
from timeroof.live.torch.timing import Timing
from timeroof.live.torch.unseen import unseen
from timeroof.read.onednn_line import parse_execution

_ONEDNN = b"onednn_verbose,"
# A line of a library, wherever it begins: the program may have written half a line before it.
_LINES = re.compile(
    rb"onednn_verbose,[^\n]*\n|MKL_VERBOSE (?:oneMKL|Intel|[A-Za-z0-9_]+\()[^\n]*\n"
)
# Read by oneDNN, once, when it first writes a line of something that ran.
TIMESTAMP = "ONEDNN_VERBOSE_TIMESTAMP"


class PrimitivePass:
    """One step with the libraries' lines caught; the program's own output goes where it belongs."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._mkl = MklSwitch()
        self._verbose: Any = None
        self._printed = PrintedByC()
        # Where in what was caught the step begins.
        self._begin = 0

    def start(self) -> bool:
        """Begin; False where neither oneDNN nor MKL is there, or their lines cannot be caught."""
        import torch

        onednn: Any = torch.backends.mkldnn
        if not onednn.is_available() and not self._mkl.is_there():
            return False
        if not self._printed.start():
            return False
        if onednn.is_available():
            self._verbose = onednn.verbose(onednn.VERBOSE_ON)
            self._verbose.__enter__()
            _ask_for_times()
        self._mkl.on()
        self._begin = self._printed.size_bytes()
        self._timing.start()
        return True

    def stop(self, recording: Recording) -> PrimitiveStep | None:
        """End, pass the program's own lines on, and hand over what ran."""
        if not self._printed.is_on:
            return None
        step = self._timing.stop()
        lines = self._release()
        found = [p for p in map(_primitive, lines) if p is not None]
        if not found and any(b",exec," in line for line in lines):
            recording.note(
                "oneDNN's lines have no time stamps, its primitives are not shown: set"
                f" {TIMESTAMP}=1 before the program starts"
            )
        if not self._mkl.is_there():
            recording.note("this torch has no MKL: its calls below ops cannot be shown")
        calls = [c for c in map(mkl_call, lines) if c is not None]
        both = step is not None and (found or calls)
        return PrimitiveStep(step, found, calls) if both and step is not None else None

    def abort(self) -> None:
        """End and forget; the program's own lines are passed on all the same."""
        if self._printed.is_on:
            self._release()

    def _release(self) -> list[bytes]:
        if self._verbose is not None:
            self._verbose.__exit__(None, None, None)
            self._verbose = None
        self._mkl.off()
        data = self._printed.stop()
        write_all(_LINES.sub(b"", data))
        return _LINES.findall(data[self._begin :])


def _ask_for_times() -> None:
    """Have oneDNN write when things began; the program and its children see no such variable."""
    import torch

    if TIMESTAMP in os.environ:
        return
    os.putenv(TIMESTAMP, "1")
    try:
        with unseen():
            torch.zeros(4, 4, dtype=torch.float32, device="cpu").to_mkldnn()
    finally:
        os.unsetenv(TIMESTAMP)


def _primitive(line: bytes) -> PrimitiveSeen | None:
    """The executed primitive of a line that has a time stamp.

    >>> _primitive(b"onednn_verbose,v1,1000.5,primitive,exec,cpu,reorder,jit,undef,f,,,2x2,0.25")
    PrimitiveSeen(words=('reorder', 'jit', 'undef', 'f', '', '', '2x2'), start_ns=1000500000, \
duration_ns=250000)
    """
    if not line.startswith(_ONEDNN):
        return None
    ran = parse_execution(line.decode("utf-8", "replace").strip())
    if ran is None or ran.timestamp_ms is None:
        return None
    return PrimitiveSeen(ran.words, int(ran.timestamp_ms * 1e6), int(ran.time_ms * 1e6))
