"""Short numbers (bf16, fp16, int8) on a CPU: a ceiling where it has the unit, else a note."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from timeroof.core.machine import Ceiling
from timeroof.core.resources import Scope
from timeroof.probe.backends.cpu.features import Features
from timeroof.probe.backends.torch_gemm import measure_gemm, torch_threads
from timeroof.probe.backends.torch_timing import DeviceTimer
from timeroof.probe.figures import Figure
from timeroof.probe.sampling import Plan

SHORT = ("bf16", "fp16", "int8")
SIZES = (1024, 1536)
# Without a unit a product may run a hundred times slower: a small one tells enough.
EMULATED_SIZE = 192
PLAN = Plan(sample_s=0.0, most=20, limit_s=0.4)
# Torch's threads are placed by the system, for a second or so also two on one core: below this
# share of what one thread promises, a product is taken again after a pause.
SHARED_CORE = 0.85
TURNS = 4
PAUSE_S = 0.3


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


def measure_reduced(features: Features, scopes: dict[Scope, int], *, quick: bool) -> Reduced:
    """Products through torch (oneDNN) per precision; `scopes` gives the threads of each."""
    found = Reduced()
    for precision in SHORT:
        resource = resource_of(precision, features)
        try:
            if resource is not None:
                _measure_unit(precision, resource, features, scopes, found, quick=quick)
            else:
                _measure_emulated(precision, scopes["all"], found)
        except (RuntimeError, NotImplementedError, AttributeError) as error:
            found.notes.append(f"{precision}: torch cannot multiply it here ({_first(error)})")
            _map_to_fp32(precision, found)
    return found


def _measure_unit(
    precision: str,
    resource: str,
    features: Features,
    scopes: dict[Scope, int],
    found: Reduced,
    *,
    quick: bool,
) -> None:
    unit = features.units[resource.removeprefix("flop/")]
    if resource.endswith("-tensor"):
        # Code that is not a matrix product has no faster unit for these numbers.
        found.emulated[f"flop/{precision}"] = resource
    measured: dict[int, tuple[int, Figure]] = {}
    for scope, threads in sorted(scopes.items(), key=lambda item: item[1]):
        if threads not in measured:
            one = measured.get(1)
            expected = one[1].rate_per_s * threads if one is not None else 0.0
            sizes = SIZES[:1] if quick else SIZES
            measured[threads] = _best_size(precision, threads, sizes, expected, patient=not quick)
        # More threads are no slower a machine, even if torch's happened to be in a busy moment.
        size, figure = max(measured.values(), key=lambda entry: entry[1].rate_per_s)
        found.ceilings.append(
            Ceiling(
                resource=resource,
                rate=figure.rate_per_s,
                origin="measured",
                scope=scope,
                threads=threads,
                spread=figure.spread,
                source=f"torch matrix product of {size}×{size} ({unit} through oneDNN)",
            )
        )


def _best_size(
    precision: str,
    threads: int,
    sizes: tuple[int, ...],
    expected_per_s: float,
    *,
    patient: bool,
) -> tuple[int, Figure]:
    """The size that runs best; again where threads of torch seem to have shared a core."""
    timer = DeviceTimer("cpu")
    found: list[tuple[int, Figure]] = []
    for turn in range(TURNS if patient else 1):
        if turn:
            time.sleep(PAUSE_S)
        with torch_threads(threads):
            found += [(size, measure_gemm(precision, size, timer, PLAN)) for size in sizes]
        best = max(found, key=lambda entry: entry[1].rate_per_s)
        if best[1].rate_per_s >= SHARED_CORE * expected_per_s:
            break
    return best


def _measure_emulated(precision: str, threads: int, found: Reduced) -> None:
    with torch_threads(threads):
        figure = measure_gemm(precision, EMULATED_SIZE, DeviceTimer("cpu"), PLAN)
    _map_to_fp32(precision, found)
    found.notes.append(
        f"{precision} has no unit of its own on this CPU and is emulated: a torch matrix product"
        f" reaches {figure.rate_per_s / 1e9:.3g} G operations/s ({EMULATED_SIZE}×{EMULATED_SIZE},"
        f" {threads} threads)"
    )


def _map_to_fp32(precision: str, found: Reduced) -> None:
    """Short floats run on the fp32 unit; short integers have instructions that do not."""
    if precision != "int8":
        found.emulated[f"flop/{precision}"] = "flop/fp32"


def _first(error: Exception) -> str:
    return str(error).splitlines()[0][:120] if str(error) else type(error).__name__
