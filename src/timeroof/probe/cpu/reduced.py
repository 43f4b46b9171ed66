"""Short numbers (bf16, fp16, int8) on a CPU: a ceiling where it has the unit, else a note."""

from __future__ import annotations

from dataclasses import dataclass, field

from timeroof.core.machine import Ceiling
from timeroof.core.resources import Scope
from timeroof.probe.cpu.features import Features
from timeroof.probe.cpu.side_by_side import measure_products
from timeroof.probe.cpu.threads import Team
from timeroof.probe.rates import Figure
from timeroof.probe.sampling import Plan
from timeroof.probe.torch_gemm import measure_gemm, torch_threads
from timeroof.probe.torch_timing import DeviceTimer

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
