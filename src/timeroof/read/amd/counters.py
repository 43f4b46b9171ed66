"""AMD's hardware counters as amounts, and the run that they belong to: dispatches, copies, calls.

FLOPs of a precision P on CDNA = 64 · (ADD + MUL + TRANS + 2·FMA) of SQ_INSTS_VALU_*_P on the
vector units (an instruction counts all 64 lanes, masked ones too) and 512 ·
SQ_INSTS_VALU_MFMA_MOPS_P on the matrix units. Bytes follow rocprof-compute's roofline: L1 64
per TCP_TOTAL_CACHE_ACCESSES, L2 64 per TCP_TCC request, memory from the sizes of L2's
requests to the fabric. One exception: where the counters are called TCC_EA0 (gfx94x and newer)
a read that L1 asks of L2 is 128 bytes; with 64 a copy that streams through would read less
from L2 than from memory. FETCH_SIZE and WRITE_SIZE are defined as bytes / 1024.

A chip counts a few things at a time, so profilers repeat the program. Runs are joined by kernel
name, grid and occurrence (the n-th dispatch of that kernel), never by dispatch number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import add

import polars as pl

from timeroof.core.errors import Note
from timeroof.core.profile import Profile
from timeroof.read.events import Whole, copy_bytes, profile_of, shown_list
from timeroof.read.ranges import linked

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


OCCURRENCE = "_occurrence"
# What tells the dispatches of one kernel from those of others.
KEYS = ["name", "grid"]
UNDER_COUNTERS = Note("Times are from the run under counters, kernel by kernel.", "serialised")


def profile_of_run(
    kernels: list[pl.DataFrame],
    counters: pl.DataFrame | None,
    copies: list[pl.DataFrame],
    calls: pl.DataFrame | None,
    whole: Whole,
) -> Profile:
    """The profile of dispatches with their counters, of copies, and of what launched them."""
    events = pl.concat(kernels, how="diagonal_relaxed") if kernels else pl.DataFrame()
    notes: list[str] = []
    if counters is not None:
        events, notes = counted(events, counters)
    moved = [c for c in copies if c.height]
    events, host = pl.concat([events, *moved], how="diagonal_relaxed"), None
    if calls is not None:
        events, host = linked(events, calls)
    events = events.drop("correlation", "grid", strict=False)
    return profile_of(events, Whole(whole.source, None, (*whole.notes, *notes), host=host))


def copies_of(raw: pl.DataFrame, process: int) -> pl.DataFrame:
    """Copies: `raw` has way, start_ns, end_ns, gpu, stream, correlation, size, maybe device."""
    way = pl.col("way").fill_null("").str.replace("^MEMORY_COPY_", "").str.to_lowercase()
    link, dram = copy_bytes(pl.col("size").cast(pl.Float64), way)
    return raw.with_columns(
        pl.lit("copy").alias("kind"),
        pl.format("Memcpy {}", way.str.replace_all("_", "-")).alias("name"),
        link.alias("link/pcie"),
        dram.alias("byte/dram"),
        pl.lit(process, pl.Int64).alias("process"),
    ).drop("way", "size")


def number_occurrences(table: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Number the dispatches of each kernel in order."""
    return table.with_columns(pl.int_range(pl.len()).over(keys).alias(OCCURRENCE))


def wide(long: pl.DataFrame, keys: list[str] = KEYS) -> pl.DataFrame:
    """One row per (keys, occurrence) from one row per counter; repeats are averaged.

    `long` has the keys, dispatch, counter and value, of one run.
    """
    order = long.select(*keys, "dispatch").unique(maintain_order=True)
    order = number_occurrences(order, keys)
    named = long.join(order, on=[*keys, "dispatch"], how="left", nulls_equal=True)
    index = [*keys, OCCURRENCE]
    table = named.pivot("counter", index=index, values="value", aggregate_function="mean")
    return table.drop("null", strict=False)


def summed_instances(long: pl.DataFrame) -> pl.DataFrame:
    """Counters in long form, summed over the instances of their unit."""
    keys = [*KEYS, "dispatch", "counter"]
    return long.drop_nulls().group_by(keys, maintain_order=True).agg(pl.col("value").sum())


def join_passes(passes: list[pl.DataFrame], keys: list[str] = KEYS) -> pl.DataFrame:
    """Wide tables of several runs side by side; a counter of several runs is averaged."""
    on = [*keys, OCCURRENCE]
    stacked = pl.concat(passes, how="diagonal")
    return stacked.group_by(on, maintain_order=True).agg(pl.exclude(on).mean())


def counted(dispatches: pl.DataFrame, counters: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Dispatches with the amounts that their counters tell, and notes on what is missing."""
    events, lent = lend_counters(dispatches, counters, KEYS)
    events, missing = with_amounts(events)
    return mark_lent(events), [*lent, *missing]


def lend_counters(
    dispatches: pl.DataFrame, counters: pl.DataFrame, keys: list[str]
) -> tuple[pl.DataFrame, list[str]]:
    """Dispatches with their counters; those not measured take the mean of the same kernel's.

    A lent value is marked in column ``_lent``. Returns notes on both cases.
    """
    names = [c for c in counters.columns if c not in (*keys, OCCURRENCE)]
    joined = number_occurrences(dispatches, keys).join(
        counters, on=[*keys, OCCURRENCE], how="left", nulls_equal=True, maintain_order="left"
    )
    known = pl.any_horizontal(pl.col(c).is_not_null() for c in names)
    joined = joined.with_columns((~known).alias("_lent"))
    means = counters.group_by(keys).agg(pl.col(c).mean().alias(f"_mean_{c}") for c in names)
    joined = joined.join(means, on=keys, how="left", nulls_equal=True, maintain_order="left")
    given = {c: pl.when("_lent").then(f"_mean_{c}").otherwise(c) for c in names}
    joined = joined.with_columns(**given)
    notes: list[str] = []
    if lent := joined.filter(pl.col("_lent") & known).height:
        text = (
            f"{lent} of {joined.height} dispatches were not counted themselves: their amounts are"
            " the mean of the same kernel and grid, marked as inferred."
        )
        notes.append(Note(text, "lent-counters"))
    if bare := joined.filter(~known).height:
        text = f"{bare} of {joined.height} dispatches have no counters: amounts unknown."
        notes.append(Note(text, "not-collected", "warning"))
    return joined.drop([f"_mean_{c}" for c in names] + [OCCURRENCE]), notes


def mark_lent(table: pl.DataFrame) -> pl.DataFrame:
    """Origins of lent amounts become ``inferred``."""
    origins = [c for c in table.columns if c.startswith("origin.") and c != "origin.time"]
    known = {c: pl.col("_lent") & pl.col(c).is_not_null() for c in origins}
    marked = {c: pl.when(k).then(pl.lit("inferred")).otherwise(c) for c, k in known.items()}
    return table.with_columns(**marked).drop("_lent")
