"""From the roles of Nsight Compute's metrics to time, FLOPs and bytes of every launch."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from timeroof.core.errors import Note
from timeroof.core.units import FLOPS_PER_FMA
from timeroof.read.nvidia import ncu_metrics
from timeroof.work.names import name_facts_table


@dataclass
class Amounts:
    """Columns to add to a table of launches, and what has to be said about them."""

    columns: list[pl.Expr] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def add(self, name: str, value: pl.Expr) -> None:
        """A column by its name."""
        self.columns.append(value.cast(pl.Float64).alias(name))

    def say(self, code: str, text: str) -> None:
        """A note."""
        self.notes.append(Note(text, code))

    def origin(self, what: str, origin: str) -> None:
        """How an amount came about."""
        self.columns.append(pl.lit(origin).alias(f"origin.{what}"))


def time_of(roles: set[str], *, summed: bool) -> pl.Expr | None:
    """Seconds of a launch from the best metrics that it has, None where none tells them."""
    ways = "time, cycles clock, shown_time, shown_cycles shown_clock, cycles shown_clock"
    known = [_quotient(way) for w in ways.split(", ") if roles.issuperset(way := w.split())]
    if not known:
        return None
    # In a table of sums, cycles and clocks are summed: their quotient is the mean time.
    factor = pl.col("calls") if summed and "time" not in roles else pl.lit(1.0)
    return pl.coalesce(known) * factor


def _quotient(columns: list[str]) -> pl.Expr:
    if len(columns) == 1:
        return pl.col(columns[0])
    over, under = (pl.col(c) for c in columns)
    return pl.when(under > 0).then(over / under)


def amounts_of(table: pl.DataFrame, roles: set[str], capability: str | None) -> Amounts:
    """FLOPs and bytes that the roles of launches tell on a chip of a compute capability.

    A family of instructions that was not collected is unknown, not zero: its column is
    null. FP64 alone is taken as unused, as deep learning does not use it, with a note.
    """
    amounts = Amounts()
    flops = _vector_flops(roles, capability, amounts)
    flops |= _tensor_flops(roles, capability, amounts)
    if "tensor_inst" in roles and not any(r.startswith("tensor:") for r in roles):
        _note_tensor_instructions(table, capability, amounts)
    if flops:
        _unknown_families(flops, capability, amounts)
    else:
        amounts.say("no-flops", "No counters of FLOPs were collected: FLOPs are unknown.")
    for precision, value in flops.items():
        if value is not None:
            amounts.add(f"flop/{precision}", value)
    _bytes(roles, amounts)
    _pipes(roles, amounts)
    return amounts


def _vector_flops(
    roles: set[str], capability: str | None, amounts: Amounts
) -> dict[str, pl.Expr | None]:
    flops: dict[str, pl.Expr | None] = {}
    inferred = False
    for precision, letter in ncu_metrics.VECTOR_FAMILIES.items():
        counts = [f"{letter}{i}" for i in ncu_metrics.INSTRUCTIONS]
        if f"{letter}_ops" in roles:
            flops[precision] = pl.col(f"{letter}_ops")
        elif roles.issuperset(counts):
            flops[precision] = _add_mul_fma(counts)
        elif roles.issuperset(f"{c}_per_cycle" for c in counts) and _cycles(roles) is not None:
            flops[precision] = _add_mul_fma([f"{c}_per_cycle" for c in counts]) * _cycles(roles)
            inferred = True
        elif collected := [c for c in counts if c in roles]:
            flops[precision] = pl.lit(None)
            absent = [c for c in counts if c not in roles]
            which = f"{', '.join(collected)} were collected, {', '.join(absent)} were not"
            amounts.say("not-collected", f"{precision.upper()} FLOPs are unknown: {which}.")
    fp32 = flops.get("fp32")
    if fp32 is not None:
        flops["fp32"] = _with_packed(fp32, roles, capability, amounts)
    if inferred:
        why = "the counts themselves were not collected"
        amounts.say("inferred-flops", f"FLOPs are instructions per cycle times cycles: {why}.")
    if flops:
        amounts.origin("flops", "inferred" if inferred else "measured")
    return flops


def _with_packed(
    fp32: pl.Expr, roles: set[str], capability: str | None, amounts: Amounts
) -> pl.Expr:
    """FP32 FLOPs with those of instructions that do two at a time."""
    for suffix in ("", "_per_cycle"):
        counts = [f"{name}{suffix}" for name in ncu_metrics.PACKED_INSTRUCTIONS]
        if not roles.issuperset(counts):
            continue
        cycles = pl.lit(1.0) if not suffix else _cycles(roles)
        if cycles is not None:
            packed = 2.0 * _add_mul_fma(counts) * cycles
            # A chip without them says "n/a".
            has_them = capability in ncu_metrics.PACKED_CAPABILITIES
            return fp32 + (packed if has_them else packed.fill_null(0.0))
    if capability in ncu_metrics.PACKED_CAPABILITIES:
        what = "Packed FP32 instructions (fadd2, fmul2, ffma2) were not all collected"
        amounts.say("packed-fp32", f"{what}: FP32 FLOPs of kernels that use them are too low.")
        some = any(r.startswith(ncu_metrics.PACKED_INSTRUCTIONS) for r in roles)
        return pl.lit(None) if some else fp32
    return fp32


def _add_mul_fma(columns: list[str]) -> pl.Expr:
    add, mul, fma = (pl.col(c) for c in columns)
    return add + mul + FLOPS_PER_FMA * fma


def _cycles(roles: set[str]) -> pl.Expr | None:
    known = [pl.col(c) for c in ("cycles", "shown_cycles") if c in roles]
    return pl.coalesce(known) if known else None


def _tensor_flops(
    roles: set[str], capability: str | None, amounts: Amounts
) -> dict[str, pl.Expr | None]:
    by_source: dict[str, list[ncu_metrics.TensorPath]] = {}
    roles_of: dict[ncu_metrics.TensorPath, str] = {}
    for role in sorted(r for r in roles if r.startswith("tensor:")):
        path = ncu_metrics.path_of(role.removeprefix("tensor:"))
        if path is None or path.precision is None:
            name = role.removeprefix("tensor:")
            amounts.say("no-ceiling", f"{name} is not counted: no such ceiling.")
            continue
        roles_of[path] = role
        by_source.setdefault(path.source, []).append(path)
    flops: dict[str, list[pl.Expr]] = {}
    for source, paths in by_source.items():
        chosen = ncu_metrics.apart(paths)
        value = _some_known_sum([pl.col(roles_of[p]) for p in chosen])
        if not ncu_metrics.is_whole(chosen, capability):
            value = pl.lit(None)
            amounts.say("tensor-paths", _some_instructions_only(source, chosen))
        flops.setdefault(str(chosen[0].precision), []).append(value)
    if flops:
        # A path that FP8 shares with FP4 may contain the one of FP8 alone: not added.
        return {p: v[0] if len(v) == 1 else pl.max_horizontal(v) for p, v in flops.items()}
    if "tensor_inst" in roles:
        return {"fp16-tensor": _by_instruction(capability)}
    return {}


def _some_instructions_only(source: str, paths: list[ncu_metrics.TensorPath]) -> str:
    names = ", ".join(sorted({str(p.op) for p in paths}))
    return (
        f"Tensor operations on {source.upper()} are unknown: only those of {names} were collected,"
        f" and the chip may have others. Collect sm__ops_path_tensor_src_{source}*."
    )


def _some_known_sum(columns: list[pl.Expr]) -> pl.Expr:
    """The sum; a path that this chip does not have ("n/a") adds nothing to the others."""
    known = pl.any_horizontal(c.is_not_null() for c in columns)
    return pl.when(known).then(pl.sum_horizontal(columns))


def _by_instruction(capability: str | None) -> pl.Expr:
    """FLOPs from tensor instructions: none is none on every chip, more only with a fixed size."""
    count = pl.col("tensor_inst")
    factor = ncu_metrics.TENSOR_FLOPS_PER_INSTRUCTION.get(capability or "")
    return pl.when(count == 0).then(0.0) if factor is None else count * factor


def _note_tensor_instructions(
    table: pl.DataFrame, capability: str | None, amounts: Amounts
) -> None:
    """Say which launches have unknown FLOPs because their tensor instructions have no size."""
    facts = name_facts_table(table["name"])
    # A kernel whose name tells that it uses no tensor cores has no FLOPs there.
    without = facts.filter(~pl.col("tensor_core"))["name"].to_list()
    counts = (pl.col("tensor_inst") > 0) & ~pl.col("name").is_in(without)
    some = table.filter(counts).height
    if capability in ncu_metrics.TENSOR_FLOPS_PER_INSTRUCTION or not some:
        return
    chip = f"compute capability {capability}" if capability else "a chip that no file names"
    advice = "" if capability else ", or name the chip with --machine"
    amounts.say(
        "tensor-instructions",
        f"{some} of {table.height} launches executed tensor instructions, which have no fixed"
        f" number of FLOPs on {chip}: their FLOPs are unknown. Collect sm__ops_path_tensor_*"
        f" instead{advice}.",
    )


def _unknown_families(
    flops: dict[str, pl.Expr | None], capability: str | None, amounts: Amounts
) -> None:
    """Add what was not collected as unknown, and name it."""
    for precision in ("fp32", "fp16"):
        if precision not in flops:
            flops[precision] = pl.lit(None)
            amounts.missing.append(precision.upper())
    if ncu_metrics.has_tensor_cores(capability) and not any(p.endswith("-tensor") for p in flops):
        flops["fp16-tensor"] = pl.lit(None)
        amounts.missing.append("tensor cores (any precision)")
    if amounts.missing:
        text = f"Not collected: FLOPs of {', '.join(amounts.missing)}. They are unknown, not zero."
        amounts.say("not-collected", text)
    if "fp64" not in flops:
        amounts.say("fp64-none", "FP64 instructions were not collected; they are taken as none.")


def _bytes(roles: set[str], amounts: Amounts) -> None:
    dram, origin = _dram(roles)
    if dram is not None:
        amounts.add("byte/dram", dram)
        amounts.origin("bytes/dram", origin)
    else:
        amounts.say("no-bytes", "No counters of DRAM bytes were collected: they are unknown.")
    for level, value in (("l2", _l2(roles)), ("l1", _l1(roles))):
        if value is not None:
            amounts.add(f"byte/{level}", value)
            amounts.origin(f"bytes/{level}", "measured")


def _pipes(roles: set[str], amounts: Amounts) -> None:
    """Seconds that the SMs and memory would take at their peaks, by Nsight Compute's percentages.

    Memory as a whole is as busy as the busiest of its parts that were collected.
    """
    if "time_s" not in roles:  # single launches of a counting run have times of their own
        return
    parts = [pl.col(r) for r in ("dram_pct", "l2_pct", "l1_pct") if r in roles]
    memory = [pl.col("memory_pct")] if "memory_pct" in roles else []
    memory += [pl.max_horizontal(parts)] if parts else []
    found = {
        "compute": pl.col("compute_pct") if "compute_pct" in roles else None,
        "memory": pl.coalesce(memory) if memory else None,
    }
    for pipe, share in found.items():
        if share is not None:
            amounts.add(f"pipe/{pipe}", share * pl.col("time_s"))
            amounts.origin(f"pipe/{pipe}", "measured")


def _dram(roles: set[str]) -> tuple[pl.Expr | None, str]:
    if "dram" in roles:
        return pl.col("dram"), "measured"
    if {"dram_read", "dram_write"} <= roles:
        return pl.col("dram_read") + pl.col("dram_write"), "measured"
    if {"dram_sectors_read", "dram_sectors_write"} <= roles:
        sectors = pl.col("dram_sectors_read") + pl.col("dram_sectors_write")
        return ncu_metrics.SECTOR_BYTES * sectors, "measured"
    if {"dram_rate", "time_s"} <= roles:
        return pl.col("dram_rate") * pl.col("time_s"), "inferred"
    return None, ""


def _l2(roles: set[str]) -> pl.Expr | None:
    if "l2" in roles:
        return pl.col("l2")
    if "l2_sectors" in roles:
        return ncu_metrics.SECTOR_BYTES * pl.col("l2_sectors")
    parts = {p: f"l2_sectors_{p}" for p in ("read", "write", "atom", "red")}
    if not roles.issuperset(parts.values()):
        return None
    # An atomic or a reduction reads and writes its sector.
    twice = 2 * (pl.col(parts["atom"]) + pl.col(parts["red"]))
    return ncu_metrics.SECTOR_BYTES * (pl.col(parts["read"]) + pl.col(parts["write"]) + twice)


def _l1(roles: set[str]) -> pl.Expr | None:
    if "l1" in roles:
        return pl.col("l1")
    return ncu_metrics.SECTOR_BYTES * pl.col("l1_sectors") if "l1_sectors" in roles else None
