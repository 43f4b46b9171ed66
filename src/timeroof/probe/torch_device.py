"""A device measured through torch: the same code for CUDA, ROCm, MPS, XPU and, in tests, cpu."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from timeroof.core.machine import Ceiling, MemoryLevel
from timeroof.core.resources import LAUNCH
from timeroof.probe.measurement import Figure, LaunchCost, SweepPoint
from timeroof.probe.sampling import Plan
from timeroof.probe.torch_kernels import (
    PATTERNS,
    DeviceTimer,
    measure_curve,
    measure_device_launches,
    measure_gemm,
    measure_link,
    measure_stream,
    operands,
    product,
    sustain,
    tf32,
)

# Clock, power, temperature and neighbours of an NVIDIA GPU, where nvidia-ml-py is there.


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


MIB = 1 << 20
Progress = Callable[[str, float], None]


PLAN = Plan(sample_s=5e-3, most=20)


@dataclass(frozen=True)
class Settings:
    """How much to measure; tests use small ones."""

    gemm_sizes: tuple[int, ...] = (2048, 4096, 8192)
    stream_bytes: int = 1024 * MIB
    curve_bytes: tuple[int, ...] = tuple(MIB * (1 << k) for k in range(10))
    link_bytes: int = 256 * MIB
    # Where the device does not tell the size of its cache.
    cache_bytes: int = 64 * MIB
    sustained_s: float = 2.0
    plan: Plan = PLAN


QUICK = Settings(
    gemm_sizes=(4096,),
    stream_bytes=512 * MIB,
    curve_bytes=(4 * MIB, 16 * MIB, 64 * MIB),
    link_bytes=64 * MIB,
    sustained_s=0.0,
)


@dataclass
class DeviceFindings:
    """Everything found on one device."""

    name: str = ""
    ceilings: list[Ceiling] = field(default_factory=list)
    memory: list[MemoryLevel] = field(default_factory=list)
    sweep: list[SweepPoint] = field(default_factory=list)
    launches: list[LaunchCost] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def measure_device(
    device: str, settings: Settings | None = None, progress: Progress | None = None
) -> DeviceFindings:
    """Products per precision, streams, the curve, host links and launching on one device."""
    settings = settings or Settings()
    timer = DeviceTimer(device)
    found = DeviceFindings()
    _describe(timer, found)
    steps: list[tuple[str, Callable[[], None]]] = [
        ("matrix products", lambda: _compute(timer, settings, found)),
        ("memory", lambda: _memory(timer, settings, found)),
        ("host links", lambda: _links(timer, settings, found)),
        ("launching", lambda: _launch(timer, settings, found)),
    ]
    for index, (name, step) in enumerate(steps):
        if progress is not None:
            progress(name, index / len(steps))
        step()
    _ask_driver(timer, found)
    return found


def _describe(timer: DeviceTimer, found: DeviceFindings) -> None:
    import torch

    found.name = str(timer.device)
    if timer.device.type == "cuda":
        facts: Any = torch.cuda.get_device_properties(timer.device)
        found.name = facts.name
        found.memory.append(MemoryLevel(level="dram", size_bytes=facts.total_memory))
        if getattr(facts, "L2_cache_size", 0):
            found.memory.insert(0, MemoryLevel(level="l2", size_bytes=facts.L2_cache_size))


def _cache_bytes(found: DeviceFindings, settings: Settings) -> int:
    sizes = (level.size_bytes for level in found.memory if level.level == "l2")
    return next(sizes, settings.cache_bytes)


def _precisions(device_type: str) -> Iterator[tuple[str, str, bool]]:
    """Resource's precision, dtype's precision, and whether TF32 is allowed.

    On a GPU torch multiplies short floats on the matrix units, hence the tensor resources.
    """
    tensor = "-tensor" if device_type == "cuda" else ""
    if device_type != "mps":
        yield f"fp64{tensor}", "fp64", False
    yield "fp32", "fp32", False
    if device_type == "cuda":
        yield "tf32-tensor", "fp32", True
    yield from ((f"{p}{tensor}", p, False) for p in ("fp16", "bf16", "int8"))


def _compute(timer: DeviceTimer, settings: Settings, found: DeviceFindings) -> None:
    for resource, precision, allow_tf32 in _precisions(timer.device.type):
        try:
            with tf32(allow_tf32):
                found.ceilings.append(_peak(resource, precision, timer, settings))
        except (RuntimeError, NotImplementedError, TypeError, AttributeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
            found.notes.append(f"{resource}: torch cannot multiply it here ({reason})")


def _peak(resource: str, precision: str, timer: DeviceTimer, settings: Settings) -> Ceiling:
    """Burst and sustained rate of the best size; the burst is the roof that can be reached."""
    figures = {n: measure_gemm(precision, n, timer, settings.plan) for n in settings.gemm_sizes}
    size = max(figures, key=lambda n: figures[n].rate_per_s)
    variants = {f"{n}×{n}": figure.rate_per_s for n, figure in figures.items()}
    if settings.sustained_s > 0:
        call = product(*operands(precision, size, str(timer.device)))
        repetitions = max(1, round(0.05 * figures[size].rate_per_s / (2.0 * size**3)))
        samples = sustain(
            timer.run(call), sustained_s=settings.sustained_s, repetitions=repetitions
        )
        variants["sustained"] = 2.0 * size**3 / samples.median_s
    source = f"torch matrix product of {size}×{size}, best (burst)"
    return _ceiling(f"flop/{resource}", figures[size], source, variants)


def _memory(timer: DeviceTimer, settings: Settings, found: DeviceFindings) -> None:
    cache = _cache_bytes(found, settings)
    found.sweep += measure_curve(list(settings.curve_bytes), timer, settings.plan)
    streams = {
        p: measure_stream(p, settings.stream_bytes, timer, settings.plan, flush_bytes=2 * cache)[0]
        for p in PATTERNS
    }
    found.ceilings.append(_best_of("byte/dram", streams, "torch stream, cache flushed before"))
    inside = [p for p in found.sweep if p.size_bytes <= cache // 2]
    if timer.device.type != "cpu" and inside:
        best = max(inside, key=lambda p: p.rate_per_s)
        found.ceilings.append(
            Ceiling(
                resource="byte/l2",
                rate=best.rate_per_s,
                origin="measured",
                spread=best.spread,
                source=f"torch {best.pattern} stream over {best.size_bytes} bytes",
            )
        )


def _best_of(resource: str, figures: dict[str, Figure], source: str) -> Ceiling:
    best = max(figures, key=lambda name: figures[name].rate_per_s)
    rates = {name: figure.rate_per_s for name, figure in figures.items()}
    return _ceiling(resource, figures[best], f"{source}: {best}", rates)


def _links(timer: DeviceTimer, settings: Settings, found: DeviceFindings) -> None:
    for name, to_device in (("host-to-device", True), ("device-to-host", False)):
        figure = measure_link(to_device, settings.link_bytes, timer, settings.plan)
        source = f"torch copy of {settings.link_bytes} bytes"
        found.ceilings.append(_ceiling(f"link/{name}", figure, source, {}))


def _launch(timer: DeviceTimer, settings: Settings, found: DeviceFindings) -> None:
    found.launches += measure_device_launches(timer, settings.plan)
    # A graph's nodes are launched by the device: the smallest cost there is.
    best = min(
        (cost for cost in found.launches if "submit" not in cost.what), key=lambda c: c.best_s
    )
    found.ceilings.append(
        Ceiling(
            resource=LAUNCH,
            rate=1.0 / best.best_s,
            origin="measured",
            spread=(best.p75_s - best.p25_s) / best.median_s,
            source=f"torch zero_ on one element: {best.what}",
            variants={cost.what: 1.0 / cost.best_s for cost in found.launches},
        )
    )


def _ceiling(resource: str, figure: Figure, source: str, variants: dict[str, float]) -> Ceiling:
    return Ceiling(
        resource=resource,
        rate=figure.rate_per_s,
        origin="measured",
        spread=figure.spread,
        source=source,
        variants=variants,
    )


def _ask_driver(timer: DeviceTimer, found: DeviceFindings) -> None:
    if timer.device.type == "cuda":
        state = read_gpu_state(timer.device.index or 0)
        found.notes += state.notes
        found.warnings += state.warnings
