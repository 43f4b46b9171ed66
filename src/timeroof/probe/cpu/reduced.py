"""Short numbers (bf16, fp16, int8) on a CPU: a ceiling where it has the unit, else a note."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from timeroof.core.machine import Ceiling
from timeroof.core.resources import Scope
from timeroof.probe.cpu.features import Features
from timeroof.probe.cpu.threads import Team
from timeroof.probe.measurement import Figure
from timeroof.probe.sampling import Plan, sample
from timeroof.probe.torch_kernels import (
    DeviceTimer,
    check_product,
    measure_gemm,
    operands,
    product,
    torch_threads,
)

# Matrix products through torch, one per core at the same time, each thread on its own core.
#
# One product over several of torch's threads would be at the mercy of the scheduler: for seconds
# two
# of them can share a core. What the cores' units can do shows in products that need no neighbour.


def measure_products(team: Team, precision: str, size: int, plan: Plan) -> Figure:
    """Operations per second (a multiply-add counts two) of one square product per thread."""
    import torch

    before = torch.get_num_threads()
    # For this process, and in each thread for the pool of that thread.
    torch.set_num_threads(1)
    try:
        team.call(lambda _: torch.set_num_threads(1))
        pairs = [operands(precision, size, "cpu") for _ in range(team.size)]
        calls = [product(left, right) for left, right in pairs]
        for result, (left, right) in zip(team.call(lambda k: calls[k]()), pairs, strict=True):
            check_product(result, left, right)
        together = threading.Barrier(team.size)

        def timed(index: int, repetitions: int) -> tuple[float, float]:
            call = calls[index]
            together.wait()
            start = time.perf_counter()
            for _ in range(repetitions):
                call()
            return start, time.perf_counter()

        def run(repetitions: int) -> float:
            spans: list[tuple[float, float]] = team.call(lambda index: timed(index, repetitions))
            return max(end for _, end in spans) - min(start for start, _ in spans)

        return Figure.of(sample(run, plan), amount=2.0 * size**3 * team.size)
    finally:
        torch.set_num_threads(before)


SHORT = ("bf16", "fp16", "int8")
# What torch raises where it has no kernel for a precision.
FAILURES = (RuntimeError, NotImplementedError, AttributeError)
SIZES = (1024, 1536)
# Without a unit a product may run a hundred times slower: a small one tells enough.
EMULATED_SIZE = 192
PLAN = Plan(sample_s=0.0, most=20, limit_s=0.2)
# Rounds over all precisions and teams: a disturbance of a second then spoils one round only.
ROUNDS = 3


@dataclass
class Reduced:
    """What was found about short numbers."""

    ceilings: list[Ceiling] = field(default_factory=list)
    emulated: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def resource_of(precision: str, features: Features) -> str | None:
    """The resource that products of a precision use here, or None without a unit."""
    for name in (f"{precision}-tensor", precision):
        if name in features.units:
            return f"flop/{name}"
    return None


def describe_without_torch(features: Features) -> Reduced:
    """The mappings that need no measuring."""
    found = Reduced()
    for precision in SHORT:
        resource = resource_of(precision, features)
        if resource is not None:
            unit = features.units[resource.removeprefix("flop/")]
            found.notes.append(
                f"{precision}: the CPU has {unit}, but torch, through which it is measured,"
                " is not installed: no ceiling"
            )
        else:
            _map_to_fp32(precision, found)
    return found


def measure_reduced(
    features: Features, cpus: dict[Scope, tuple[int, ...]], *, quick: bool
) -> Reduced:
    """Products through torch (oneDNN) per precision; `cpus` gives the cores of each scope."""
    found = Reduced()
    with_unit = {p: r for p in SHORT if (r := resource_of(p, features)) is not None}
    best: dict[tuple[str, tuple[int, ...]], tuple[int, Figure]] = {}
    for _ in range(1 if quick else ROUNDS):
        for precision in list(with_unit):
            try:
                _take_round(precision, set(cpus.values()), best, quick=quick)
            except FAILURES as error:
                del with_unit[precision]
                _cannot(precision, error, found)
    for precision, resource in with_unit.items():
        for scope, own in sorted(cpus.items(), key=lambda item: len(item[1])):
            size, figure = best[precision, own]
            unit = features.units[resource.removeprefix("flop/")]
            found.ceilings.append(_ceiling(resource, scope, len(own), size, figure, unit))
        if resource.endswith("-tensor"):
            # Code that is not a matrix product has no faster unit for these numbers.
            found.emulated[f"flop/{precision}"] = resource
    for precision in SHORT:
        if resource_of(precision, features) is None:
            try:
                _measure_emulated(precision, len(cpus["all"]), found)
            except FAILURES as error:
                _cannot(precision, error, found)
    return found


def _take_round(
    precision: str,
    teams: set[tuple[int, ...]],
    best: dict[tuple[str, tuple[int, ...]], tuple[int, Figure]],
    *,
    quick: bool,
) -> None:
    for own in teams:
        with Team(own) as team:
            for size in SIZES[:1] if quick else SIZES:
                figure = measure_products(team, precision, size, PLAN)
                held = best.get((precision, own))
                if held is None or figure.rate_per_s > held[1].rate_per_s:
                    best[precision, own] = size, figure


def _ceiling(
    resource: str, scope: Scope, threads: int, size: int, figure: Figure, unit: str
) -> Ceiling:
    each = f"{threads} torch matrix products side by side, each" if threads > 1 else "torch product"
    return Ceiling(
        resource=resource,
        rate=figure.rate_per_s,
        origin="measured",
        scope=scope,
        threads=threads,
        spread=figure.spread,
        source=f"{each} of {size}×{size} on a core of its own ({unit} through oneDNN)",
    )


def _cannot(precision: str, error: BaseException, found: Reduced) -> None:
    found.notes.append(f"{precision}: torch cannot multiply it here ({_first(error)})")
    _map_to_fp32(precision, found)


def _measure_emulated(precision: str, threads: int, found: Reduced) -> None:
    with torch_threads(threads):
        figure = measure_gemm(precision, EMULATED_SIZE, DeviceTimer("cpu"), PLAN)
    _map_to_fp32(precision, found)
    found.notes.append(
        f"{precision} has no unit of its own on this CPU and is emulated: a torch matrix product"
        f" reaches {figure.rate_per_s / 1e9:.3g} G operations/s ({EMULATED_SIZE}×{EMULATED_SIZE},"
        f" {threads} thread{'s' if threads > 1 else ''})"
    )


def _map_to_fp32(precision: str, found: Reduced) -> None:
    """Short floats run on the fp32 unit; short integers have instructions that do not."""
    if precision != "int8":
        found.emulated[f"flop/{precision}"] = "flop/fp32"


def _first(error: BaseException) -> str:
    return str(error).splitlines()[0][:120] if str(error) else type(error).__name__
