"""Steps under torch's profiler: ops with their times, or a device's kernels with shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING

from timeroof_recorder.instruments import Events
from timeroof_recorder.process import QuietErrors

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
    from torch._C._profiler import ProfilerActivity

    return {getattr(ProfilerActivity, name.upper()) for name in used_devices()}


def used_devices() -> list[str]:
    """The devices that the program has begun to use."""
    import torch

    both = ("cuda", torch.cuda), ("xpu", torch.xpu)
    return [name for name, device in both if device.is_available() and device.is_initialized()]


def synchronize() -> None:
    """Wait for the devices that the program uses."""
    import torch

    for name in used_devices():
        getattr(torch, name).synchronize()
