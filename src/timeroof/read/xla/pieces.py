"""Single pieces of work of an xplane (kernels, copies, thunks) as the table every trace ends in.

FLOPs and bytes are those of the HLO instruction that a piece ran. Where an instruction needs
several kernels, its cost is shared among them by their time: counted once per execution.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from timeroof.read.events import COPY_OVER, COPY_PEER, COPY_WITHIN, kernel_kind
from timeroof.read.torch.rows import peer_link
from timeroof.read.xla.programs import Linked
from timeroof.read.xla.space import Event, Line
from timeroof.work.call import Call
from timeroof.work.cost import Cost
from timeroof.work.families.hlo import instruction_call
from timeroof.work.hlo.formulas import formulas_of
from timeroof.work.hlo.names import module_of, phase_by_stack, phase_of, source_of, told_by
from timeroof.work.hlo.proto import Instruction
from timeroof.work.recorded import tensors_from_text

_GRID = re.compile(r"\b(grid|block):([\d,]+)")
_SIZE = re.compile(r"\bsize:(\d+)")
# Copies by name, those of AMD's runtime, which are kernels, among them.
_COPY = re.compile(r"(?i)^mem(?:cpy|set)|^copy-?(?:start|done)?$|^__amd_rocclr_(?:copy|fill)Buffer")
_SET = re.compile(r"(?i)memset|fillBuffer")
# A stream all of whose work is copying: "Stream #23(MemcpyOther)".
_COPY_STREAM = re.compile(r"^Stream[^(]*\((?:Mem(?:cpy|set)\w*(?:,\s*)?)+\)$")
_OP_NAME = re.compile(r"[/(]")
_POOL = "XLA threads"
# Counts of an instruction's kernels that differ by less are those of one execution each, the
# window cut some of them off.
_CUT = 1.5
_USUAL = 3
_SCHEMA = {
    "kind": pl.String, "name": pl.String, "start_ns": pl.Float64, "end_ns": pl.Float64,
    "self_ns": pl.Float64, "gpu": pl.String, "stream": pl.String, "correlation": pl.Int64,
    "op": pl.String, "shape": pl.String, "dtype": pl.String, "module": pl.String,
    "phase": pl.String, "call": pl.Int64, "call_times": pl.Float64,
    "link/pcie": pl.Float64, "byte/dram": pl.Float64, "link/peer": pl.Float64,
    "label.grid": pl.String, "label.block": pl.String, "label.tf_op": pl.String,
    "label.hlo_category": pl.String, "label.hlo_module": pl.String, "label.source": pl.String,
    "label.collective": pl.String, "label.group_size": pl.String,
}  # fmt: skip
# A cell of such a row.
Cell = str | float | int | None


@dataclass(slots=True)
class Piece:
    """One event that did work, where and when, and the instruction that it ran."""

    event: Event
    line: Line
    gpu: str
    kind: str
    start_ns: float
    end_ns: float
    op: str | None = None
    linked: Linked | None = None
    # Where events nest: the time without those inside.
    self_ns: float | None = None
    # How much of an execution of its instruction it is.
    share: float = 1.0
    # A loop or call that ran as one kernel.
    is_whole: bool = False

    @property
    def duration_ns(self) -> float:
        """How long it took."""
        return self.end_ns - self.start_ns if self.self_ns is None else self.self_ns

    @property
    def is_copy(self) -> bool:
        """Whether it moves data and is no kernel of the program."""
        copies = _COPY.match(self.event.name) or _COPY_STREAM.match(self.line.name)
        return self.kind == "kernel" and copies is not None


class PieceTable(NamedTuple):
    """Pieces as rows of events, and the calls that they number."""

    events: pl.DataFrame
    calls: Sequence[Call]


def table_of(pieces: Sequence[Piece], device: str | None) -> PieceTable:
    """The table of all pieces; `device` tells which link collectives use."""
    numbers: dict[Call, int] = {}
    details: dict[int, _Detail] = {}
    rows = [_row(piece, numbers, details) for piece in pieces]
    table = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    by_name = pl.when(pl.col("kind") == "kernel").then(kernel_kind()).otherwise(pl.col("kind"))
    table = table.with_columns(by_name.alias("kind"))
    link = peer_link(device)
    names = ("link/pcie", "byte/dram", "link/peer", "self_ns", "shape", "dtype")
    empty = [c for c in names if table[c].null_count() == table.height]
    if link is None and "link/peer" not in empty:
        empty.append("link/peer")
    table = table.drop(empty)
    return PieceTable(table.rename({"link/peer": link or ""}, strict=False), list(numbers))


class _Detail(NamedTuple):
    """What all pieces of one instruction share."""

    cost: Cost
    call: int
    shape: str | None
    dtype: str | None
    module: str | None
    phase: str | None
    op_name: str | None
    source: str | None


def _detail(piece: Piece, numbers: dict[Call, int], details: dict[int, _Detail]) -> _Detail | None:
    if piece.linked is None:
        return None
    program, instruction = piece.linked
    if id(instruction) not in details:
        cost = program.whole_cost(instruction) if piece.is_whole else program.cost(instruction)
        if cost.free and piece.self_ns is not None:
            # What a loop takes beside its ops, or the end of what was started before: no work.
            cost = Cost()
        formulas = () if piece.is_whole else formulas_of(program, instruction)
        call = numbers.setdefault(instruction_call(cost, formulas=formulas), len(numbers))
        operands = [o.shape for o in program.computation_of(instruction).named(instruction)]
        sizes = ["x".join(map(str, shape.dims)) for shape in operands if shape.dims]
        named = told_by(program, instruction)
        name = named.op_name if named is not None else ""
        # A neighbour tells the phase; its module need not be the same.
        is_own = named is instruction or (named and named.computation != instruction.computation)
        phase = phase_of(name)
        if phase is None and named is not None:
            phase = phase_by_stack(program.module, named)
        details[id(instruction)] = _Detail(
            cost=cost,
            call=call,
            shape=", ".join(sizes) or None,
            dtype=instruction.shape.format,
            module=(module_of(name) if is_own else None) or program.module.name or None,
            phase=phase,
            op_name=instruction.op_name or None,
            source=source_of(program.module, named or instruction),
        )
    return details[id(instruction)]


def _row(
    piece: Piece, numbers: dict[Call, int], details: dict[int, _Detail]
) -> tuple[Cell, ...]:  # fmt: skip
    event, stats = piece.event, piece.event.stats
    known = _detail(piece, numbers, details)
    told = _text(stats.get("tf_op")) or _named_op(stats.get("name"))
    collective = _collective_of(piece)
    kind = _kind(piece, collective)
    link, dram = _moved(event) if piece.is_copy else (None, None)
    call = known.call if known else _stated(event, numbers)
    peer = group = None
    if known and piece.linked and collective is not None:
        sent, size = known.cost.link_bytes, piece.linked.program.group_size(collective)
        peer = None if sent is None else sent * piece.share
        group = str(size) if size else None
    # A copy, and on a host a collective, goes through memory.
    moves = piece.is_copy or (kind == "collective" and piece.kind == "op")
    if known and moves and dram is None and known.cost.bytes is not None:
        dram = known.cost.bytes * piece.share
    sizes = dict(_GRID.findall(str(stats.get("kernel_details", ""))))
    module = _text(stats.get("hlo_module"))
    return (
        kind, (event.name or "unnamed").removesuffix(".kd"), piece.start_ns, piece.end_ns,
        piece.self_ns, piece.gpu, _stream(piece),
        _integer(stats.get("correlation_id")), piece.op, known.shape if known else None,
        known.dtype if known else None, known.module if known else module,
        known.phase if known else phase_of(told or ""), call, piece.share, link, dram, peer,
        *(sizes[w].replace(",", "x") if w in sizes else None for w in ("grid", "block")),
        (known and known.op_name) or told, _text(stats.get("hlo_category")), module,
        known.source if known else None, collective.opcode if collective else None, group,
    )  # fmt: skip


def _stream(piece: Piece) -> str:
    """A device's queue; which of its threads a host's pool takes means nothing."""
    if piece.kind == "op" and piece.self_ns is None:
        return _POOL
    return piece.line.name or str(piece.line.id)


def _collective_of(piece: Piece) -> Instruction | None:
    return piece.linked.program.collective(piece.linked.instruction) if piece.linked else None


def _kind(piece: Piece, collective: Instruction | None) -> str:
    if piece.is_copy:
        return "memset" if _SET.search(piece.event.name) else "copy"
    return "collective" if collective is not None else piece.kind


def _stated(event: Event, numbers: dict[Call, int]) -> int | None:
    """What a file without HLO says itself: FLOPs and bytes as XLA's cost analysis has them."""
    flops, size = event.stats.get("flops"), event.stats.get("bytes_accessed")
    if not isinstance(flops, int | float) or not isinstance(size, int | float) or size < 0 > flops:
        return None
    results = tensors_from_text(event.name)
    dtype = results[0].dtype if results else "fp32"
    cost = Cost(contraction={dtype: float(flops)}, bytes_read=float(size), origin="modelled")
    return numbers.setdefault(instruction_call(cost), len(numbers))


def _moved(event: Event) -> tuple[float | None, float | None]:
    """Bytes over PCI Express and in device memory of a copy or memset."""
    found = _SIZE.search(str(event.stats.get("memcpy_details", event.stats.get("memset_details"))))
    size = float(found.group(1)) if found else None
    if not size:
        return None, None
    if re.search(COPY_OVER, event.name):
        return size, size
    if re.search(COPY_WITHIN, event.name):
        return 0.0, 2 * size
    if "memset" in event.name.lower():
        return 0.0, size
    return None, size if re.search(COPY_PEER, event.name) else None


def _named_op(value: object) -> str | None:
    """The statistic `name`, where it is an op's name and not that of an argument."""
    told = _text(value)
    return told if told and _OP_NAME.search(told) else None


def _text(value: object) -> str | None:
    told = str(value).strip() if isinstance(value, str | int | float) else ""
    return told if told and told != "XlaModule:" else None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and abs(value) < 2**62 else None


def share_costs(pieces: Sequence[Piece]) -> None:
    """Tell kernels how much of an execution of their instruction they are."""
    groups: dict[tuple[str, int], list[Piece]] = defaultdict(list)
    for piece in pieces:
        if piece.linked is not None:
            groups[piece.gpu, id(piece.linked.instruction)].append(piece)
    usual = _usual_counts(groups)
    for (gpu, _), members in groups.items():
        linked = members[0].linked
        place = (gpu, id(linked.program), linked.instruction.computation) if linked else None
        executions = _executions(members, usual.get(place) if place else None)
        if executions == len(members):
            continue
        whole_ns = sum(piece.duration_ns for piece in members)
        for piece in members:
            part = piece.duration_ns / whole_ns if whole_ns else 1 / len(members)
            piece.share = executions * part


def _usual_counts(
    groups: dict[tuple[str, int], list[Piece]],
) -> dict[tuple[str, int, int], int]:
    """How often the instructions of a computation ran, where several agree on it."""
    counts: dict[tuple[str, int, int], Counter[int]] = defaultdict(Counter)
    for (gpu, _), members in groups.items():
        linked = members[0].linked
        if linked is not None and len({p.event.name for p in members}) == 1:
            place = (gpu, id(linked.program), linked.instruction.computation)
            counts[place][len(members)] += 1
    most = {place: found.most_common(1)[0] for place, found in counts.items()}
    return {place: count for place, (count, agreeing) in most.items() if agreeing >= _USUAL}


def _executions(members: Sequence[Piece], usual: int | None) -> int:
    """How often an instruction ran: as often as the others beside it, else as its kernels tell."""
    counts = Counter(piece.event.name for piece in members).values()
    if usual is not None and all(count % usual == 0 for count in counts):
        return usual
    least = min(counts)
    return max(count for count in counts if count < _CUT * least)
