"""Short numbers (bf16, fp16, int8) on a CPU: a ceiling where it has the unit, else a note."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from timeroof.core.machine import Ceiling, Scope
from timeroof.probe.cpu.threads import Team
from timeroof.probe.cpu.topology import Features
from timeroof.probe.sampling import Figure, Plan, sample
from timeroof.probe.torch_kernels import check_product, operands, product

# One product over several of torch's threads would be at the mercy of the scheduler: for seconds
# two of them can share a core. What the units can do shows in one product per core.


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
# Small products stay in the caches: large ones reach a third of the BF16 rate on some CPUs.
SIZES = (512, 1024, 1536)
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
    found = _emulated(features)
    if features.units:
        found.notes.append(
            f"No ceilings of {_listed(list(features.units))}: this CPU has units for them, but"
            " torch, through which they are measured, is not installed."
        )
    return found


def _emulated(features: Features) -> Reduced:
    """What has no unit: short floats run on the fp32 unit, short integers on neither."""
    missing = [p for p in SHORT if resource_of(p, features) is None]
    found = Reduced(emulated={f"flop/{p}": "flop/fp32" for p in missing if p != "int8"})
    if missing:
        found.notes.append(
            f"This CPU has no units for {_listed(missing)}. Emulated floats are compared with the"
            " FP32 ceiling."
        )
    return found


def _listed(precisions: Sequence[str]) -> str:
    """Precisions in a sentence.

    >>> _listed(["bf16"]), _listed(["bf16", "fp16", "int8"])
    ('BF16', 'BF16, FP16 and INT8')
    """
    *others, last = (p.upper() for p in precisions)
    return f"{', '.join(others)} and {last}" if others else last


def measure_reduced(
    features: Features, cpus: dict[Scope, tuple[int, ...]], *, quick: bool
) -> Reduced:
    """Products through torch (oneDNN) per precision; `cpus` gives the cores of each scope."""
    found = _emulated(features)
    with_unit = {p: r for p in SHORT if (r := resource_of(p, features)) is not None}
    best: dict[tuple[str, tuple[int, ...]], Figure] = {}
    for _ in range(2 if quick else ROUNDS):
        for precision in list(with_unit):
            try:
                _take_round(precision, set(cpus.values()), best, quick=quick)
            except FAILURES as error:
                del with_unit[precision]
                reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
                found.notes.append(
                    f"torch cannot multiply {precision.upper()} matrices here ({reason})."
                )
                if precision != "int8":
                    found.emulated[f"flop/{precision}"] = "flop/fp32"
    for precision, resource in with_unit.items():
        unit = features.units[resource.removeprefix("flop/")]
        source = f"one torch matrix product per core, side by side ({unit} through oneDNN)"
        found.ceilings += [
            best[precision, own].ceiling(resource, source, scope=scope, threads=len(own))
            for scope, own in sorted(cpus.items(), key=lambda item: len(item[1]))
        ]
        if resource.endswith("-tensor"):
            # Code that is not a matrix product has no faster unit for these numbers.
            found.emulated[f"flop/{precision}"] = resource
    return found


def _take_round(
    precision: str, teams: set[tuple[int, ...]], best: dict[tuple[str, tuple[int, ...]], Figure], *,
    quick: bool,
) -> None:  # fmt: skip
    for own in teams:
        with Team(own) as team:
            for size in SIZES[:2] if quick else SIZES:
                figure = measure_products(team, precision, size, PLAN)
                best[precision, own] = figure.better(best.get((precision, own)))
