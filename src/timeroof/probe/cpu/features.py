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
    return Features(
        architecture=architecture,
        widths_bits=tuple(_widths(architecture, extensions, root)),
        fma=architecture != "x86_64" or "fma" in extensions,
        units=_units(extensions),
    )


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
    """Length of scalable vectors, which differs from CPU to CPU."""
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
