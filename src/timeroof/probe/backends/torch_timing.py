"""Timing on a torch device: device events where there are any, else a synchronised clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class DeviceTimer:
    """Seconds of work on a device, without the time to submit it where events exist."""

    def __init__(self, device: str, clock: Callable[[], float] = time.perf_counter) -> None:
        import torch

        self._torch = torch
        self.device = torch.device(device)
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
