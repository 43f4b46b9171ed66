"""Resources, and a machine: what it offers per second of each, and where each figure comes from.

The names of resources are one vocabulary for all that a kernel uses and a machine offers.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from timeroof.core.errors import InputError
from timeroof.core.files import check_schema, write_atomically

Origin = Literal[
    "measured", "counted", "modelled", "inferred", "user", "datasheet", "theoretical", "published"
]
Phase = Literal["forward", "backward", "optimizer", "data", "other"]
Kind = Literal["kernel", "op", "primitive", "copy", "memset", "collective", "unit"]
Scope = Literal["all", "core", "socket"]

ORIGINS: tuple[str, ...] = get_args(Origin)
PHASES: tuple[str, ...] = get_args(Phase)
KINDS: tuple[str, ...] = get_args(Kind)
SCOPES: tuple[str, ...] = get_args(Scope)

VECTOR_PRECISIONS = ("fp64", "fp32", "fp16", "bf16", "int8")
TENSOR_PRECISIONS = tuple(
    f"{p}-tensor" for p in ("fp64", "tf32", "fp16", "bf16", "fp8", "fp4", "int8")
)
PRECISIONS = VECTOR_PRECISIONS + TENSOR_PRECISIONS
LEVELS = ("l1", "l2", "l3", "dram")
CACHE_LEVELS = LEVELS[:-1]

LAUNCH = "launch"
FAULT = "fault"
# No resource: neither known work nor launching explains a row's time.
LATENCY = "latency"
DRAM = "byte/dram"

# A vendor's own throughput percentages, where a file has them and no amounts: an amount is the
# seconds that the pipe would take at its peak.
PIPES = ("pipe/compute", "pipe/memory")

_LINK = re.compile(r"^link/[A-Za-z0-9][A-Za-z0-9._-]*$")

RESOURCES = (*(f"flop/{p}" for p in PRECISIONS), *(f"byte/{m}" for m in LEVELS), LAUNCH, FAULT)


def is_resource(name: str) -> bool:
    """Whether a name is a resource: one of `RESOURCES` or `PIPES`, or a link of any name.

    >>> is_resource("flop/fp32"), is_resource("link/nvlink"), is_resource("flop/fp17")
    (True, True, False)
    """
    return name in RESOURCES or name in PIPES or bool(_LINK.match(name))


def limiter_kind(resource: str) -> str:
    """The kind of limit a resource sets: compute, memory, launch, latency, fault, link, unknown.

    >>> limiter_kind("flop/fp32"), limiter_kind("byte/l2"), limiter_kind("pipe/memory")
    ('compute', 'memory', 'memory')
    """
    return KIND_OF_HEAD.get(resource.removeprefix("pipe/").split("/", 1)[0], "unknown")


# What the first part of a resource's name says of the kind of limit that it sets; a pipe's name
# is its kind.
KIND_OF_HEAD = {
    "flop": "compute",
    "byte": "memory",
    "launch": "launch",
    "latency": "latency",
    "fault": "fault",
    "link": "link",
    "compute": "compute",
    "memory": "memory",
}
LIMITER_KINDS = ("compute", "memory", "launch", "latency", "fault", "link", "unknown")


MACHINE_SCHEMA = "timeroof.machine/1"
# The key of `Machine.software` that says who gets huge pages: always, madvise or never.
HUGE_PAGES = "transparent_hugepage"

# The key of `Machine.software` that says in which pages its memory was measured: huge or 4 kB.
PAGES = "pages"


def launch_variant(framework: str, what: str) -> str:
    """The name of a launch cost among the variants of the ceiling `launch`: of an `op` from Python,
    of a `call` of a compiled function, of a `kernel` inside one.

    >>> launch_variant("jax", "op"), launch_variant("jax", "call")
    ('jax op, python loop', 'jax call, compiled')
    """
    return f"{framework} {what}, {'python loop' if what == 'op' else 'compiled'}"


# Which figure is the roof where a machine has several for one resource: what was
# seen on the device beats what its maker prints, and a default comes last.
_BEST_FIRST = "user measured published datasheet theoretical counted inferred modelled"
ORIGIN_RANK = {name: rank for rank, name in enumerate(_BEST_FIRST.split())}

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
    `achievable` are the best rates that somebody published for real kernels on it. They stand
    beside the ceilings and bound nothing.
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
    achievable: list[Ceiling] = []

    def roofs(self, scope: Scope = "all", origin: Origin | None = None) -> dict[str, Ceiling]:
        """The ceiling that counts per resource, of one scope and, if asked, one origin."""
        best: dict[str, Ceiling] = {}
        for ceiling in self.ceilings:
            # A launch costs the same whether one core works or all of them.
            if ceiling.scope != scope and ceiling.resource != LAUNCH:
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

    def achievable_rate(self, resource: str) -> Ceiling | None:
        """The best published rate of real kernels, or None where nobody published one."""
        return next((c for c in self.achievable if c.resource == resource), None)

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


# A figure that can be divided by, or not; what is wrong; what is right.
Check = tuple[bool, str, str]


def _refuse(checks: Iterable[Check], where: str) -> None:
    for holds, what, advice in checks:
        if not holds:
            raise InputError(what, where=where, advice=advice)


def check_machine(machine: Machine, where: str) -> Machine:
    """Refuse a machine whose figures cannot be divided by; name file and field."""
    _refuse(_checks(machine), where)
    return machine


def _checks(machine: Machine) -> Iterator[Check]:
    yield bool(machine.name.strip()), "'name' is empty", "give the machine a name"
    yield bool(machine.ceilings), "'ceilings' has no entry", "a machine needs at least one ceiling"
    seen: set[tuple[str, str, str]] = set()
    for index, c in enumerate(machine.ceilings):
        field = f"ceilings[{index}] ({c.resource})"
        yield from _ceiling_checks(c, field)
        key = (c.resource, c.origin, c.scope)
        repeats = f"{field} repeats {c.resource} with origin {c.origin} and scope {c.scope}"
        yield key not in seen, repeats, "keep one ceiling per resource, origin and scope"
        seen.add(key)
    for index, c in enumerate(machine.achievable):
        yield from _ceiling_checks(c, f"achievable[{index}] ({c.resource})")
    advice = "name the resource whose unit really runs, such as flop/fp32"
    for resource, unit in machine.emulated.items():
        known = is_resource(resource) and is_resource(unit) and unit not in machine.emulated
        yield known, f"emulated.{resource} = {unit!r} names no unit", advice
    floor_s = machine.kernel_floor_s
    is_floor = floor_s is None or 0 < floor_s < 1
    yield is_floor, f"'kernel_floor_s' is {floor_s}", "give seconds above 0"
    levels: set[str] = set()
    for index, m in enumerate(machine.memory):
        field = f"memory[{index}] ({m.level})"
        is_size, latency = 0 < m.size_bytes < 2**60, "a latency is above 0, in seconds"
        yield is_size, f"{field} has size_bytes {m.size_bytes}", "sizes are above 0"
        is_short = m.latency_s is None or 0 < m.latency_s < 1
        yield is_short, f"{field} has latency_s {m.latency_s}", latency
        is_new, once = m.level in LEVELS and m.level not in levels, ", ".join(LEVELS)
        yield is_new, f"{field} is no level or is given twice", f"use each of {once} once"
        levels.add(m.level)


def _ceiling_checks(ceiling: Ceiling, field: str) -> Iterator[Check]:
    resources = "use flop/<precision>, byte/<level>, launch, fault or link/<name>"
    yield is_resource(ceiling.resource), f"{field} names no known resource", resources
    advice = "a rate is a finite number above 0, per second"
    yield SLOWEST <= ceiling.rate <= FASTEST, f"{field} has rate {ceiling.rate}", advice
    for name, rate in ceiling.variants.items():
        is_rate = SLOWEST <= rate <= FASTEST
        yield is_rate, f"{field} has variant {name!r} with rate {rate}", advice
    spread, threads = ceiling.spread, ceiling.threads
    is_share = spread is None or (math.isfinite(spread) and spread >= 0)
    advice = "a spread is a share of the median, 0 or more"
    yield is_share, f"{field} has spread {spread}", advice
    yield threads is None or threads >= 1, f"{field} has threads {threads}", "use 1 or more"


assert set(ORIGIN_RANK) == set(ORIGINS)


# Machines as TOML files: the catalogue's form, for reading and for sharing one's own.

LARGEST_FILE_BYTES = 4 * 2**20

# What a file may give as `source` without spelling it out under [sources].
COMMON_SOURCES = {
    "mamf": (
        "S. Bekman, Machine Learning Engineering, table of maximum achievable matmul FLOPS: BF16"
        " products of the best shape found, dense (A100, H100: CUDA 12.1; GH200: CUDA 12.5;"
        " MI250X, MI300X: ROCm 6.2)"
    ),
    "default-gpu-launch": (
        "default, not measured on this device: the 4.2 us per launch that arXiv 2009.04598"
        " measured on a V100"
    ),
    **{
        f"{name}-launch": (
            "recorded PyTorch traces of this generation: the shortest hundredth of the launch"
            f" calls takes {micros} us ({what})"
        )
        for name, micros, what in (
            ("ampere", 4.0, "cudaLaunchKernel on an A100"),
            ("hopper", 2.8, "cudaLaunchKernel on an H100, 1465 kernels"),
            ("cdna2", 1.1, "hipLaunchKernel back to back on an MI210, 562 kernels"),
            ("cdna3", 2.3, "hipLaunchKernel back to back on an MI300X, 2995 kernels"),
        )
    },
    "cdna4-launch": (
        "taken from the generation before, whose recorded traces have launch calls of 2.3 us"
    ),
    "blackwell-launch": (
        "taken from the generation before, whose recorded traces have launch calls of 2.8 us;"
        " a recorded B200 trace has none below 4.9 us"
    ),
    "ada-launch": (
        "NVIDIA developer forums, thread 233645 (2022): launching null kernels takes about 3 us"
        " with recent hardware and software"
    ),
}


class _CeilingEntry(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    resource: str
    rate: float | None = None
    seconds_each: float | None = None
    origin: Origin = "user"
    scope: Scope = "all"
    threads: int | None = None
    spread: float | None = None
    source: str = ""
    variants: dict[str, float] = {}


class _MachineFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    schema: str
    name: str
    title: str
    ceilings: list[_CeilingEntry]
    vendor: str = ""
    kind: DeviceKind = "gpu"
    architecture: str = ""
    compute_capability: str | None = None
    launching: Launching = "asynchronous"
    device_names: list[str] = []
    sources: dict[str, str] = {}
    memory: list[MemoryLevel] = []
    kernel_floor_s: float | None = None
    software: dict[str, str] = {}
    emulated: dict[str, str] = {}
    notes: list[str] = []
    achievable: list[_CeilingEntry] = []


def read_machine(path: Path) -> Machine:
    """Read a machine from a TOML file."""
    try:
        if path.exists() and not path.is_file():
            raise InputError("is no file", where=str(path), advice="name a TOML file")
        with path.open("rb") as stream:
            raw = stream.read(LARGEST_FILE_BYTES + 1)
        if len(raw) > LARGEST_FILE_BYTES:
            size = f"over {LARGEST_FILE_BYTES // 2**20} MiB"
            raise InputError(
                f"is too large for a machine file ({size})", str(path), "name a machine's TOML file"
            )
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror})", where=str(path), advice="check the path"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            "is not UTF-8 text", where=str(path), advice="machine files are TOML in UTF-8"
        ) from error
    return parse_machine(text, where=str(path))


def parse_machine(text: str, where: str) -> Machine:
    """Make a machine from the text of a TOML file."""
    try:
        data: dict[str, Any] = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not valid TOML ({error})", where, "mend it there") from error
    check_schema(data.get("schema"), MACHINE_SCHEMA, where)
    try:
        entry = msgspec.convert(data, _MachineFile)
    except msgspec.ValidationError as error:
        advice = "see the machine files in docs/machines.md for the fields"
        raise InputError(str(error), where=where, advice=advice) from error
    return check_machine(_machine_of(entry, where), where)


def _machine_of(entry: _MachineFile, where: str) -> Machine:
    sources = COMMON_SOURCES | entry.sources
    given = {f: getattr(entry, f) for f in Machine.__struct_fields__ if f != "device"}
    given["ceilings"] = [_ceiling_of(c, k, sources, where) for k, c in enumerate(entry.ceilings)]
    given["achievable"] = [
        _ceiling_of(c, k, sources, where) for k, c in enumerate(entry.achievable)
    ]
    given["memory"] = [
        msgspec.structs.replace(level, source=sources.get(level.source, level.source))
        for level in entry.memory
    ]
    return Machine(device=entry.title, **given)


def _ceiling_of(entry: _CeilingEntry, index: int, sources: dict[str, str], where: str) -> Ceiling:
    field = f"ceilings[{index}] ({entry.resource})"
    each = entry.seconds_each
    one = (entry.rate is None) != (each is None)
    is_each = each is None or (each > 0 and entry.resource in (LAUNCH, FAULT))
    either = "give the rate per second, or the seconds that one launch or fault takes"
    only = "it is above 0, and only launch and fault have one; others have a rate"
    checks = (
        (one, f"{field} needs one of 'rate' and 'seconds_each'", either),
        (is_each, f"{field} has seconds_each {each}", only),
    )
    _refuse(checks, where)
    given = {f: getattr(entry, f) for f in Ceiling.__struct_fields__}
    given["rate"] = entry.rate if entry.rate is not None else 1.0 / (each or 1.0)
    return Ceiling(**given | {"source": sources.get(entry.source, entry.source)})


def machine_toml(machine: Machine) -> str:
    """The TOML text of a machine, in the catalogue's form."""
    import tomli_w

    data = msgspec.to_builtins(machine)
    device = data.pop("device")
    data = {"schema": MACHINE_SCHEMA, "name": data.pop("name"), "title": device} | data
    for ceiling in data["ceilings"]:
        if ceiling["resource"] in (LAUNCH, FAULT):
            ceiling["seconds_each"] = 1.0 / ceiling.pop("rate")
    return tomli_w.dumps(_said(data))


def write_machine(machine: Machine, path: Path) -> None:
    """Write a machine as TOML; the file is replaced whole or not at all."""
    write_atomically(path, machine_toml(machine).encode())


def _said(value: Any) -> Any:
    """A value without the parts that say nothing."""
    if isinstance(value, dict):
        kept = {k: _said(v) for k, v in value.items()}
        return {k: v for k, v in kept.items() if v not in (None, "", [], {})}
    if isinstance(value, list):
        return [_said(item) for item in value]
    return value
