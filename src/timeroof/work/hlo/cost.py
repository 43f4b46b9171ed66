"""What an HLO program computes and moves: cost per instruction, and of a whole execution.

A multiply-add is 2 FLOPs; beside products one per basic operation of an instruction's
definition (docs/counting.md). This is executed work, of the program as it was compiled: what XLA
computes twice counts twice. The algorithm's own work is that of the jaxpr (`timeroof.work.jaxpr`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from timeroof.work.call import Call, Tensor, UncountableError
from timeroof.work.cost import FREE, Cost, merged, possible, together, unknown
from timeroof.work.hlo import opcodes as ops
from timeroof.work.hlo.products import flops_of
from timeroof.work.hlo.proto import MOST_NESTED, TUPLE, Computation, Instruction, Module, Shape
from timeroof.work.hlo.traffic import fusion_bytes, instruction_bytes

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
