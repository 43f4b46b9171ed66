"""The timed pass: torch's profiler without shapes, read from its raw events."""

from __future__ import annotations

from typing import Any

from timeroof.live.torch.process import quiet_stderr
from timeroof.live.torch.recording import TimedStep

BEGIN, FINISH = "timeroof#begin", "timeroof#finish"
_CPU_KINDS = ("cpu_op", "user_annotation", "cpu_instant_event")


def is_profiling() -> bool:
    """Whether a torch profiler is on in this thread, ours or the program's."""
    from torch._C._autograd import _profiler_enabled

    return bool(_profiler_enabled())


class Timing:
    """Switches the profiler on and off around a step."""

    def __init__(self) -> None:
        self._on = False

    def start(self) -> None:
        """Begin to record; raises RuntimeError where torch refuses."""
        from torch._C._autograd import _enable_profiler, _prepare_profiler
        from torch._C._profiler import (
            ProfilerActivity,
            ProfilerConfig,
            ProfilerState,
            _ExperimentalConfig,
        )

        config = ProfilerConfig(
            ProfilerState.KINETO, False, False, False, False, False, _ExperimentalConfig()
        )
        with quiet_stderr():
            _prepare_profiler(config, {ProfilerActivity.CPU})
            _enable_profiler(config, {ProfilerActivity.CPU})
        self._on = True
        mark(BEGIN)

    def stop(self) -> TimedStep | None:
        """End the recording and hand the step over; None where nothing was recorded."""
        mark(FINISH)
        result = self._disable()
        return None if result is None else step_from_events(result.events())

    def abort(self) -> None:
        """End the recording and forget it."""
        self._disable()

    def _disable(self) -> Any:
        from torch._C._autograd import _disable_profiler

        if not self._on:
            return None
        self._on = False
        try:
            with quiet_stderr():
                return _disable_profiler()
        except RuntimeError:  # somebody else switched it off
            return None


def mark(name: str) -> None:
    """An event that lasts for a moment."""
    import torch

    with torch.autograd.profiler.record_function(name):
        pass


def step_from_events(events: list[Any]) -> TimedStep | None:
    """Columns from raw profiler events between the two marks."""
    rows = [
        (e.name(), e.start_ns(), e.duration_ns(), e.start_thread_id(), e.sequence_nr(), e.scope())
        for e in events
        if e.activity_type() in _CPU_KINDS
    ]
    begin = next((r for r in rows if r[0] == BEGIN), None)
    finish = next((r for r in reversed(rows) if r[0] == FINISH), None)
    if begin is None or finish is None:
        return None
    low, high = begin[1] + begin[2], finish[1]
    inside = [r for r in rows if low <= r[1] < high and r[0] not in (BEGIN, FINISH)]
    return _columns(inside, low, high, begin[3])


def _columns(rows: list[tuple[Any, ...]], low: int, high: int, thread: int) -> TimedStep:
    import numpy as np

    numbers: dict[str, int] = {}
    name = np.array([numbers.setdefault(r[0], len(numbers)) for r in rows], np.int64)
    table = np.array([r[1:] for r in rows], np.int64).reshape(-1, 5)
    start, end = table[:, 0], table[:, 0] + table[:, 1]
    # An event that was open at the end (the optimizer's step holds our hook) ends there.
    end = np.where((table[:, 1] < 0) | (end > high), high, end)
    order = np.lexsort((-end, start))
    return TimedStep(
        names=tuple(numbers),
        name=name[order],
        start_ns=start[order],
        end_ns=end[order],
        thread=table[order, 2],
        sequence=table[order, 3],
        scope=table[order, 4],
        begin_ns=low,
        finish_ns=high,
        main_thread=thread,
    )
