"""How the cost of an instruction came about: its formulas as text, with the sizes in them.

The instruction is counted once more by the very same functions, its sizes under names
(`timeroof.work.traced`): B, M, N, K of a product, N, C, K of a convolution, in0_0 for the first
size of the first operand. So text and number are one definition.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from timeroof.work import hlo as ops
from timeroof.work.cost import Cost
from timeroof.work.hlo.cost import Program
from timeroof.work.hlo.proto import TUPLE, Computation, Instruction, Module, Shape
from timeroof.work.traced import Number, size, written

# Longer programs in one fusion are told by their number of elements alone.
_MOST_INNER = 400


class Formula(NamedTuple):
    """Where a number stands in a cost (contraction, other, bytes_read, bytes_written), its format,
    its expression and the sizes in it."""

    what: str
    dtype: str
    text: str
    sizes: tuple[tuple[str, Number], ...]


def formulas_of(program: Program, instruction: Instruction) -> tuple[Formula, ...]:
    """The formulas of one execution's cost; none where they would not give its numbers."""
    known = program.cost(instruction)
    if known.unknown or known.free or instruction.opcode in (*ops.CONTAINERS, *ops.COLLECTIVES):
        return ()
    try:
        copied = _Named(program, instruction)
    except (IndexError, KeyError, RecursionError):
        return ()  # a damaged program, whose cost happens not to need what is missing
    named = copied.program.cost(copied.instruction)
    found = [
        *_of(known, named, "bytes_read"),
        *_of(known, named, "bytes_written"),
        *_by_format(known, named, "contraction", 0),
        *_by_format(known, named, "other", copied.elements),
    ]
    return tuple(found)


def _of(known: Cost, named: Cost, what: str) -> list[Formula]:
    value, traced = getattr(known, what), getattr(named, what)
    return [_formula(what, "", traced)] if value and traced == value else []


def _by_format(known: Cost, named: Cost, what: str, elements: int) -> list[Formula]:
    values, traced = getattr(known, what) or {}, getattr(named, what) or {}
    return [
        _formula(what, dtype, _per_element(traced[dtype], elements) if elements else traced[dtype])
        for dtype, value in values.items()
        if traced.get(dtype) == value
    ]


def _per_element(flops: float, elements: int) -> float:
    """FLOPs of many small operations as so many per element, and a rest."""
    if flops != int(flops) or flops < elements:
        return flops
    each, rest = divmod(int(flops), elements)
    found: float = each * size("elements", elements) + rest
    return found


def _formula(what: str, dtype: str, value: Number) -> Formula:
    text, sizes = written(value)
    return Formula(what, dtype, text, tuple(sizes.items()))


class _Named:
    """A program of one instruction, with sizes that carry names."""

    def __init__(self, program: Program, instruction: Instruction) -> None:
        self._names: dict[str, int] = {}
        here = program.computation_of(instruction)
        operands = [one for one in here.named(instruction) if one.id != instruction.id]
        own: dict[int, Instruction] = {}
        if instruction.opcode in ("dot", "convolution") and len(operands) > 1:
            shapes = self._product(instruction, operands[0].shape, operands[1].shape)
            for one, shape in zip(operands, shapes, strict=False):
                own[one.id] = replace(one, shape=shape)
            self.instruction = replace(instruction, shape=shapes[2])
        else:
            self.instruction = replace(instruction, shape=_shape("out", instruction.shape))
        for place, one in enumerate(operands):
            own.setdefault(one.id, replace(one, shape=_shape(f"in{place}_", one.shape)))
        own[instruction.id] = self.instruction
        computations = _needed(program.module, instruction)
        computations[here.id] = Computation(here.name, here.id, here.root, own)
        self.elements = 0
        if instruction.opcode in ops.FUSIONS and instruction.called:
            inner = computations[instruction.called[0]]
            shapes_given = [own[i].shape for i in instruction.operands if i in own]
            computations[inner.id] = self._fused(inner, shapes_given)
            self.elements = max(
                (i.shape.count for i in inner.instructions.values() if i.shape.dtype != TUPLE),
                default=0,
            )
        module = Module(program.module.name, entry=here.id, computations=computations)
        self.program = Program(module, program.on_chip)

    def _fused(self, inner: Computation, given: list[Shape]) -> Computation:
        """A fusion's own instructions: parameters, products and results under names."""
        own = dict(inner.instructions)
        if len(own) > _MOST_INNER:
            return inner
        root = own.get(inner.root)
        results = inner.named(root) if root is not None and root.opcode == TUPLE else [root]
        for place, one in enumerate(r for r in results if r is not None):
            own[one.id] = replace(one, shape=_shape(f"out{place}_", one.shape))
        for one in inner.instructions.values():
            is_given = one.opcode == "parameter" and one.parameter < len(given)
            if is_given and given[one.parameter].dims == one.shape.dims:
                own[one.id] = replace(one, shape=given[one.parameter])
        for one in inner.instructions.values():
            operands = inner.named(one)
            if one.opcode in ("dot", "convolution") and len(operands) > 1:
                shapes = self._product(one, operands[0].shape, operands[1].shape)
                self._replace(own, inner, one, shapes)
        return Computation(inner.name, inner.id, inner.root, own)

    def _replace(
        self, own: dict[int, Instruction], inner: Computation, one: Instruction,
        shapes: tuple[Shape, Shape, Shape],
    ) -> None:  # fmt: skip
        """Put a product with named operands into a fusion, beside what other instructions see."""
        stand_ins = []
        for operand, shape in zip(inner.named(one)[:2], shapes, strict=False):
            # A view of it costs nothing.
            number = -1 - len(own)
            view = Instruction(f"operand{number}", "bitcast", shape, number, (operand.id,))
            own[number] = view
            stand_ins.append(number if operand.shape.dims == shape.dims else operand.id)
        own[one.id] = replace(one, shape=shapes[2], operands=(*stand_ins, *one.operands[2:]))

    def _product(self, one: Instruction, x: Shape, y: Shape) -> tuple[Shape, Shape, Shape]:
        """Shapes of a product's operands and result, each size named by what it is for."""
        out = one.shape
        plain = _shape("in0_", x), _shape("in1_", y), _shape("out", out)
        if one.opcode == "dot" and one.dot is not None:
            named = self._dot(one, x, y)
        elif one.conv is not None:
            named = self._convolution(one, x, y)
        else:
            named = plain
        fits = all(n.dims == s.dims for n, s in zip(named, (x, y, out), strict=True))
        return named if fits else plain

    def _dot(self, one: Instruction, x: Shape, y: Shape) -> tuple[Shape, Shape, Shape]:
        numbers = one.dot
        if numbers is None:
            return x, y, one.shape
        batch = {d: self._size("B", x.dims[d]) for d in numbers.lhs_batch if d < len(x.dims)}
        inner = {d: self._size("K", x.dims[d]) for d in numbers.lhs_contracted if d < len(x.dims)}
        lhs = [
            batch[d] if d in batch else inner[d] if d in inner else self._size("M", n)
            for d, n in enumerate(x.dims)
        ]
        shared = dict(zip(numbers.rhs_batch, batch.values(), strict=False))
        shared |= dict(zip(numbers.rhs_contracted, inner.values(), strict=False))
        rhs = [shared[d] if d in shared else self._size("N", n) for d, n in enumerate(y.dims)]
        rows = [n for d, n in enumerate(lhs) if d not in batch and d not in inner]
        columns = [n for d, n in enumerate(rhs) if d not in shared]
        out = (*batch.values(), *rows, *columns)
        return _with(x, lhs), _with(y, rhs), _with(one.shape, out)

    def _convolution(self, one: Instruction, x: Shape, y: Shape) -> tuple[Shape, Shape, Shape]:
        numbers = one.conv
        if numbers is None:
            return x, y, one.shape
        words = {numbers.in_batch: "N", numbers.in_feature: "C_in"}
        lhs = [self._size(words.get(d, f"X{d}"), n) for d, n in enumerate(x.dims)]
        words = {numbers.kernel_in: "C", numbers.kernel_out: "K"}
        kernel = [self._size(words.get(d, f"R{d}"), n) for d, n in enumerate(y.dims)]
        words = {numbers.out_batch: "N", numbers.out_feature: "K"}
        out = [self._size(words.get(d, f"P{d}"), n) for d, n in enumerate(one.shape.dims)]
        return _with(x, lhs), _with(y, kernel), _with(one.shape, out)

    def _size(self, word: str, value: int) -> int:
        """A size under a name; one that stands for another number already gets a digit."""
        name, place = word, 2
        while self._names.get(name, value) != value:
            name, place = f"{word}{place}", place + 1
        self._names[name] = value
        return size(name, value)


def _needed(module: Module, instruction: Instruction) -> dict[int, Computation]:
    """The computations that an instruction runs: a copy of all would cost too much for each."""
    found: dict[int, Computation] = {}
    todo = list(instruction.called)
    while todo:
        number = todo.pop()
        if number in module.computations and number not in found:
            found[number] = module.computations[number]
            todo += [c for one in found[number].instructions.values() for c in one.called]
    return found


def _with(shape: Shape, dims: list[int] | tuple[int, ...]) -> Shape:
    return replace(shape, dims=tuple(dims))


def _shape(name: str, shape: Shape) -> Shape:
    """A shape whose sizes are called by their places; parts of a tuple have numbers."""
    if shape.dtype == TUPLE:
        parts = tuple(_shape(f"{name}{n}_", part) for n, part in enumerate(shape.parts))
        return replace(shape, parts=parts)
    return _with(shape, [size(f"{name}{d}", n) for d, n in enumerate(shape.dims)])
