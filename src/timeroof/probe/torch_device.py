"""A device measured through torch: the same code for CUDA, ROCm, MPS, XPU and, in tests, cpu."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from timeroof.core.machine import LAUNCH, Ceiling, MemoryLevel
from timeroof.core.units import resource_words
from timeroof.probe import torch_kernels as kernels
from timeroof.probe.sampling import Figure, Plan, Progress, SweepPoint
from timeroof.probe.torch_kernels import PATTERNS, DeviceTimer

MIB = 1 << 20
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
    plan: Plan = PLAN


QUICK = Settings(
    gemm_sizes=(4096,),
    stream_bytes=512 * MIB,
    curve_bytes=(4 * MIB, 16 * MIB, 64 * MIB),
    link_bytes=64 * MIB,
)


@dataclass
class DeviceFindings:
    """Everything found on one device."""

    name: str = ""
    ceilings: list[Ceiling] = field(default_factory=list)
    memory: list[MemoryLevel] = field(default_factory=list)
    sweep: list[SweepPoint] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


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
    return found


def _describe(timer: DeviceTimer, found: DeviceFindings) -> None:
    import torch

    found.name = str(timer.device)
    if timer.device.type == "cuda":
        facts = torch.cuda.get_device_properties(timer.device)
        found.name = facts.name
        found.memory.append(MemoryLevel(level="dram", size_bytes=facts.total_memory))
        if getattr(facts, "L2_cache_size", 0):
            found.memory.insert(0, MemoryLevel(level="l2", size_bytes=facts.L2_cache_size))


def _precisions(device_type: str) -> Iterator[tuple[str, str, bool]]:
    """Resource's precision, dtype's precision, and whether TF32 is allowed. On a GPU torch
    multiplies short floats on the matrix units, hence the tensor resources."""
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
            with kernels.tf32(allow_tf32):
                figures = {
                    f"{n}×{n}": kernels.measure_gemm(precision, n, timer, settings.plan)
                    for n in settings.gemm_sizes
                }
            best = _best_of(f"flop/{resource}", figures, "torch matrix product, best")
            found.ceilings.append(best)
        except (RuntimeError, NotImplementedError, TypeError, AttributeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
            found.notes.append(
                f"torch cannot multiply {resource_words(resource)} matrices here ({reason})."
            )


def _memory(timer: DeviceTimer, settings: Settings, found: DeviceFindings) -> None:
    known = (level.size_bytes for level in found.memory if level.level == "l2")
    cache = next(known, settings.cache_bytes)
    found.sweep += [
        kernels.measure_stream(pattern, size, timer, settings.plan)
        for size in settings.curve_bytes
        for pattern in PATTERNS
    ]
    streams: dict[str, Figure] = {}
    for pattern in PATTERNS:
        size, flush = settings.stream_bytes, 2 * cache
        point = kernels.measure_stream(pattern, size, timer, settings.plan, flush_bytes=flush)
        streams[pattern] = Figure(point.rate_per_s, point.spread)
    found.ceilings.append(_best_of("byte/dram", streams, "torch stream, cache flushed before"))
    inside = [p for p in found.sweep if p.size_bytes <= cache // 2]
    if timer.device.type != "cpu" and inside:
        best = max(inside, key=lambda p: p.rate_per_s)
        source = f"torch {best.pattern} stream over {best.size_bytes} bytes"
        found.ceilings.append(Figure(best.rate_per_s, best.spread).ceiling("byte/l2", source))


def _best_of(resource: str, figures: dict[str, Figure], source: str) -> Ceiling:
    best = max(figures, key=lambda name: figures[name].rate_per_s)
    rates = {name: figure.rate_per_s for name, figure in figures.items()}
    return figures[best].ceiling(resource, f"{source}: {best}", variants=rates)


def _links(timer: DeviceTimer, settings: Settings, found: DeviceFindings) -> None:
    for name, to_device in (("host-to-device", True), ("device-to-host", False)):
        figure = kernels.measure_link(to_device, settings.link_bytes, timer, settings.plan)
        source = f"torch copy of {settings.link_bytes} bytes"
        found.ceilings.append(figure.ceiling(f"link/{name}", source))


def _launch(timer: DeviceTimer, settings: Settings, found: DeviceFindings) -> None:
    costs = kernels.measure_device_launches(timer, settings.plan)
    # A graph's nodes are launched by the device: the smallest cost there is.
    run = [cost for cost in costs if "submit" not in cost.what]
    best = max(run, key=lambda cost: cost.figure.rate_per_s)
    variants = {cost.what: cost.figure.rate_per_s for cost in costs}
    source = f"torch zero_ on one element: {best.what}"
    found.ceilings.append(best.figure.ceiling(LAUNCH, source, variants=variants))
