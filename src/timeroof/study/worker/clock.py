"""Clocks: the seconds of a few executions, on a CPU by the wall, on a GPU by the device."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol


class Reading(NamedTuple):
    """Seconds of all executions together, and the pages that were touched first in them."""

    time_s: float
    faults: int


class Clock(Protocol):
    """Times some executions of a function."""

    def read(self, run: Callable[[], Any], times: int) -> Reading:
        """Run it so often and say how long that took."""
        ...


class WallClock:
    """For devices that have done the work when the call returns."""

    def read(self, run: Callable[[], Any], times: int) -> Reading:
        """Run it so often and say how long that took."""
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        begin = time.perf_counter_ns()
        for _ in range(times):
            run()
        end = time.perf_counter_ns()
        more = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
        return Reading((end - begin) / 1e9, more)


class EventClock:
    """For CUDA devices: the device's own time from before the first to after the last kernel."""

    def read(self, run: Callable[[], Any], times: int) -> Reading:
        """Run it so often and say how long that took."""
        import torch

        cuda: Any = torch.cuda
        begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
        cuda.synchronize()
        begin.record()
        for _ in range(times):
            run()
        end.record()
        end.synchronize()
        return Reading(begin.elapsed_time(end) / 1e3, 0)


class WaitingClock(WallClock):
    """For any other device that works beside its host: wait for it on both sides."""

    def read(self, run: Callable[[], Any], times: int) -> Reading:
        """Run it so often and say how long that took."""
        import torch

        wait: Any = torch.accelerator.synchronize
        wait()
        begin = time.perf_counter_ns()
        for _ in range(times):
            run()
        wait()
        return Reading((time.perf_counter_ns() - begin) / 1e9, 0)


def clock_for(device: str) -> Clock:
    """The clock of a device."""
    kind = device.split(":", 1)[0]
    if kind == "cpu":
        return WallClock()
    return EventClock() if kind == "cuda" else WaitingClock()
