"""What Nsight Compute's metrics mean: one table of names, and the factors of each architecture.

A *role* is what a metric tells of a launch: its time, its clock, instructions of one kind,
bytes at one level. Several metrics can play one role; the first in the list is preferred.
Sources: Nsight Compute's Profiling Guide (metrics), NERSC's roofline method, and the
method paper (arXiv 2009.04598): FLOPs = add + mul + 2·fma, and on Volta 512 per tensor
instruction.

FP16 is counted so too. NVIDIA gives both weights: its table that translates nvprof's metrics
has hadd + hmul + 2·hfma, its half-precision roofline chart takes twice as much (metrics
derived__…_hadd_pred_on_x2, …_hfma_pred_on_x4), as the instructions (HADD2, HFMA2) have two
lanes. The counter does not tell whether a program used both. One lane is certain, so that the
bound stays a lower one, and the published numbers are those of the paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

# Operations of tensor cores: which of Nsight Compute's many paths to add up.
# A path is told by its source type and, more narrowly, by its instruction, its destination type
# and its sparsity: `sm__ops_path_tensor[_op_hmma]_src_fp16[_dst_fp32][_sparsity_off].sum`. A
# narrower path is a part of a wider one, so both are never added.
_PATH = re.compile(
    r"sm__ops_path_tensor(?:_op_(?P<op>[a-z0-9]+))?_src_(?P<source>[a-z]+\d+(?:_[a-z]+\d+)*?)"
    r"(?:_dst_(?P<destination>[a-z]+\d+))?(?:_sparsity_(?P<sparsity>on|off))?\.sum"
)

# Which precision a source type counts as; int4 and binary have no resource. Paths that FP4, FP6
# and FP8 share run at one rate, FP8's (PTX: tcgen05.mma, kind f8f6f4).
TENSOR_SOURCES = {
    "fp64": "fp64-tensor", "tf32": "tf32-tensor", "fp16": "fp16-tensor", "bf16": "bf16-tensor",
    "fp8": "fp8-tensor", "fp6": "fp8-tensor", "fp4_fp6": "fp8-tensor",
    "fp4_fp6_fp8": "fp8-tensor", "fp4": "fp4-tensor", "int8": "int8-tensor",
}  # fmt: skip
# Sources that old and new instructions of a chip both work on.
_OLD_AND_NEW = ("fp16", "bf16", "tf32", "int8")


class TensorPath(NamedTuple):
    """A path: its source type, and what narrows it."""

    source: str
    op: str | None = None
    destination: str | None = None
    sparsity: str | None = None

    @property
    def precision(self) -> str | None:
        """The precision that its operations count as."""
        return TENSOR_SOURCES.get(self.source)

    @property
    def width(self) -> tuple[int, bool, bool]:
        """The widest first; of equals, types before sparsity before instructions."""
        narrowed = (self.op, self.destination, self.sparsity)
        return sum(n is not None for n in narrowed), self.op is not None, self.sparsity is not None

    def is_apart_from(self, other: TensorPath) -> bool:
        """Whether no operation is in both."""
        pairs = zip(self[1:], other[1:], strict=True)
        return self.source != other.source or any(a and b and a != b for a, b in pairs)


def path_of(metric: str) -> TensorPath | None:
    """The path that a metric counts.

    >>> path_of("sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32_sparsity_off.sum")
    TensorPath(source='bf16', op='hgmma', destination='fp32', sparsity='off')
    >>> path_of("sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp32.sum").precision
    'fp8-tensor'
    """
    match = _PATH.fullmatch(metric)
    return TensorPath(**match.groupdict()) if match else None


def apart(paths: Iterable[TensorPath]) -> list[TensorPath]:
    """The widest of the paths that have no operation in common.

    >>> [p.destination for p in apart([TensorPath("fp16"), TensorPath("fp16", None, "fp32")])]
    [None]
    """
    chosen: list[TensorPath] = []
    for path in sorted(paths, key=lambda p: (p.width, str(p))):
        if all(path.is_apart_from(other) for other in chosen):
            chosen.append(path)
    return chosen


def is_whole(paths: list[TensorPath], capability: str | None) -> bool:
    """Whether paths of one source count all of its operations on a chip.

    Hopper has warpgroup instructions (…gmma) and datacenter Blackwell tensor-memory ones (utc…)
    beside the old ones: one kind alone leaves the other's work out.
    """
    ops = {p.op for p in paths if p.op is not None}
    if any(p.op is None for p in paths):
        return True
    new = {op for op in ops if "gmma" in op or op.startswith("utc")}
    if capability is not None and not 9 <= int(capability.partition(".")[0]) < 12:
        return True
    return bool(new) and (bool(ops - new) or paths[0].source not in _OLD_AND_NEW)


# Bytes of one sector, the smallest piece that L1, L2 and DRAM move.
SECTOR_BYTES = 32

VECTOR_FAMILIES = {"fp64": "d", "fp32": "f", "fp16": "h"}
INSTRUCTIONS = ("add", "mul", "fma")
# Two FP32 operations in one instruction of a thread, on the chips that have them: NVIDIA's own
# roofline rule (SOLFPRoofline.py of Nsight Compute 2025) adds them for 10.0 and 10.3 alone.
PACKED_INSTRUCTIONS = ("fadd2", "fmul2", "ffma2")
PACKED_CAPABILITIES = ("10.0", "10.3")

# FLOPs of one warp-wide tensor instruction, where all instructions do the same work. Later
# chips have instructions of many sizes, so their counts say nothing about FLOPs.
TENSOR_FLOPS_PER_INSTRUCTION = {"7.0": 512.0, "7.2": 512.0}
FIRST_TENSOR_CAPABILITY = (7, 0)

ARCHITECTURES = {
    "pascal": "6.0", "volta": "7.0", "turing": "7.5", "ampere": "8.0", "ada": "8.9",
    "ada lovelace": "8.9", "hopper": "9.0", "blackwell": "10.0",
}  # fmt: skip

# Role -> metrics that play it, the best first, and the kind of unit they have.
_TIME = ("gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_duration.max", "time")
_UNITS = (("sm", "avg"), ("smsp", "avg"), ("sm", "max"), ("gpc", "avg"), ("gpc", "max"))
_CYCLES = tuple(f"{unit}__cycles_elapsed.{over}" for unit, over in _UNITS)
_CLOCK = tuple(f"{metric}.per_second" for metric in _CYCLES)
_DRAM_RATE = ("dram__bytes.sum.per_second", "DRAM Bandwidth", "Memory Throughput")
_PEAK = "avg.pct_of_peak_sustained_elapsed"
_PIPES = ("sm__{}.sum", "smsp__{}.sum", "sm__{}_op_hmma.sum")
_TENSOR = tuple(pipe.format("inst_executed_pipe_tensor") for pipe in _PIPES)
NAMED_ROLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "time": ("second", _TIME),
    "cycles": ("count", _CYCLES),
    "clock": ("1/second", _CLOCK),
    # What the sections show, rounded to be read: the last resort.
    "shown_time": ("second", ("Duration",)),
    "shown_cycles": ("count", ("Elapsed Cycles",)),
    "shown_clock": ("1/second", ("SM Frequency",)),
    "dram": ("byte", ("dram__bytes.sum",)),
    "dram_read": ("byte", ("dram__bytes_read.sum", "dram__bytes_op_read.sum", "FetchSize")),
    "dram_write": ("byte", ("dram__bytes_write.sum", "dram__bytes_op_write.sum", "WriteSize")),
    "dram_rate": ("byte/second", _DRAM_RATE),
    "dram_sectors_read": ("count", ("dram__sectors_read.sum", "dram__sectors_op_read.sum")),
    "dram_sectors_write": ("count", ("dram__sectors_write.sum", "dram__sectors_op_write.sum")),
    "l2": ("byte", ("lts__t_bytes.sum",)),
    "l2_sectors": ("count", ("lts__t_sectors.sum",)),
    "l2_sectors_read": ("count", ("lts__t_sectors_op_read.sum",)),
    "l2_sectors_write": ("count", ("lts__t_sectors_op_write.sum",)),
    "l2_sectors_atom": ("count", ("lts__t_sectors_op_atom.sum",)),
    "l2_sectors_red": ("count", ("lts__t_sectors_op_red.sum",)),
    "l1": ("byte", ("l1tex__t_bytes.sum",)),
    "l1_sectors": ("count", ("l1tex__t_sectors.sum",)),
    "tensor_inst": ("count", _TENSOR),
    # Nsight Compute's own verdict, in percent of the peak: of the SMs, of memory as a whole, and
    # of its parts where the whole was not collected. Sections call them differently over the years.
    "compute_pct": ("%", (f"sm__throughput.{_PEAK}", "Compute (SM) Throughput",
                          "Compute (SM) [%]", "SM [%]", "SOL SM")),
    "memory_pct": ("%", (f"gpu__compute_memory_throughput.{_PEAK}", "Memory Throughput",
                         "Memory [%]", "SOL Memory")),
    "dram_pct": ("%", (f"dram__throughput.{_PEAK}", f"gpu__dram_throughput.{_PEAK}",
                       "DRAM Throughput", "SOL DRAM")),
    "l2_pct": ("%", (f"lts__throughput.{_PEAK}", "L2 Cache Throughput", "SOL L2 Cache")),
    "l1_pct": ("%", (f"l1tex__throughput.{_PEAK}", "L1/TEX Cache Throughput",
                     "SOL L1/TEX Cache")),
}  # fmt: skip

_NAMED, _PERCENTAGES = (
    {
        metric: (role, rank, kind)
        for role, (kind, metrics) in NAMED_ROLES.items()
        for rank, metric in enumerate(metrics)
        if (kind == "%") == percent
    }
    for percent in (False, True)
)
_SASS = re.compile(
    r"(sm|smsp)__sass_thread_inst_executed_op_([dfh](?:add|mul|fma)|f(?:add|mul|fma)2)_pred_on\.sum"
    r"(\.per_cycle_elapsed)?"
)
_SASS_OPS = re.compile(
    r"(sm|smsp)__sass_thread_inst_executed_ops_([dfh])add_\2mul_\2fma_pred_on\.sum"
)
_SHOWN_SASS = re.compile(
    r"Predicated-On ([DFH](?:ADD|MUL|FMA)|F(?:ADD|MUL|FMA)2) Thread Instructions Executed Per Cycle"
)


class Role(NamedTuple):
    """What a metric tells, how much it is preferred (0 is best), and its kind of unit."""

    name: str
    rank: int
    kind: str


@lru_cache(maxsize=65536)
def role_of(metric: str, unit: str = "") -> Role | None:
    """The role of a metric, None where it says nothing that counts here.

    Sections give one name to a rate and to a percentage: the unit tells which one it is.

    >>> role_of("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum")
    Role(name='ffma', rank=1, kind='any')
    >>> role_of("Memory Throughput", "%").name, role_of("Memory Throughput", "Gbyte/second").name
    ('memory_pct', 'dram_rate')
    """
    percent = unit.strip() == "%" or metric.endswith((_PEAK, "[%]"))
    if named := (_PERCENTAGES if percent else _NAMED).get(metric):
        return Role(*named)
    if match := _SASS.fullmatch(metric):
        rank = 0 if match[1] == "sm" else 1
        return Role(match[2] + ("_per_cycle" if match[3] else ""), rank, "any")
    if match := _SASS_OPS.fullmatch(metric):
        return Role(f"{match[2]}_ops", 0 if match[1] == "sm" else 1, "any")
    if match := _SHOWN_SASS.fullmatch(metric):
        return Role(f"{match[1].lower()}_per_cycle", 2, "any")
    if path_of(metric) is not None:
        return Role(f"tensor:{metric}", 0, "any")
    return None


# Names that a library gave its kernels for one generation of chips. Volta's run on later
# chips too, so they count only where no name of a later chip is beside them.
_GENERATIONS = (
    ("10.0", re.compile(r"sm100|blackwell|cutlass3x_sm10", re.IGNORECASE)),
    ("9.0", re.compile(r"sm90|hopper|wgmma", re.IGNORECASE)),
    ("8.0", re.compile(r"ampere_|sm8[069]|cutlass_80|tensorop_\w*s?16816", re.IGNORECASE)),
    ("7.5", re.compile(r"turing_|sm75|cutlass_75|_?[hs]1688", re.IGNORECASE)),
    ("7.0", re.compile(r"volta_|sm70|cutlass_70|[hs]884", re.IGNORECASE)),
)


# Longer names are templates of templates, or no names.
_TELLING_CHARACTERS = 4000


def capability_of_names(names: list[str]) -> str | None:
    """The compute capability that kernel names reveal: that of the latest chip they are for.

    >>> capability_of_names(["volta_scudnn_128x32_relu", "fill"]), capability_of_names(["fill"])
    ('7.0', None)
    """
    telling = [name[:_TELLING_CHARACTERS] for name in names]
    return next((cc for cc, known in _GENERATIONS if any(map(known.search, telling))), None)


def capability_of(architecture: str | None) -> str | None:
    """A compute capability from what a caller or a file says: "8.0", "sm_80" or "Ampere"."""
    if architecture is None:
        return None
    text = architecture.strip().lower().removeprefix("nvidia ")
    if text in ARCHITECTURES:
        return ARCHITECTURES[text]
    match = re.fullmatch(r"(?:sm_?)?(\d{1,2})\.?(\d)[a-f]?", text)
    return f"{match[1]}.{match[2]}" if match else None


def has_tensor_cores(capability: str | None) -> bool:
    """Whether a chip may have tensor cores; an unknown one may."""
    if capability is None:
        return True
    major, _, minor = capability.partition(".")
    return (int(major), int(minor or 0)) >= FIRST_TENSOR_CAPABILITY
