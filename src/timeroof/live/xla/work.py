"""What the kernels of timed steps computed and moved: each is an instruction of a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import polars as pl

from timeroof.core.columns import DataType
from timeroof.core.machine import Machine
from timeroof.core.vocabulary import CONTRACTIONS, EAGER, family_of
from timeroof.live.calls import Counted
from timeroof.live.memory import Traffic, traffic_of
from timeroof.live.recording import OP_SCOPE, Described, Recording, TimedStep
from timeroof.live.rows import Rows
from timeroof.live.xla.steps import Kernel, XlaStep, kernels_in_order
from timeroof.work.call import Tensor
from timeroof.work.cost import Cost, unknown
from timeroof.work.families.hlo import instruction_call
from timeroof.work.hlo import CONTAINERS, FREE, FUSIONS
from timeroof.work.hlo.buffers import Buffers
from timeroof.work.hlo.cost import Program
from timeroof.work.hlo.formulas import formulas_of
from timeroof.work.hlo.names import inside, module_of, phase_by_stack, phase_of, source_of, told_by
from timeroof.work.hlo.proto import Instruction
from timeroof.work.locality.accesses import Range

# The program's own ops in a kernel that are named.
MOST_NAMED = 4
NOT_TIED = "its compiled program is not in the trace"


@dataclass(frozen=True)
class Executed(Described):
    """One execution of a kernel in a step."""

    kernel_of: Kernel | None = None


# What products are called where metadata says something else of them: a transposition, say.
_PRODUCTS = {
    "jax": {"dot": "dot_general", "convolution": "conv_general_dilated"},
    "tensorflow": {"dot": "MatMul", "convolution": "Conv2D"},
}


def settle(recording: Recording, framework: str) -> None:
    """Describe the kernels of the timed steps, in the order in which a typical step ran them."""
    steps = [s for s in (*recording.timed, recording.block) if isinstance(s, XlaStep)]
    if not steps or recording.described:
        return
    by_count = sorted(steps, key=lambda step: len(step.kernels))
    typical = by_count[len(by_count) // 2]
    places: dict[tuple[object, ...], int] = {}
    ops: list[Described] = []
    trains = recording.kind.startswith("training")
    for step in [typical, *(s for s in steps if s is not typical)]:
        for _, kernel in kernels_in_order(step):
            if step is typical or kernel.key not in places:
                places.setdefault(kernel.key, len(ops))
                ops.append(executed(kernel, framework, trains))
    recording.described = ops
    recording.timed = [_placed(step, places) for step in recording.timed]
    if recording.block is not None:
        recording.block = _placed(recording.block, places)


def _placed(step: TimedStep, places: dict[tuple[object, ...], int]) -> TimedStep:
    if not isinstance(step, XlaStep):
        return step
    described = np.full(len(step), -1, np.int64)
    for event, kernel in step.kernels.items():
        described[event] = places[kernel.key]
    return replace(step, described=described)


def executed(kernel: Kernel, framework: str, trains: bool) -> Executed:
    """An execution with what its program's metadata says of it."""
    linked = kernel.linked
    plain = Executed(
        name=kernel.name, parent=None, thread=kernel.device, sequence=-1, scope=OP_SCOPE,
        schema="", inputs=(), outputs=(), kernel_of=kernel,
    )  # fmt: skip
    if linked is None:
        return plain
    program, instruction = linked
    named = told_by(program, instruction)
    return replace(
        plain,
        op=ops_text(program, instruction, framework),
        module=module_of(named.op_name) if named is not None else None,
        phase=_phase(program, named, trains),
        source=source_of(program.module, named) if named is not None else None,
    )


def _phase(program: Program, named: Instruction | None, trains: bool) -> str | None:
    if named is None:
        return None
    told = phase_of(named.op_name) or phase_by_stack(program.module, named)
    if told is not None:
        return told
    # Where nothing is differentiated, all of it is a forward pass.
    return None if trains or _trains(program) else "forward"


@lru_cache(maxsize=256)
def _trains(program: Program) -> bool:
    return any("transpose(" in one.op_name or "gradient_tape" in one.op_name
               for one in program.instructions.values())  # fmt: skip


def ops_text(program: Program, instruction: Instruction, framework: str) -> str:
    """The program's own ops in a kernel, products first: ``jax::dot_general + jax::add``."""
    inner = [*inside(program, instruction), instruction]
    products = [one for one in inner if one.opcode in ("dot", "convolution")]
    others = [one for one in inner if one not in products and one.opcode not in FREE]
    known = _PRODUCTS.get(framework, {})
    words = [_product_word(one, known) for one in products] + [_word(one) for one in others]
    named = list(dict.fromkeys(word for word in words if word))
    few = named[:MOST_NAMED] or [instruction.opcode]
    more = " + …" if len(named) > MOST_NAMED else ""
    return " + ".join(f"{framework}::{word}" for word in few) + more


def _product_word(one: Instruction, known: dict[str, str]) -> str:
    word = _word(one)
    return word if family_of(f"::{word}") in CONTRACTIONS else known.get(one.opcode, one.opcode)


def _word(one: Instruction) -> str:
    """The last word of an op's name, which is the op itself."""
    return one.op_name.rsplit("/", 1)[-1].split("[")[0].strip() if one.op_name else ""


# Amounts.


def cost_of(kernel: Kernel) -> Cost:
    """The cost of one execution."""
    if kernel.linked is None:
        return unknown(NOT_TIED)
    program, instruction = kernel.linked
    return program.whole_cost(instruction) if kernel.is_whole else program.cost(instruction)


def count(ops: Sequence[Described]) -> list[Counted]:
    """The cost of every execution."""
    places: dict[int, Buffers] = {}
    known: dict[tuple[object, ...], Counted] = {}
    found = []
    for op in ops:
        kernel = op.kernel_of if isinstance(op, Executed) else None
        key = kernel.key if kernel is not None else (id(op),)
        if key not in known:
            known[key] = _counted(kernel, places)
        found.append(known[key])
    return found


def _counted(kernel: Kernel | None, places: dict[int, Buffers]) -> Counted:
    cost = unknown(NOT_TIED) if kernel is None else cost_of(kernel)
    if kernel is None or kernel.linked is None:
        return Counted(instruction_call(cost), cost, without_tensors=True)
    program, instruction = kernel.linked
    operands = [o.shape for o in program.computation_of(instruction).named(instruction)]
    shapes = [part for shape in operands for part in (shape.parts or (shape,)) if part.size_bytes]
    tensors = [Tensor(shape.dims, shape.format) for shape in shapes]
    formulas = () if kernel.is_whole else formulas_of(program, instruction)
    call = instruction_call(cost, tensors, formulas)
    buffers = places.setdefault(id(program), Buffers(program))
    has_places = bool(program.module.allocations) and bool(buffers.ranges(instruction))
    return Counted(call, cost, without_tensors=not has_places or kernel.is_whole)


def traffic(
    ops: Sequence[Described], counted: Sequence[Counted], phases: Sequence[str], machine: Machine
) -> Traffic:
    """The least traffic of every execution at every level."""
    ranges, results = ranges_of(ops, counted)
    return traffic_of(ranges, range(len(ops)), phases, machine, results)


def ranges_of(
    ops: Sequence[Described], counted: Sequence[Counted]
) -> tuple[list[list[Range]], set[Hashable]]:
    """Which bytes every execution touches, by the programs' buffer assignment, and arrays that are
    made and stay. Arrays are told apart within a program; between programs nobody knows."""
    places: dict[int, Buffers] = {}
    turns: Counter[tuple[object, ...]] = Counter()
    ranges: list[list[Range]] = []
    results: set[Hashable] = set()
    for op, one in zip(ops, counted, strict=True):
        kernel = op.kernel_of if isinstance(op, Executed) else None
        if kernel is None or kernel.linked is None or one.without_tensors:
            ranges.append([])
            continue
        program, instruction = kernel.linked
        if id(program) not in places:
            places[id(program)] = Buffers(program)
            results |= {(_storage(program, kernel, n), 1) for n in _stays(program)}
        made = _made(program)
        own = places[id(program)].ranges(instruction, turns[kernel.key])
        turns[kernel.key] += 1
        ranges.append(
            [((_storage(program, kernel, int(str(r[0]))), int(r[0] in made)), *r[1:]) for r in own]
        )
    return ranges, results


def _storage(program: Program, kernel: Kernel, allocation: int) -> Hashable:
    return id(program), kernel.device, allocation


@lru_cache(maxsize=256)
def _made(program: Program) -> frozenset[Hashable]:
    """Allocations that a run makes: all but its arguments and constants."""
    allocations = program.module.allocations
    return frozenset(a.index for a in allocations if not (a.is_parameter or a.is_constant))


@lru_cache(maxsize=256)
def _stays(program: Program) -> frozenset[int]:
    """Those of them that are results."""
    made = _made(program)
    return frozenset(
        a.index for a in program.module.allocations if a.is_live_out and a.index in made
    )


# Rows of compiled kernels in the program's own words.


def in_words(table: pl.DataFrame, recording: Recording, rows: Rows) -> pl.DataFrame:
    """The table with each row's kind, its ops as the program calls them, its device, and whether
    it is an op that the program runs by itself."""
    told: dict[int, dict[str, object]] = {}
    for row, op in zip(rows.of_described, recording.described, strict=True):
        if row >= 0 and row not in told and isinstance(op, Executed) and op.kernel_of is not None:
            told[row] = {
                "id": row, "kind": _kind(op.kernel_of), "op": op.op or op.name,
                "stream": f"device {op.kernel_of.device}",
                "label.mode": EAGER if op.kernel_of.is_eager else None,
            }  # fmt: skip
    if not told:
        return table
    schema: dict[str, DataType] = {
        "id": table.schema["id"],
        "kind": pl.String,
        "op": pl.String,
        "stream": pl.String,
        "label.mode": pl.String,
    }
    words = pl.DataFrame(list(told.values()), schema=schema)
    joined = table.join(words, on="id", how="left", suffix=".new", maintain_order="left")
    if not words["label.mode"].null_count() < words.height:
        joined = joined.drop("label.mode")
    replaced = [pl.coalesce(f"{name}.new", name).alias(name) for name in ("kind", "op", "stream")]
    return joined.with_columns(replaced).drop("kind.new", "op.new", "stream.new")


def _kind(kernel: Kernel) -> str:
    if kernel.is_collective:
        return "collective"
    if kernel.linked is None:
        return "op"
    opcode = kernel.linked.instruction.opcode
    return "kernel" if opcode in (*FUSIONS, *CONTAINERS) else "op"
