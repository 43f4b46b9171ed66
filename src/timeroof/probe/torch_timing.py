"""Timing on a torch device: device events where there are any, else a synchronised clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from timeroof.core.errors import UsageError


def _usable(name: str) -> tuple[Any, Any]:
    """Torch and a device of it that can compute; else one line that says why not."""
    try:
        import torch

        device = torch.device(name)
        if device.type == "meta":
            raise RuntimeError("it computes nothing")
        torch.ones(1, device=device).add(1).item()
    except Exception as error:  # torch raises anything, its text may be pages
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise UsageError(
            f"the device {name!r} cannot be used here ({reason})",
            advice="name a device that torch has on this computer, such as cuda, or leave it out",
        ) from error
    return torch, device


class DeviceTimer:
    """Seconds of work on a device, without the time to submit it where events exist."""

    def __init__(self, device: str, clock: Callable[[], float] = time.perf_counter) -> None:
        torch, self.device = _usable(device)
        self._torch = torch
        self._clock = clock
        # ROCm's torch calls its devices cuda too.
        self.has_events = self.device.type == "cuda"
        self._flush: Any = None

    def synchronize(self) -> None:
        """Wait until the device has done everything; a CPU always has."""
        wait = getattr(getattr(self._torch, self.device.type, None), "synchronize", None)
        if self.device.type != "cpu" and wait is not None:
            wait()

    def run(self, call: Callable[[], object]) -> Callable[[int], float]:
        """A `run` for sampling: seconds of so many calls in a row."""

        def timed(repetitions: int) -> float:
            self.synchronize()
            if self.has_events:
                return self._by_events(call, repetitions)
            start = self._clock()
            for _ in range(repetitions):
                call()
            self.synchronize()
            return self._clock() - start

        return timed

    def submit(self, call: Callable[[], object]) -> Callable[[int], float]:
        """A `run` for sampling of the host's share: seconds until so many calls are queued."""

        def timed(repetitions: int) -> float:
            self.synchronize()
            start = self._clock()
            for _ in range(repetitions):
                call()
            queued_s = self._clock() - start
            self.synchronize()
            return queued_s

        return timed

    def cold(self, call: Callable[[], object], flush_bytes: int) -> Callable[[int], float]:
        """Like `run`, with the device's cache emptied before each sample."""
        inner = self.run(call)

        def timed(repetitions: int) -> float:
            self.flush_cache(flush_bytes)
            return inner(repetitions)

        return timed

    def flush_cache(self, size_bytes: int) -> None:
        """Write over more memory than the cache holds."""
        if self._flush is None or self._flush.numel() < size_bytes:
            self._flush = self._torch.ones(size_bytes, dtype=self._torch.int8, device=self.device)
        self._flush.neg_()

    def _by_events(self, call: Callable[[], object], repetitions: int) -> float:
        events: Any = self._torch.cuda.Event
        start, end = events(enable_timing=True), events(enable_timing=True)
        start.record()
        for _ in range(repetitions):
            call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3
