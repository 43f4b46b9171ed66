"""What this CPU is: cores, sockets, NUMA nodes, caches, and what it can execute.

Vector widths, fused multiply-add, units for short numbers; and what had to be assumed.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
KIB, MIB = 1024, 1024 * 1024


def cpu_quota(root: Path = ROOT) -> float | None:
    """Cores' worth of CPU time that a container gets (cgroup 2), or None where it gets all."""
    quotas = []
    for folder in _cgroup_folders(root):
        # "quota period" or "max period"
        words = (_text(folder / "cpu.max") or "").split()
        if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]):
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def available_memory(root: Path = ROOT) -> int | None:
    """Bytes that can be had without swapping, or None where the system does not say."""
    limits = [_text(folder / "memory.max") or "" for folder in _cgroup_folders(root)]
    known = [int(limit) for limit in limits if limit.isdigit()]
    free = _meminfo(root, "MemAvailable")
    return min(known + ([free] if free is not None else []), default=None)


def total_memory(root: Path = ROOT) -> int | None:
    """Bytes of memory of the machine, or None where the system does not say."""
    return _meminfo(root, "MemTotal")


def _meminfo(root: Path, key: str) -> int | None:
    lines = (_text(root / "proc/meminfo") or "").splitlines()
    return next((int(line.split()[1]) * KIB for line in lines if line.startswith(key)), None)


def _cgroup_folders(root: Path) -> list[Path]:
    base = root / "sys/fs/cgroup"
    lines = (_text(root / "proc/self/cgroup") or "").splitlines()
    # Inside a container the own folder is often mounted as the root.
    path = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "")
    folder = base / path.strip("/")
    return [folder, *(above for above in folder.parents if above.is_relative_to(base))]


# Cache sizes from macOS, which has no sysfs.


# Performance cores first: that is where the threads of a heavy program run.
_NAMES = {
    1: ("hw.perflevel0.l1dcachesize", "hw.l1dcachesize"),
    2: ("hw.perflevel0.l2cachesize", "hw.l2cachesize"),
    3: ("hw.l3cachesize",),
}


def sysctl_caches(read: Callable[[str], int | None] | None = None) -> list[tuple[int, int]]:
    """Level and size in bytes of each cache that sysctl knows; empty elsewhere."""
    if read is None:
        if platform.system() != "Darwin":
            return []
        read = _read
    sizes = {n: next((v for name in names if (v := read(name))), 0) for n, names in _NAMES.items()}
    return [(level, size) for level, size in sizes.items() if size]


def _read(name: str) -> int | None:
    value = ctypes.c_int64(0)
    size = ctypes.c_size_t(ctypes.sizeof(value))
    library = ctypes.CDLL(None)
    status = library.sysctlbyname(
        name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0)
    )
    return value.value if status == 0 else None


@dataclass(frozen=True)
class Cache:
    """One cache and the CPUs that share it."""

    level: int
    size_bytes: int
    cpus: frozenset[int]


@dataclass(frozen=True)
class Topology:
    """What the machine is made of: one CPU number per physical core that may be used."""

    cores: tuple[int, ...]
    sockets: tuple[tuple[int, ...], ...]
    caches: tuple[Cache, ...]
    model_name: str
    notes: tuple[str, ...] = ()
    caches_known: bool = True

    def capacity(self, level: int, cpus: Iterable[int]) -> int:
        """Bytes of a cache level that these CPUs can reach together."""
        used = frozenset(cpus)
        return sum(c.size_bytes for c in self.caches if c.level == level and c.cpus & used)

    def levels(self) -> list[int]:
        """The cache levels that exist, from the core outwards."""
        return sorted({cache.level for cache in self.caches})


def parse_cpu_list(text: str) -> list[int]:
    """CPU numbers of a kernel list.

    >>> parse_cpu_list("0-2,5\\n")
    [0, 1, 2, 5]
    """
    numbers: list[int] = []
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def read_topology(root: Path = ROOT, allowed: Iterable[int] | None = None) -> Topology:
    """Read the machine's shape; what is not there is assumed and noted."""
    notes: list[str] = []
    if allowed is None:  # a container's cpuset is already taken off
        has_set = hasattr(os, "sched_getaffinity")
        allowed = os.sched_getaffinity(0) if has_set else range(os.cpu_count() or 1)
    cpus = sorted(allowed)
    cores = _within_quota(root, _one_per_core(root, cpus, notes), notes)
    caches = _caches(root, cpus)
    if not caches and root == ROOT:
        caches = _shared_out(sysctl_caches(), cpus)
    known = bool(caches)
    if not known:
        private = [(1, 32 * KIB), (2, MIB)]
        caches = [Cache(*each, frozenset([cpu])) for each in private for cpu in cores]
        caches.append(Cache(3, 64 * MIB, frozenset(cores)))
        notes.append(
            "The system does not say its cache sizes. 32 KiB and 1 MiB per core and 64 MiB for all"
            " cores were assumed."
        )
    shape = tuple(cores), _sockets(root, cores), tuple(caches)
    return Topology(*shape, _model_name(root), tuple(notes), known)


def numa_nodes(root: Path = ROOT) -> dict[int, frozenset[int]]:
    """The CPUs of every memory node that has some; empty where the system does not say."""
    found = {}
    for folder in (root / "sys/devices/system/node").glob("node[0-9]*"):
        cpus = _cpus_in(folder / "cpulist")
        if cpus:
            found[int(folder.name.removeprefix("node"))] = frozenset(cpus)
    return dict(sorted(found.items()))


def _cpu_folder(root: Path, cpu: int) -> Path:
    return root / "sys/devices/system/cpu" / f"cpu{cpu}"


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


def _cpus_in(path: Path) -> list[int] | None:
    text = _text(path)
    try:
        return parse_cpu_list(text) if text else None
    except ValueError:
        return None


def _one_per_core(root: Path, cpus: list[int], notes: list[str]) -> list[int]:
    chosen: list[int] = []
    seen: set[int] = set()
    unknown = False
    for cpu in cpus:
        folder = _cpu_folder(root, cpu) / "topology"
        siblings = _cpus_in(folder / "core_cpus_list") or _cpus_in(folder / "thread_siblings_list")
        unknown = unknown or siblings is None
        if cpu not in seen:
            chosen.append(cpu)
        seen.update(siblings or [cpu])
    if unknown:
        notes.append("The system does not say which CPUs share a core. Each counts as a core.")
    return chosen


def _within_quota(root: Path, cores: list[int], notes: list[str]) -> list[int]:
    quota = cpu_quota(root)
    if quota is None or quota >= len(cores):
        return cores
    kept = max(1, int(quota))
    notes.append(
        f"A CPU quota of {quota:g} cores is set (container), so {kept} of {len(cores)} cores"
        f" {'was' if kept == 1 else 'were'} measured."
    )
    return cores[:kept]


def _sockets(root: Path, cores: list[int]) -> tuple[tuple[int, ...], ...]:
    groups: dict[str, list[int]] = {}
    for cpu in cores:
        package = _text(_cpu_folder(root, cpu) / "topology/physical_package_id")
        # ARM boards say -1 where they have no sockets.
        groups.setdefault(package or "-1", []).append(cpu)
    return tuple(tuple(group) for group in groups.values())


def _caches(root: Path, cpus: list[int]) -> list[Cache]:
    found: dict[tuple[int, frozenset[int]], Cache] = {}
    for cpu in cpus:
        for folder in sorted((_cpu_folder(root, cpu) / "cache").glob("index[0-9]*")):
            cache = _cache(folder, cpu)
            if cache is not None:
                found[cache.level, cache.cpus] = cache
    return sorted(found.values(), key=lambda cache: (cache.level, min(cache.cpus)))


def _cache(folder: Path, cpu: int) -> Cache | None:
    level, kind, size = (_text(folder / name) for name in ("level", "type", "size"))
    if kind == "Instruction" or not (level and size and level.isdigit()):
        return None
    size_bytes = parse_size(size)
    if size_bytes is None or size_bytes <= 0:
        return None
    cpus = _cpus_in(folder / "shared_cpu_list") or [cpu]
    return Cache(int(level), size_bytes, frozenset(cpus))


def parse_size(text: str) -> int | None:
    """Bytes of the kernel's spelling of a size.

    >>> parse_size("32K"), parse_size("1024K"), parse_size("2M"), parse_size("?")
    (32768, 1048576, 2097152, None)
    """
    unit = {"K": KIB, "M": MIB, "G": KIB * MIB}.get(text[-1:], 1)
    digits = text.rstrip("KMG")
    return int(digits) * unit if digits.isdigit() else None


def _shared_out(sizes: list[tuple[int, int]], cpus: list[int]) -> list[Cache]:
    """Caches of which only level and size are known: the first is each core's own."""
    return [
        Cache(level, size, frozenset(group))
        for level, size in sizes
        for group in ([[cpu] for cpu in cpus] if level == 1 else [cpus])
    ]


def is_virtual(root: Path = Path("/")) -> bool:
    """Whether the processor says that a hypervisor lends it; only x86 says so."""
    lines = (_text(root / "proc/cpuinfo") or "").splitlines()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return "hypervisor" in flags.split()


def _model_name(root: Path) -> str:
    for line in (_text(root / "proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "cpu model") and value.strip():
            return value.strip()
    return ""


@dataclass(frozen=True)
class Features:
    """The parts of an instruction set that the probe needs to know."""

    architecture: str
    widths_bits: tuple[int, ...]
    fma: bool
    # Precision → name of the unit that multiplies it, for those that have one.
    units: dict[str, str]


# Precision, LLVM's name of the extension, resource it feeds, unit's name. The matrix units
# come first: where a CPU has one, oneDNN uses it.
_UNITS = (
    ("bf16", "amx-bf16", "bf16-tensor", "AMX"),
    ("int8", "amx-int8", "int8-tensor", "AMX"),
    ("fp16", "amx-fp16", "fp16-tensor", "AMX"),
    ("bf16", "sme", "bf16-tensor", "SME"),
    ("int8", "sme", "int8-tensor", "SME"),
    ("bf16", "avx512bf16", "bf16", "AVX512_BF16"),
    ("fp16", "avx512fp16", "fp16", "AVX512_FP16"),
    ("int8", "avx512vnni", "int8", "AVX512_VNNI"),
    ("int8", "avxvnni", "int8", "AVX_VNNI"),
    ("bf16", "bf16", "bf16", "Arm BF16"),
    ("fp16", "fullfp16", "fp16", "Arm FP16"),
    ("int8", "i8mm", "int8", "Arm I8MM"),
    ("int8", "dotprod", "int8", "Arm DotProd"),
)


# How Linux calls in /proc/cpuinfo what LLVM calls otherwise, for ARM.
_LINUX_NAMES = {"asimddp": "dotprod", "asimdhp": "fullfp16"}


def read_features(architecture: str, extensions: Set[str], root: Path = Path("/")) -> Features:
    """What a CPU of an architecture with these extensions (LLVM's names) can do."""
    if architecture == "aarch64":
        extensions = extensions | _arm_extensions(root)
    widths, fma = _widths(architecture, extensions, root), architecture != "x86_64"
    return Features(architecture, tuple(widths), fma or "fma" in extensions, _units(extensions))


def _widths(architecture: str, extensions: Set[str], root: Path) -> list[int]:
    if architecture == "x86_64":
        wide = [(256, "avx"), (512, "avx512f")]
        return [128, *(bits for bits, name in wide if name in extensions)]
    if architecture == "aarch64":
        scalable = _sve_bits(root) if "sve" in extensions else 0
        return [128, *([scalable] if scalable > 128 else [])]
    return [128]


def _arm_extensions(root: Path) -> frozenset[str]:
    """The extensions that Linux lists, since LLVM does not tell them on every ARM system."""
    try:
        lines = (root / "proc/cpuinfo").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return frozenset()
    words = next((x.partition(":")[2].split() for x in lines if x.startswith("Features")), [])
    return frozenset(_LINUX_NAMES.get(word, word) for word in words)


def _sve_bits(root: Path) -> int:
    try:
        return int((root / "proc/sys/abi/sve_default_vector_length").read_text()) * 8
    except (OSError, ValueError):
        return 0


def _units(extensions: Set[str]) -> dict[str, str]:
    """Resource's precision → unit; a matrix unit hides the vector unit for the same numbers."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for precision, extension, resource, unit in _UNITS:
        if extension in extensions and precision not in taken:
            taken.add(precision)
            found[resource] = unit
    return found


# What a core can do in one cycle: for theoretical ceilings and to catch impossible figures.
#
# Bits that multiply-add per cycle (all ports together), bytes that the load and the store ports
# move per cycle, and how many memory accesses of full width start per cycle. Figures are from
# the makers' software optimisation guides (AMD 57647 for Zen 4, Intel's Optimization Reference
# Manual, Arm's guides per core), uops.info and agner.org/optimize. A CPU that is not here gets
# no theoretical ceiling and no plausibility check, and a note says so.


@dataclass(frozen=True)
class Microarchitecture:
    """Limits of one core per cycle."""

    title: str
    fma_bits: int
    load_bytes: int
    store_bytes: int
    # Full-width loads and stores together that can start in one cycle.
    accesses: int
    access_bytes: int
    # Bytes between L1 and L2 per cycle, both directions together; None: not known for sure.
    l2_bytes: int | None = None
    # Operations per cycle of the units for short numbers, as resource's precision → number.
    short_operations: tuple[tuple[str, int], ...] = ()

    def flops_per_cycle(self, precision: str) -> int:
        """FLOPs per cycle with FMA = 2."""
        return self.fma_bits // {"fp64": 64, "fp32": 32}[precision] * 2

    def bytes_per_cycle(self, loads: int, stores: int) -> float:
        """Most bytes per cycle for a kernel that does so many loads and stores at a time."""
        size = self.access_bytes
        cycles = max(
            loads * size / self.load_bytes,
            stores * size / self.store_bytes,
            (loads + stores) / self.accesses,
        )
        return (loads + stores) * size / cycles


# By LLVM's names of the host CPU.
_CORES = (
    ("znver1", Microarchitecture("AMD Zen", 256, 32, 16, 2, 16)),
    ("znver2", Microarchitecture("AMD Zen 2", 512, 64, 32, 3, 32, 64)),
    ("znver3", Microarchitecture("AMD Zen 3", 512, 64, 32, 3, 32, 64)),
    # 512-bit instructions take two turns through 256-bit units, so that the width adds nothing;
    # VDPBF16PS and VPDPBUSD start one 512-bit instruction per cycle.
    (
        "znver4",
        Microarchitecture("AMD Zen 4", 512, 64, 32, 3, 32, 64, (("bf16", 64), ("int8", 128))),
    ),
    ("znver5", Microarchitecture("AMD Zen 5 (full 512-bit units)", 1024, 128, 64, 4, 64)),
    ("haswell broadwell", Microarchitecture("Intel Haswell/Broadwell", 512, 64, 32, 3, 32)),
    ("skylake", Microarchitecture("Intel Skylake (client)", 512, 64, 32, 3, 32)),
    (
        "skylake-avx512 cascadelake cooperlake",
        Microarchitecture("Intel Skylake-SP family (two 512-bit FMA units)", 1024, 128, 64, 3, 64),
    ),
    ("icelake-client tigerlake", Microarchitecture("Intel Ice Lake (client)", 512, 128, 64, 4, 64)),
    ("icelake-server", Microarchitecture("Intel Ice Lake-SP", 1024, 128, 64, 4, 64)),
    ("alderlake raptorlake", Microarchitecture("Intel Golden Cove (client)", 512, 96, 64, 5, 32)),
    (
        "sapphirerapids emeraldrapids graniterapids",
        Microarchitecture("Intel Golden Cove (server) and after", 1024, 128, 64, 4, 64),
    ),
    ("neoverse-n1", Microarchitecture("Arm Neoverse N1", 256, 32, 32, 2, 16)),
    ("neoverse-n2", Microarchitecture("Arm Neoverse N2", 256, 48, 32, 3, 16)),
    ("neoverse-v1 neoverse-512tvb", Microarchitecture("Arm Neoverse V1", 512, 64, 32, 3, 32)),
    ("neoverse-v2", Microarchitecture("Arm Neoverse V2", 512, 48, 32, 3, 16)),
    (
        "apple-m1 apple-m2 apple-m3",
        Microarchitecture("Apple M (performance core)", 512, 48, 32, 4, 16),
    ),
    ("a64fx", Microarchitecture("Fujitsu A64FX", 1024, 128, 64, 2, 64)),
)
TABLE = {name: core for names, core in _CORES for name in names.split()}


def find_microarchitecture(llvm_name: str) -> Microarchitecture | None:
    """The entry of a CPU by LLVM's name for it, or None."""
    return TABLE.get(llvm_name)
