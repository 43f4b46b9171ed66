"""What an HLO program computes and moves: cost per instruction, and of a whole execution.

A multiply-add is 2 FLOPs; beside products one per basic operation of an instruction's
definition (docs/counting.md). This is executed work, of the program as it was compiled: what XLA
computes twice counts twice. The algorithm's own work is that of the jaxpr (`timeroof.work.jaxpr`).

Bytes count each place once. A slice reads what it gives, an update in place writes only what is
new. A fusion reads its operands (of one that it only slices, the slices) and writes its results;
what is inside never reaches memory.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from timeroof.work import hlo as ops
from timeroof.work.call import Call, Tensor, UncountableError
from timeroof.work.cost import FREE, Cost, merged, possible, together, unknown
from timeroof.work.hlo import SLICES, VIEWS
from timeroof.work.hlo.products import flops_of
from timeroof.work.hlo.proto import MOST_NESTED, TUPLE, Computation, Instruction, Module, Shape
from timeroof.work.traced import real

_KEEPS = ("bitcast", "copy", "convert")
# They change a part of an array and leave the rest of it where it is.
_UPDATES = ("dynamic-update-slice", "scatter")


class Moved(NamedTuple):
    """Bytes read and written."""

    read: float
    written: float


def instruction_bytes(
    computation: Computation, instruction: Instruction, on_chip: int | None = None
) -> Moved:
    """The bytes of an instruction that stands alone; arrays in the memory `on_chip` cost none."""
    sizes = [_size(o.shape, on_chip) for o in computation.named(instruction)]
    out, opcode = instruction.shape, instruction.opcode
    if opcode in SLICES:
        return Moved(real(_size(out, on_chip) + sum(sizes[1:])), real(_size(out, on_chip)))
    if opcode == "dynamic-update-slice" and len(sizes) > 1:
        return Moved(real(sum(sizes[1:])), real(sizes[1]))
    if opcode == "scatter" and len(sizes) > 2:
        # Operands, indices, updates: as many updates as operands; what is there is read, too.
        operands = (len(sizes) - 1) // 2
        updates = sum(sizes[operands + 1 :])
        return Moved(real(2 * updates + sizes[operands]), real(updates))
    different = {o.id: _size(o.shape, on_chip) for o in computation.named(instruction)}
    written = _kept(out) if opcode == "custom-call" else out
    if opcode in ("copy-start", "all-reduce-start", "all-gather-start", "collective-permute-start"):
        written = _started(out)
    return Moved(real(sum(different.values())), real(_size(written, on_chip)))


def _size(shape: Shape, on_chip: int | None) -> int:
    if shape.dtype == TUPLE:
        return sum(_size(part, on_chip) for part in shape.parts)
    return 0 if on_chip is not None and shape.memory_space == on_chip else shape.size_bytes


def _kept(shape: Shape) -> Shape:
    """A custom call's results without its scratch memory: bytes in a row behind the first."""
    if shape.dtype != TUPLE:
        return shape
    kept = [
        part
        for place, part in enumerate(shape.parts)
        if not (place and part.dtype in ("u8", "s8") and len(part.dims) == 1)
    ]
    return Shape(TUPLE, parts=tuple(kept))


def _started(shape: Shape) -> Shape:
    """What was started gives its operand back beside its result."""
    return shape.parts[1] if shape.dtype == TUPLE and len(shape.parts) > 1 else shape


def fusion_bytes(
    outer: Computation, instruction: Instruction, inner: Computation, on_chip: int | None = None
) -> Moved:
    """The bytes of a fusion whose instructions are those of `inner`."""
    users: dict[int, list[Instruction]] = defaultdict(list)
    for one in inner.instructions.values():
        for used in dict.fromkeys(one.operands):
            users[used].append(one)
    parameters = {p.parameter: p for p in inner.instructions.values() if p.opcode == "parameter"}
    read, seen = 0.0, set[int]()
    for place, operand in enumerate(outer.named(instruction)):
        parameter = parameters.get(place)
        if operand.id in seen or parameter is None:
            continue
        seen.add(operand.id)
        if _size(operand.shape, on_chip):
            read += touched(parameter, inner, users)
    written = 0.0
    for root, shape in _roots(inner, instruction.shape):
        if _size(shape, on_chip):
            written += _new_bytes(root, inner)
    return Moved(read, written)


def touched(
    value: Instruction, inner: Computation, users: Mapping[int, Sequence[Instruction]],
    depth: int = 0,
) -> float:  # fmt: skip
    """Bytes of an operand that a fusion reads: all, or what its slices take."""
    whole, found = real(value.shape.size_bytes), 0.0
    for user in users.get(value.id, ()):
        first = bool(user.operands) and user.operands[0] == value.id
        if user.opcode in SLICES and first:
            found += user.shape.size_bytes
        elif user.opcode == "dynamic-update-slice" and first and value.id not in user.operands[1:]:
            continue  # what is not updated stays where it is
        elif user.opcode == "scatter" and first:
            update = inner.instructions.get(user.operands[-1])
            found += update.shape.size_bytes if update else whole
        elif user.opcode in VIEWS and depth < MOST_NESTED:
            found += touched(user, inner, users, depth + 1)
        else:
            return whole
    return min(whole, found)


def _roots(inner: Computation, shape: Shape) -> list[tuple[Instruction, Shape]]:
    """What a fusion gives, array by array."""
    root = inner.instructions.get(inner.root)
    if root is None:
        return []
    if root.opcode == TUPLE and len(shape.parts) == len(root.operands):
        return list(zip(inner.named(root), shape.parts, strict=False))
    return [(root, shape)]


def _new_bytes(root: Instruction, inner: Computation) -> float:
    """Bytes that a result has to be written: of an update in place only the update."""
    at, steps = root, 0
    while at.opcode in _KEEPS and at.operands and steps < MOST_NESTED:
        above = inner.instructions.get(at.operands[0])
        if above is None or above.opcode not in (*_KEEPS, *_UPDATES):
            break
        at, steps = above, steps + 1
    update = _update_of(at, inner)
    if update is None or not _is_from_outside(at, inner):
        return real(root.shape.size_bytes)
    return real(min(update.shape.size_bytes, root.shape.size_bytes))


def _update_of(one: Instruction, inner: Computation) -> Instruction | None:
    """What an instruction puts into its first operand, where it leaves the rest of it alone."""
    if one.opcode == "dynamic-update-slice" and len(one.operands) > 1:
        return inner.instructions.get(one.operands[1])
    # One operand, its indices, its updates; of several each has updates of its own.
    if one.opcode == "scatter" and len(one.operands) == 3:
        return inner.instructions.get(one.operands[2])
    return None


def _is_from_outside(one: Instruction, inner: Computation) -> bool:
    """Whether an update goes into an array that the fusion was given, not into one it makes."""
    for _ in range(MOST_NESTED):
        if one.opcode == "parameter":
            return True
        if one.opcode not in (*VIEWS, *_KEEPS, *_UPDATES) or not one.operands:
            return False
        above = inner.instructions.get(one.operands[0])
        if above is None:
            return False
        one = above
    return False


_NOT_WORD = re.compile(r"\W")


@dataclass
class Total:
    """The work of one execution of a program.

    `cost.unknown` says why something of it is not known; loops whose length nobody knows are
    counted once, and `endless` names them. `products` has how often an instruction runs whose
    contractions have so many FLOPs.
    """

    cost: Cost
    launches: float
    endless: tuple[str, ...] = ()
    products: Mapping[float, float] = field(default_factory=dict)


class Program:
    """A compiled module, its instructions by name, each counted once.

    `on_chip` is the number of a memory space whose arrays never reach DRAM (a TPU's is 1).
    """

    def __init__(self, module: Module, on_chip: int | None = None) -> None:
        self.module = module
        self.on_chip = on_chip
        self.instructions = {
            i.name: i for c in module.computations.values() for i in c.instructions.values()
        }
        self._by_kernel: dict[str, Instruction | None] | None = None
        self._costs: dict[int, Cost] = {}
        self._users: dict[int, dict[int, list[int]]] = {}

    def computation_of(self, instruction: Instruction) -> Computation:
        """The computation that an instruction stands in."""
        return self.module.computations[instruction.computation]

    def users(self, computation: int) -> dict[int, list[int]]:
        """The instructions of a computation that need another's result, by its number."""
        if computation not in self._users:
            found: dict[int, list[int]] = {}
            for one in self.module.computations[computation].instructions.values():
                for operand in dict.fromkeys(one.operands):
                    found.setdefault(operand, []).append(one.id)
            self._users[computation] = found
        return self._users[computation]

    def find(self, name: str, kernel: str | None = None) -> Instruction | None:
        """The instruction of a name, or of the kernel that XLA named after it.

        A kernel of a captured graph (command buffer) carries the name of the `call` around it;
        its own name tells which instruction it is.
        """
        found = self.instructions.get(name)
        if kernel is None or (found is not None and found.opcode not in ops.CONTAINERS):
            return found
        return self._kernels().get(_NOT_WORD.sub("_", kernel)) or found

    def _kernels(self) -> dict[str, Instruction | None]:
        """Instructions by what their kernels are called; None where two would be called alike."""
        if self._by_kernel is None:
            self._by_kernel = {}
            for name, instruction in self.instructions.items():
                if instruction.opcode not in ops.FREE:
                    word = _NOT_WORD.sub("_", name)
                    self._by_kernel[word] = None if word in self._by_kernel else instruction
        return self._by_kernel

    def cost(self, instruction: Instruction) -> Cost:
        """The cost of one execution of an instruction.

        Loops, calls and conditionals are composite: their instructions are counted one by one.
        """
        if instruction.id not in self._costs:
            try:
                found = possible(self._cost(instruction))
            except (UncountableError, IndexError, KeyError, RecursionError) as error:
                found = unknown(f"{instruction.opcode}: {error}")
            self._costs[instruction.id] = found
        return self._costs[instruction.id]

    def _cost(self, instruction: Instruction) -> Cost:
        opcode, here = instruction.opcode, self.computation_of(instruction)
        if opcode in ops.FREE:
            return FREE
        if opcode in ops.CONTAINERS:
            return Cost(free=True, composite=True)
        if opcode == "async-start":
            return self._execution(self._called(instruction).id, 0).cost
        if opcode in ops.COLLECTIVES:
            return self._collective(here, instruction)
        if opcode in ops.FUSIONS:
            inner = self._called(instruction)
            found = self._inner(inner, 0)
            moved = fusion_bytes(here, instruction, inner, self.on_chip)
        else:
            found = self._flops(here, instruction)
            moved = instruction_bytes(here, instruction, self.on_chip)
        return msgspec.structs.replace(
            found, bytes_read=moved.read, bytes_written=moved.written, link_bytes=0.0, free=False
        )

    def collective(self, instruction: Instruction) -> Instruction | None:
        """The collective that an instruction is, starts or waits for; None for any other."""
        if instruction.opcode.endswith("-done") and instruction.operands:
            here = self.computation_of(instruction).instructions
            started = here.get(instruction.operands[0])
            waits = started is not None and not started.opcode.endswith("-done")
            return self.collective(started) if started is not None and waits else None
        if instruction.opcode == "async-start" and instruction.called:
            inner = self.module.computations.get(instruction.called[0])
            inside = inner.instructions.values() if inner is not None else ()
            return next((one for one in inside if one.opcode in ops.COLLECTIVES), None)
        return instruction if instruction.opcode in ops.COLLECTIVES else None

    def group_size(self, collective: Instruction) -> int | None:
        """How many devices take part in a collective; all of the program's where it lists none."""
        if collective.opcode.startswith(("collective-permute", "send", "recv")):
            return 2
        return collective.group_size or self.module.device_count

    def _collective(self, here: Computation, one: Instruction) -> Cost:
        """A collective by the formulas that all frameworks share."""
        from timeroof.work.counting import count

        permuted = one.opcode.startswith(("collective-permute", "send", "recv"))
        name = "send" if permuted else one.opcode
        sent = tuple(t for o in here.named(one) for t in _tensors(o.shape))
        given = tuple(_tensors(_received(one)))
        return count(Call.of(f"xla::{name}", sent, given, group_size=self.group_size(one)))

    def whole_cost(self, instruction: Instruction) -> Cost:
        """The cost of a loop, a call or a condition that runs as one kernel: the FLOPs of all in
        it, and each operand and result moved once."""
        parts = [(total, times) for total, times in self._inside(instruction, 0)]
        endless = [name for total, _ in parts for name in total.endless]
        if instruction.opcode == "while" and instruction.trip_count is None:
            endless.append(instruction.name)
        if endless:
            return unknown(f"how often the loop {endless[0]} runs is not known")
        found = together([_times(total.cost, times) for total, times in parts])
        moved = instruction_bytes(self.computation_of(instruction), instruction, self.on_chip)
        return msgspec.structs.replace(
            found,
            bytes_read=moved.read,
            bytes_written=moved.written,
            link_bytes=0.0,
            free=False,
            composite=False,
        )

    def _called(self, instruction: Instruction, place: int = 0) -> Computation:
        return self.module.computations[instruction.called[place]]

    def _inner(self, computation: Computation, depth: int) -> Cost:
        """FLOPs of all instructions of a computation; bytes are the caller's business."""
        if depth > MOST_NESTED:
            raise UncountableError("computations that call one another for ever")
        parts = []
        for one in computation.instructions.values():
            if one.opcode in (*ops.FUSIONS, "call") and one.called:
                parts.append(self._inner(self._called(one), depth + 1))
            elif one.opcode not in ops.FREE:
                parts.append(self._flops(computation, one))
        return _without_bytes(together(parts))

    def _flops(self, computation: Computation, one: Instruction) -> Cost:
        operands = [o.shape for o in computation.named(one)]
        return flops_of(one, operands, self._reducer(one))

    def _reducer(self, one: Instruction) -> int:
        """FLOPs of a reducer for one element: those of its own instructions."""
        reducer = self.module.computations.get(one.called[-1]) if one.called else None
        if reducer is None:
            return 1
        own = reducer.instructions.values()
        return sum(ops.ELEMENTWISE.get(i.opcode, 0) for i in own)

    def total(self) -> Total:
        """The work of one execution of the module, loops by their trip counts."""
        return self._execution(self.module.entry, 0)

    def _execution(self, computation: int, depth: int) -> Total:
        if depth > MOST_NESTED:
            return Total(unknown("computations that call one another for ever"), 0.0)
        if computation not in self.module.computations:
            return Total(unknown("a computation that is not in the program"), 0.0)
        parts: list[Cost] = []
        launches, endless, products = 0.0, list[str](), defaultdict[float, float](float)
        for one in self.module.ordered(computation):
            for inner, times in self._inside(one, depth):
                parts.append(_times(inner.cost, times))
                launches += inner.launches * times
                endless += inner.endless
                for flops, count in inner.products.items():
                    products[flops] += count * times
            if one.opcode == "while" and one.trip_count is None:
                endless.append(one.name)
            elif one.opcode not in ops.CONTAINERS:
                cost = self.cost(one)
                parts.append(cost)
                launches += not cost.free
                products[cost.contraction_flops or 0.0] += 1
        return Total(together(parts), launches, tuple(endless), products)

    def _inside(self, one: Instruction, depth: int) -> list[tuple[Total, int]]:
        """What a container runs and how often: a loop's body, a condition's dearest branch."""
        if one.opcode not in ops.CONTAINERS:
            return []
        inner = [self._execution(c, depth + 1) for c in one.called if c in self.module.computations]
        if one.opcode == "while" and len(inner) == 2:
            # The body comes first; the condition is asked once more than it says yes.
            times = one.trip_count if one.trip_count is not None else 1
            body, condition = inner if not self._is_condition(one.called[0]) else inner[::-1]
            return [(body, times), (condition, times + 1)]
        if one.opcode == "conditional" and inner:
            return [(max(inner, key=lambda total: total.cost.flops or 0.0), 1)]
        return [(total, 1) for total in inner[:1]]

    def _is_condition(self, computation: int) -> bool:
        found = self.module.computations.get(computation)
        root = found.instructions.get(found.root) if found is not None else None
        return root is not None and root.shape.dtype == "pred" and not root.shape.dims


def _received(one: Instruction) -> Shape:
    """What a collective gives; one that was started gives its operand back beside it."""
    started = one.opcode.endswith("-start") and one.opcode != "all-reduce-start"
    is_pair = started and one.shape.dtype == TUPLE and len(one.shape.parts) > 1
    return one.shape.parts[1] if is_pair else one.shape


def _without_bytes(found: Cost) -> Cost:
    return msgspec.structs.replace(found, bytes_read=0.0, bytes_written=0.0, link_bytes=0.0)


def _times(found: Cost, times: int) -> Cost:
    """A cost several times over."""

    def more(value: float | None) -> float | None:
        return None if value is None else value * times

    return msgspec.structs.replace(
        found,
        contraction=_scaled(found.contraction, times),
        other=_scaled(found.other, times),
        bytes_read=more(found.bytes_read),
        bytes_written=more(found.bytes_written),
        link_bytes=more(found.link_bytes),
    )


def _scaled(flops: object, times: int) -> dict[str, float] | None:
    if not isinstance(flops, dict):
        return None
    return {dtype: value * times for dtype, value in (merged(flops) or {}).items()}


def _tensors(shape: Shape) -> list[Tensor]:
    if shape.dtype == TUPLE:
        return [t for part in shape.parts for t in _tensors(part)]
    return [Tensor(shape.dims, shape.format)] if shape.size_bytes else []
