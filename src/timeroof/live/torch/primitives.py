"""The primitive pass: oneDNN's and MKL's lines, taken off what C prints, in a timed step."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any

from timeroof.live.torch.process import unseen
from timeroof.live.torch.recording import MklCall, PrimitiveSeen, PrimitiveStep, Recording
from timeroof.live.torch.streams import PrintedByC, write_all
from timeroof.live.torch.timing import Timing
from timeroof.read.onednn import parse_execution

# MKL's verbose lines: one per call, with routine, arguments and duration, without a time.


_LINE = re.compile(rb"MKL_VERBOSE ([A-Za-z0-9_]+)\((.*)\) ([0-9.]+)(ns|us|ms|s) ")
_UNIT_NS = {b"ns": 1.0, b"us": 1e3, b"ms": 1e6, b"s": 1e9}


class MklSwitch:
    """Switches MKL's lines on and off."""

    def __init__(self) -> None:
        self._verbose: Any = None

    def is_there(self) -> bool:
        """Whether torch is built with MKL."""
        import torch

        mkl: Any = torch.backends.mkl
        return bool(mkl.is_available())

    def on(self) -> None:
        """From now on every call writes a line; nothing happens where MKL refuses."""
        import torch

        mkl: Any = torch.backends.mkl
        if self.is_there():
            with suppress(RuntimeError):
                verbose = mkl.verbose(mkl.VERBOSE_ON)
                verbose.__enter__()
                self._verbose = verbose
                _warm()

    def off(self) -> None:
        """No more lines."""
        if self._verbose is not None:
            self._verbose.__exit__(None, None, None)
            self._verbose = None


def _warm() -> None:
    """The first call that writes a line measures the clock before it does, which takes long."""
    import torch

    with unseen():
        small = torch.zeros(4, 4, dtype=torch.float32, device="cpu")
        torch.mm(small, small)


def mkl_call(line: bytes) -> MklCall | None:
    """A call from its line; flags are the letters before the sizes, addresses are left out.

    >>> mkl_call(b"MKL_VERBOSE SGEMM(T,N,128,32,64,0x7f,0x55,64) 12.5us CNR:OFF Dyn:0")
    MklCall(routine='sgemm', flags='TN', sizes=(128, 32, 64), duration_ns=12500)
    """
    found = _LINE.match(line)
    if found is None:
        return None
    words = found[2].decode("ascii", "replace").split(",")
    flags = "".join(w for w in words[:4] if len(w) == 1 and w.isalpha()).upper()
    routine = found[1].decode("ascii", "replace").lower()
    try:
        duration_ns = int(float(found[3]) * _UNIT_NS[found[4]])
    except ValueError:
        return None
    return MklCall(routine, flags, _sizes(words[len(flags) :]), duration_ns)


def _sizes(words: list[str]) -> tuple[int, ...]:
    """The numbers before the first address."""
    sizes: list[int] = []
    for word in words:
        if not word.isdigit():
            break
        sizes.append(int(word))
    return tuple(sizes)


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
