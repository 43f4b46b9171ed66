"""What this CPU can execute: vector widths, fused multiply-add, units for short numbers."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path


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
