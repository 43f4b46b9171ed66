"""Passes under torch's profiler: ops with their times, a device's kernels with shapes, or oneDNN's
lines, taken off what C prints, in a timed step.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from functools import cache
from typing import TYPE_CHECKING

from timeroof_recorder.instruments import Events
from timeroof_recorder.process import QuietErrors
from timeroof_recorder.torch.beside import unseen

if TYPE_CHECKING:
    from torch._C._autograd import _KinetoEvent, _ProfilerResult
    from torch._C._profiler import ProfilerActivity


BEGIN, FINISH = "timeroof#begin", "timeroof#finish"
_CPU_KINDS = ("cpu_op", "user_annotation", "cpu_instant_event")


def is_profiling() -> bool:
    """Whether a torch profiler is on in this thread, ours or the program's."""
    return bool(_asked()())


@cache
def _asked() -> Callable[[], bool]:
    """Asked at every step's end, where an import would cost most."""
    from torch._C._autograd import _profiler_enabled

    asked: Callable[[], bool] = _profiler_enabled
    return asked


class _Profiling:
    def __init__(self) -> None:
        self._on = False

    def _enable(self, activities: Iterable[ProfilerActivity], *, shapes: bool) -> None:
        from torch._C import _autograd, _profiler

        config = _profiler.ProfilerConfig(
            _profiler.ProfilerState.KINETO, shapes, False, False, False, False,
            _profiler._ExperimentalConfig(),
        )  # fmt: skip
        wanted = {_profiler.ProfilerActivity.CPU, *activities}
        with QuietErrors():
            _autograd._prepare_profiler(config, wanted)
            _autograd._enable_profiler(config, wanted)
        self._on = True

    def abort(self) -> None:
        """End the recording and forget it."""
        self._disable()

    def forget(self) -> None:
        """In a forked child: what was on is the parent's."""
        self._on = False

    def _disable(self) -> _ProfilerResult | None:
        from torch._C._autograd import _disable_profiler

        if not self._on:
            return None
        self._on = False
        try:
            with QuietErrors():
                return _disable_profiler()
        except RuntimeError:  # somebody else switched it off
            return None


class Timing(_Profiling):
    """The timed pass: ops with their times, nothing else."""

    def start(self) -> None:
        """Begin to record; raises RuntimeError where torch refuses."""
        self._enable((), shapes=False)
        mark(BEGIN)

    def bound(self, *, begins: bool) -> None:
        """Mark where what counts begins or ends."""
        if self._on:
            mark(BEGIN if begins else FINISH)

    def stop(self) -> Events | None:
        """End the recording and hand the step over; None where nothing was recorded."""
        mark(FINISH)
        result = self._disable()
        return None if result is None else step_from_events(result.events())


def mark(name: str) -> None:
    """An event that lasts for a moment."""
    from torch.autograd.profiler import record_function

    with record_function(name):
        pass


def step_from_events(events: Iterable[_KinetoEvent]) -> Events | None:
    """Raw profiler events between the two marks, outer before inner."""
    rows = [
        (e.name(), e.start_ns(), e.duration_ns(), e.start_thread_id(), e.sequence_nr(), e.scope())
        for e in events
        if e.activity_type() in _CPU_KINDS
    ]
    # The inner ones: beside other frameworks a block has edges of its own.
    begin = max((r for r in rows if r[0] == BEGIN), key=lambda r: r[1], default=None)
    finish = min((r for r in rows if r[0] == FINISH), key=lambda r: r[1], default=None)
    if begin is None or finish is None:
        return None
    low, high = begin[1] + begin[2], finish[1]
    inside = [r for r in rows if low <= r[1] < high and r[0] not in (BEGIN, FINISH)]
    return Events(inside, low, high, begin[3])


class DevicePass(_Profiling):
    """The device pass: a step with shapes and device kernels, kept as the file that torch writes.
    It is read as trace files are: a kernel of a running program and one of a file are the same."""

    def start(self, activities: set[ProfilerActivity], *, on_cpu: bool = False) -> bool:
        """Begin, when everything launched before has ended; False where there is no device."""
        if not activities and not on_cpu:
            return False
        synchronize()
        self._enable(activities, shapes=True)
        return True

    def stop(self, path: str) -> bool:
        """End, and have torch write the trace; whether there is one."""
        if self._on:
            synchronize()
        result = self._disable()
        if result is None:
            return False
        with QuietErrors():
            result.save(path)
        return True


def device_activities() -> set[ProfilerActivity]:
    """What torch's profiler can record of the devices that the program uses; empty on a CPU."""
    names = used_devices()
    if not names:
        return set()
    from torch._C._profiler import ProfilerActivity

    return {getattr(ProfilerActivity, name.upper()) for name in names}


def used_devices() -> list[str]:
    """The devices that the program has begun to use."""
    import torch

    both = ("cuda", torch.cuda), ("xpu", torch.xpu)
    # Asked at every step's end: whether there is a device at all takes ten times as long to find.
    return [name for name, device in both if device.is_initialized() and device.is_available()]


def synchronize() -> None:
    """Wait for the devices that the program uses."""
    import torch

    for name in used_devices():
        getattr(torch, name).synchronize()


# The primitive pass: oneDNN's lines, taken off what C prints, in a timed step.


# A line of a library, wherever it begins: the program may have written half a line before it.
_LINES = re.compile(rb"onednn_verbose,[^\n]*\n")
# Read by oneDNN, once, when it first writes a line of something that ran.
TIMESTAMP = "ONEDNN_VERBOSE_TIMESTAMP"


class PrimitivePass:
    """One step with oneDNN's lines caught; the program's own output goes where it belongs."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._verbose: AbstractContextManager[object] | None = None
        self._printed = PrintedByC()
        # Where in what was caught the step begins.
        self._begin = 0

    def start(self) -> bool:
        """Begin; False where oneDNN is not there, or its lines cannot be caught."""
        from torch.backends import mkldnn

        if not mkldnn.is_available() or not self._printed.start():  # type: ignore[no-untyped-call]
            return False
        self._verbose = mkldnn.verbose(mkldnn.VERBOSE_ON)  # type: ignore[no-untyped-call]
        self._verbose.__enter__()  # type: ignore[no-untyped-call]
        _ask_for_times()
        self._begin = self._printed.size_bytes()
        self._timing.start()
        return True

    def stop(self) -> tuple[Events, list[bytes]] | None:
        """End, pass the program's own lines on, and hand over what ran."""
        if not self._printed.is_on:
            return None
        step = self._timing.stop()
        lines = [line for line in self._release() if b",exec," in line]
        return (step, lines) if step is not None and lines else None

    def abort(self) -> None:
        """End and forget; the program's own lines are passed on all the same."""
        if self._printed.is_on:
            self._release()

    def _release(self) -> list[bytes]:
        if self._verbose is not None:
            self._verbose.__exit__(None, None, None)
            self._verbose = None
        data = self._printed.stop()
        _write_all(_LINES.sub(b"", data))
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


class PrintedByC:
    """Catches what C code prints (``printf``): its stream is led into memory for a while. File
    descriptor 1 stays as it is. Whatever Python and other processes write goes straight to where it
    belongs, and is there however the program ends."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._stream: ctypes.c_void_p | None = None
        self._before: int | None = None

    @property
    def is_on(self) -> bool:
        """Whether C's stream is led into memory."""
        return self._descriptor is not None

    def start(self) -> bool:
        """Begin; False where C's library does not let its stream be changed."""
        # Other libraries than GNU's may have a stream that is no variable.
        try:
            if not os.confstr("CS_GNU_LIBC_VERSION"):
                return False
            library = ctypes.CDLL(None)
            stream = ctypes.c_void_p.in_dll(library, "stdout")
            descriptor = _memory()
        except (AttributeError, ValueError, OSError):
            return False
        library.fdopen.restype = ctypes.c_void_p
        caught = library.fdopen(descriptor, b"a")
        if not caught:
            os.close(descriptor)
            return False
        _flush_stdout()
        self._descriptor, self._stream = descriptor, stream
        self._before, stream.value = stream.value, caught
        return True

    def size_bytes(self) -> int:
        """How much was caught until now."""
        if self._descriptor is None:
            return 0
        _flush_stdout()
        return os.fstat(self._descriptor).st_size

    def stop(self) -> bytes:
        """End, and hand over what was caught. C's small object of the stream is left to itself,
        leading nowhere: a thread may be about to print with it, and its descriptor must not become
        that of a file of the program's."""
        if self._descriptor is None or self._stream is None:
            return b""
        self._stream.value = self._before
        size = self.size_bytes()
        descriptor, self._descriptor = self._descriptor, None
        try:
            return os.pread(descriptor, size, 0)
        finally:
            nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(nowhere, descriptor, inheritable=False)
            os.close(nowhere)


def _memory() -> int:
    import fcntl

    made = os.memfd_create("timeroof")
    try:
        return fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(made)


def _flush_stdout() -> None:
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)


def _write_all(data: bytes) -> None:
    """Write to stdout past all buffers; a reader that has left costs the text only."""
    with suppress(OSError):
        while data:
            data = data[os.write(1, data) :]
