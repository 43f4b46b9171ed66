"""Clock, power, temperature and neighbours of an NVIDIA GPU, where nvidia-ml-py is there."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from typing import Any


@dataclass
class GpuState:
    """What the driver says: lines for notes, and warnings that say what to do."""

    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def _library() -> Any:
    try:
        import pynvml
    except ImportError:
        return None
    return pynvml


def read_gpu_state(index: int, nvml: Any = None) -> GpuState:
    """Ask the driver about one GPU; empty where it cannot be asked."""
    nvml = nvml or _library()
    if nvml is None:
        return GpuState()
    try:
        nvml.nvmlInit()
    except Exception:  # no driver, no answer
        return GpuState()
    try:
        return _state(nvml, nvml.nvmlDeviceGetHandleByIndex(index))
    except Exception as error:  # the driver's errors have no common class here
        return GpuState(notes=[f"the GPU's driver does not answer ({type(error).__name__})"])
    finally:
        with contextlib.suppress(Exception):
            nvml.nvmlShutdown()


def _state(nvml: Any, handle: Any) -> GpuState:
    state = GpuState()
    clock = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)
    most = nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)
    power_w = nvml.nvmlDeviceGetPowerUsage(handle) / 1000.0
    heat = nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
    state.notes.append(f"SM clock {clock} of {most} MHz, {power_w:.0f} W, {heat} °C")
    others = [
        process.pid
        for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        if process.pid != os.getpid()
    ]
    if others:
        pids = ", ".join(str(pid) for pid in others[:5])
        state.warnings.append(
            f"{len(others)} other process(es) use this GPU ({pids}): end them and measure again"
            " with --fresh"
        )
    return state
