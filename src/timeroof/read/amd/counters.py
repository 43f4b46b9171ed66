"""AMD's hardware counters as amounts: FLOPs per precision, bytes per memory level.

FLOPs of a precision P on CDNA = 64 · (ADD + MUL + TRANS + 2·FMA) of SQ_INSTS_VALU_*_P on the
vector units (an instruction counts all 64 lanes, masked ones too) and 512 ·
SQ_INSTS_VALU_MFMA_MOPS_P on the matrix units. Bytes follow rocprof-compute's roofline: L1 64
per TCP_TOTAL_CACHE_ACCESSES, L2 64 per TCP_TCC request, memory from the sizes of L2's
requests to the fabric. One exception: where the counters are called TCC_EA0 (gfx94x and newer)
a read that L1 asks of L2 is 128 bytes; with 64 a copy that streams through would read less
from L2 than from memory. FETCH_SIZE and WRITE_SIZE are defined as bytes / 1024.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import add

import polars as pl

from timeroof.core.errors import Note
from timeroof.read.events import shown_list

KIB = 1024.0
VALU_LANES = 64
MFMA_OPS = 512

_VECTOR = {"F16": "flop/fp16", "F32": "flop/fp32", "F64": "flop/fp64"}
# Every CDNA chip has these matrix counters; the second set only newer ones. FP32 has no
# narrower matrix input on AMD, so it counts as flop/fp32, whose ceiling has a matrix variant.
_MATRIX = {
    "I8": "flop/int8-tensor", "F16": "flop/fp16-tensor", "BF16": "flop/bf16-tensor",
    "F32": "flop/fp32", "F64": "flop/fp64-tensor",
}  # fmt: skip
_NEWER_MATRIX = {"F8": "flop/fp8-tensor", "F6F4": "flop/fp4-tensor", "XF32": "flop/tf32-tensor"}
_VALU_PARTS = (("ADD", 1), ("MUL", 1), ("TRANS", 1), ("FMA", 2))
_CHANNEL = re.compile(r"^(T(?:CC|CP|A|D)_\w+?)(?:_sum)?\[(\d+)\]$")
_KNOWN = re.compile(
    r"(?i)^(SQ_INSTS_VALU_(ADD|MUL|TRANS|FMA)_|SQ_INSTS_VALU_MFMA_MOPS_|TCC_(EA0?_(RD|WR)REQ|BUBBLE)"
    r"|TCP_TCC_\w+_REQ_|TCP_TCC_\w+_REQ$|TCP_TOTAL_CACHE_ACCESSES|(FETCH|WRITE)_?SIZE)"
)


@dataclass
class Amounts:
    """Expressions of amounts over counter columns, and what could not be known."""

    columns: dict[str, pl.Expr] = field(default_factory=dict)
    # Halves of an amount: summed over a row's calls and kept as a label.
    labels: dict[str, pl.Expr] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    @property
    def notes(self) -> list[str]:
        """A sentence that names the counters that were not collected."""
        text = f"Not collected, so what they count is unknown: {shown_list(self.missing, 8)}."
        return [Note(text, "not-collected", "warning")] if self.missing else []


def amd_name(column: str) -> pl.Expr:
    """Kernel names without the loader's suffix (``.kd``, ``[clone .kd]``)."""
    return pl.col(column).str.replace(r"(?: \[clone \.kd\]| \(\.kd\)|\.kd)\s*$", "")


def is_useful(name: str) -> bool:
    """Whether a counter's column takes part in an amount (of thousands, a few dozen do)."""
    return bool(_KNOWN.match(name)) and not re.search(r"LEVEL|STALL|LATENCY|_(NC|UC|CC|RW)_", name)


def merge_channels(table: pl.DataFrame) -> pl.DataFrame:
    """Counters given per channel (``TCC_EA_RDREQ[0]`` …) as sums, where no sum is there."""
    groups: dict[str, list[str]] = {}
    for column in table.columns:
        if found := _CHANNEL.match(column):
            groups.setdefault(f"{found.group(1)}_sum", []).append(column)
    fresh = {name: columns for name, columns in groups.items() if name not in table.columns}
    sums = [pl.sum_horizontal(columns).alias(name) for name, columns in fresh.items()]
    return table.with_columns(sums).drop([c for g in groups.values() for c in g])


def amounts_of(counters: Iterable[str]) -> Amounts:
    """What can be known from these counters."""
    have = frozenset(counters)
    amounts = Amounts()
    _flops(have, amounts)
    _dram(have, amounts)
    _caches(have, amounts)
    return amounts


def with_amounts(table: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """A table with its counter columns replaced by amounts, and notes on what is missing."""
    counters = [c for c in table.columns if is_useful(c)]
    amounts = amounts_of(counters)
    if not counters:
        return table, amounts.notes
    levels = {f"bytes/{c.removeprefix('byte/')}" for c in amounts.columns if "flop/" not in c}
    flops = {"flops" for c in amounts.columns if c.startswith("flop/")}
    measured = pl.when(pl.col(counters[0]).is_not_null()).then(pl.lit("measured"))
    table = table.with_columns(
        *(expr.alias(name) for name, expr in amounts.columns.items()),
        *(expr.alias(f"sum.{name}") for name, expr in amounts.labels.items()),
        *(measured.alias(f"origin.{what}") for what in sorted(levels | flops)),
    )
    return table.drop(counters), amounts.notes


def _flops(have: frozenset[str], amounts: Amounts) -> None:
    """FLOP columns; those with a missing counter are unknown, and none at all if none is there."""
    vector = {p: [f"SQ_INSTS_VALU_{op}_{p}" for op, _ in _VALU_PARTS] for p in _VECTOR}
    matrix = {p: f"SQ_INSTS_VALU_MFMA_MOPS_{p}" for p in (*_MATRIX, *_NEWER_MATRIX)}
    if not have & {*matrix.values(), *(c for group in vector.values() for c in group)}:
        amounts.missing.append("SQ_INSTS_VALU_* (FLOPs)")
        return
    parts: dict[str, list[pl.Expr]] = {}
    for precision, resource in _VECTOR.items():
        weighted = [
            pl.col(c) * (w * VALU_LANES) if c in have else _unknown(c, amounts)
            for c, (_, w) in zip(vector[precision], _VALU_PARTS, strict=True)
        ]
        parts.setdefault(resource, []).extend(weighted)
    for precision, resource in (_MATRIX | _NEWER_MATRIX).items():
        counter = matrix[precision]
        if counter in have:
            parts.setdefault(resource, []).append(pl.col(counter) * MFMA_OPS)
        elif precision in _MATRIX:
            parts.setdefault(resource, []).append(_unknown(counter, amounts))
    for resource, terms in parts.items():
        amounts.columns[resource] = _total(terms)


def _dram(have: frozenset[str], amounts: Amounts) -> None:
    """Bytes between L2 and memory, from request sizes or from FETCH_SIZE and WRITE_SIZE."""
    for ea in ("TCC_EA0", "TCC_EA"):
        reads, reads_32 = f"{ea}_RDREQ_sum", f"{ea}_RDREQ_32B_sum"
        writes, writes_64 = f"{ea}_WRREQ_sum", f"{ea}_WRREQ_64B_sum"
        if {reads, reads_32, writes, writes_64} <= have:
            long = pl.col("TCC_BUBBLE_sum") if "TCC_BUBBLE_sum" in have else pl.lit(0.0)
            full = pl.min_horizontal(writes_64, writes)
            written = 64 * full + 32 * (pl.col(writes) - full)
            read = _read_bytes(pl.col(reads), pl.col(reads_32), long)
            amounts.columns["byte/dram"] = read + written
            return
    fetch, write = (_size(have, what) for what in ("FETCH", "WRITE"))
    if fetch is not None and write is not None:
        amounts.columns["byte/dram"] = fetch + write
        return
    amounts.columns["byte/dram"] = pl.lit(None, pl.Float64)
    if fetch is None and write is None:
        amounts.missing.append("TCC_EA requests or FETCH_SIZE and WRITE_SIZE (memory bytes)")
        return
    amounts.missing.append("WRITE_SIZE (bytes written)" if write is None else "FETCH_SIZE")
    known, way = (fetch, "read") if fetch is not None else (write, "written")
    if known is not None:
        amounts.labels[f"dram_{way}_bytes"] = known


def _read_bytes(reads: pl.Expr, reads_32: pl.Expr, long: pl.Expr) -> pl.Expr:
    """32-, 64- and 128-byte reads; counters of other passes may exceed each other: clamped."""
    short = pl.min_horizontal(reads_32, reads)
    long = pl.min_horizontal(long, reads - short)
    return 32 * short + 128 * long + 64 * (reads - short - long)


def _size(have: frozenset[str], what: str) -> pl.Expr | None:
    """FETCH_SIZE or WRITE_SIZE (also FetchSize, WriteSize), in bytes."""
    names = (f"{what}_SIZE", f"{what.title()}Size")
    return next((pl.col(name) * KIB for name in names if name in have), None)


def _caches(have: frozenset[str], amounts: Amounts) -> None:
    """Bytes of L2 (what L1 asks of it) and of L1; columns only where they were collected."""
    whats = ("READ", "WRITE", "ATOMIC_WITH_RET", "ATOMIC_WITHOUT_RET")
    requests = [f"TCP_TCC_{what}_REQ_sum" for what in whats]
    if have.issuperset(requests):
        read = 128 if any(c.startswith("TCC_EA0") for c in have) else 64
        others = _total([pl.col(c) for c in requests[1:]])
        amounts.columns["byte/l2"] = read * pl.col(requests[0]) + 64 * others
    if "TCP_TOTAL_CACHE_ACCESSES_sum" in have:
        amounts.columns["byte/l1"] = 64 * pl.col("TCP_TOTAL_CACHE_ACCESSES_sum")


def _unknown(counter: str, amounts: Amounts) -> pl.Expr:
    amounts.missing.append(counter)
    return pl.lit(None, pl.Float64)


def _total(terms: list[pl.Expr]) -> pl.Expr:
    return reduce(add, terms).cast(pl.Float64)
