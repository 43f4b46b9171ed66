"""The device pass: one step recorded with its kernels, kept as the trace file that torch writes.

Such traces are read by the code that reads trace files: a kernel of a running program and one
of a file are the same thing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from timeroof.live.torch.process import quiet_stderr, temporary_file


def device_activities() -> set[Any]:
    """What torch's profiler can record of the devices that the program uses; empty on a CPU."""
    import torch
    from torch._C._profiler import ProfilerActivity

    found: set[Any] = set()
    for name, activity in (("cuda", "CUDA"), ("xpu", "XPU")):
        device: Any = getattr(torch, name, None)
        if device is not None and device.is_available() and device.is_initialized():
            found.add(getattr(ProfilerActivity, activity))
    return found


class DevicePass:
    """Records a step with shapes and device kernels into a file of its own."""

    def __init__(self) -> None:
        self._on = False

    def start(self, activities: set[Any], *, on_cpu: bool = False) -> bool:
        """Begin, when everything launched before has ended; False where there is no device."""
        if not activities and not on_cpu:
            return False
        from torch._C._autograd import _enable_profiler, _prepare_profiler
        from torch._C._profiler import (
            ProfilerActivity,
            ProfilerConfig,
            ProfilerState,
            _ExperimentalConfig,
        )

        wanted = {ProfilerActivity.CPU, *activities}
        config = ProfilerConfig(
            ProfilerState.KINETO, True, False, False, False, False, _ExperimentalConfig()
        )
        _synchronize()
        with quiet_stderr():
            _prepare_profiler(config, wanted)
            _enable_profiler(config, wanted)
        self._on = True
        return True

    def stop(self, owner: object) -> Path | None:
        """End; the trace's file, which goes when its owner does."""
        result = self._disable()
        if result is None:
            return None
        path = temporary_file(owner)
        with quiet_stderr():
            result.save(str(path))
        return path

    def abort(self) -> None:
        """End and forget."""
        self._disable()

    def _disable(self) -> Any:
        from torch._C._autograd import _disable_profiler

        if not self._on:
            return None
        self._on = False
        _synchronize()
        try:
            with quiet_stderr():
                return _disable_profiler()
        except RuntimeError:  # somebody else switched it off
            return None


def _synchronize() -> None:
    """Let the devices finish: kernels of a step belong to its record."""
    import torch

    for name in ("cuda", "xpu"):
        device: Any = getattr(torch, name, None)
        if device is not None and device.is_available() and device.is_initialized():
            device.synchronize()
