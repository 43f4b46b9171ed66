"""A machine: what it offers per second of every resource, and where each figure comes from."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from timeroof.core.errors import InputError
from timeroof.core.resources import LAUNCH, LEVELS, ORIGINS, SCOPES, Origin, Scope, is_resource

MACHINE_SCHEMA = "timeroof.machine/1"

# Which figure is the roof where a machine has several for one resource: what was
# seen on the device beats what its maker prints, and a default comes last.
ORIGIN_RANK: dict[str, int] = {
    name: rank
    for rank, name in enumerate(
        (
            "user",
            "measured",
            "published",
            "datasheet",
            "theoretical",
            "counted",
            "inferred",
            "modelled",
        )
    )
}

# Rates beyond these are slips of the pen, and would turn times into 0 or infinity.
SLOWEST, FASTEST = 1e-9, 1e30

DeviceKind = Literal["gpu", "cpu", "tpu", "accelerator"]
Launching = Literal["asynchronous", "synchronous"]


class Ceiling(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """A rate per second that a machine offers of one resource."""

    resource: str
    rate: float
    origin: Origin
    scope: Scope = "all"
    threads: int | None = None
    spread: float | None = None
    source: str = ""
    variants: dict[str, float] = {}


class MemoryLevel(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """A level of the memory hierarchy and how much it holds over the whole device."""

    level: str
    size_bytes: int
    source: str = ""
    # Of a load that needs the result of the load before it.
    latency_s: float | None = None


class Machine(msgspec.Struct, kw_only=True, frozen=True):
    """A device with its ceilings.

    `launching` says whether starting work overlaps with doing it (asynchronous:
    a GPU's queue) or comes on top of it (synchronous: a CPU running eagerly).
    `kernel_floor_s` is the shortest time that a kernel of its takes, None where nobody knows.
    `emulated` maps a resource that the device has no unit for to the resource
    whose unit really runs, such as flop/bf16 to flop/fp32.
    """

    name: str
    device: str
    ceilings: list[Ceiling]
    memory: list[MemoryLevel] = []
    kernel_floor_s: float | None = None
    software: dict[str, str] = {}
    vendor: str = ""
    kind: DeviceKind = "gpu"
    architecture: str = ""
    compute_capability: str | None = None
    launching: Launching = "asynchronous"
    device_names: list[str] = []
    emulated: dict[str, str] = {}
    notes: list[str] = []

    def roofs(self, scope: Scope = "all", origin: Origin | None = None) -> dict[str, Ceiling]:
        """The ceiling that counts per resource, of one scope and, if asked, one origin."""
        best: dict[str, Ceiling] = {}
        for ceiling in self.ceilings:
            if ceiling.scope != scope and not _scopeless(ceiling):
                continue
            if origin is not None and ceiling.origin != origin:
                continue
            held = best.get(ceiling.resource)
            if held is None or ORIGIN_RANK[ceiling.origin] < ORIGIN_RANK[held.origin]:
                best[ceiling.resource] = ceiling
        for resource, unit in self.emulated.items():
            if resource not in best and unit in best:
                best[resource] = best[unit]
        return best

    def rate(self, resource: str, scope: Scope = "all") -> float | None:
        """Rate of one resource per second, or None where the machine has no figure."""
        ceiling = self.roofs(scope).get(resource)
        return None if ceiling is None else ceiling.rate

    @property
    def launch_overhead_s(self) -> float | None:
        """Seconds that one launch takes at least."""
        rate = self.rate(LAUNCH)
        return None if rate is None else 1.0 / rate

    def memory_size(self, level: str) -> int | None:
        """Size of a memory level in bytes, or None where it is not known."""
        return next((m.size_bytes for m in self.memory if m.level == level), None)

    @property
    def largest_cache_bytes(self) -> int | None:
        """Size of the largest level above DRAM."""
        sizes = [m.size_bytes for m in self.memory if m.level != "dram"]
        return max(sizes, default=None)


def _scopeless(ceiling: Ceiling) -> bool:
    """A launch costs the same whether one core works or all of them."""
    return ceiling.resource == LAUNCH


def check_machine(machine: Machine, where: str) -> Machine:
    """Refuse a machine whose figures cannot be divided by; name file and field."""
    if not machine.name.strip():
        raise InputError("'name' is empty", where=where, advice="give the machine a name")
    if not machine.ceilings:
        raise InputError(
            "'ceilings' has no entry", where=where, advice="a machine needs at least one ceiling"
        )
    seen: set[tuple[str, str, str]] = set()
    for index, ceiling in enumerate(machine.ceilings):
        field = f"ceilings[{index}] ({ceiling.resource})"
        _check_ceiling(ceiling, field, where)
        key = (ceiling.resource, ceiling.origin, ceiling.scope)
        if key in seen:
            raise InputError(
                f"{field} repeats {ceiling.resource} with origin {ceiling.origin}"
                f" and scope {ceiling.scope}",
                where=where,
                advice="keep one ceiling per resource, origin and scope",
            )
        seen.add(key)
    for resource, unit in machine.emulated.items():
        if not (is_resource(resource) and is_resource(unit)) or unit in machine.emulated:
            raise InputError(
                f"emulated.{resource} = {unit!r} names no unit",
                where=where,
                advice="name the resource whose unit really runs, such as flop/fp32",
            )
    _check_memory(machine, where)
    return machine


def _check_memory(machine: Machine, where: str) -> None:
    levels: set[str] = set()
    for index, memory in enumerate(machine.memory):
        field = f"memory[{index}] ({memory.level})"
        if not 0 < memory.size_bytes < 2**60:
            raise InputError(
                f"{field} has size_bytes {memory.size_bytes}",
                where=where,
                advice="sizes are above 0",
            )
        if memory.latency_s is not None and not 0 < memory.latency_s < 1:
            raise InputError(
                f"{field} has latency_s {memory.latency_s}",
                where=where,
                advice="a latency is above 0, in seconds",
            )
        if memory.level not in LEVELS or memory.level in levels:
            raise InputError(
                f"{field} is no level or is given twice",
                where=where,
                advice=f"use each of {', '.join(LEVELS)} once",
            )
        levels.add(memory.level)


def _check_ceiling(ceiling: Ceiling, field: str, where: str) -> None:
    if not is_resource(ceiling.resource):
        raise InputError(
            f"{field} names no known resource",
            where=where,
            advice="use flop/<precision>, byte/<level>, launch, fault or link/<name>",
        )
    if not SLOWEST <= ceiling.rate <= FASTEST:
        raise InputError(
            f"{field} has rate {ceiling.rate}",
            where=where,
            advice="a rate is a finite number above 0, per second",
        )
    for name, value in ceiling.variants.items():
        if not SLOWEST <= value <= FASTEST:
            raise InputError(
                f"{field} has variant {name!r} with rate {value}",
                where=where,
                advice="a rate is a finite number above 0, per second",
            )
    if ceiling.spread is not None and not (math.isfinite(ceiling.spread) and ceiling.spread >= 0):
        raise InputError(
            f"{field} has spread {ceiling.spread}",
            where=where,
            advice="a spread is a share of the median, 0 or more",
        )
    if ceiling.threads is not None and ceiling.threads < 1:
        raise InputError(
            f"{field} has threads {ceiling.threads}", where=where, advice="use 1 or more"
        )


assert set(ORIGIN_RANK) == set(ORIGINS)
assert set(SCOPES) == {"all", "core", "socket"}
