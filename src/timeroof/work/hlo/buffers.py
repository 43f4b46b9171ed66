"""Where arrays lie: XLA's buffer assignment as the byte ranges that the residency model takes.

What an execution trace of PyTorch tells per tensor (storage, offset), buffer assignment tells per
array: allocation, offset, size. Parameters, constants and results are allocations of their own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from timeroof.work import hlo as ops
from timeroof.work.hlo.cost import Program
from timeroof.work.hlo.proto import TUPLE, Instruction, Shape
from timeroof.work.locality.accesses import Kind, Range

_SAME_PLACE = ("bitcast", "copy-done", "opt-barrier", "optimization-barrier", "add-dependency")
_MOST_STEPS = 256


class Place(NamedTuple):
    """Where an array lies."""

    allocation: int
    offset: int


class Buffers:
    """The places of a program's arrays."""

    def __init__(self, program: Program) -> None:
        self.program = program
        module = program.module
        self._at: dict[tuple[int, tuple[int, ...]], Place] = {}
        for allocation in module.allocations:
            for buffer, offset, _ in allocation.assigned:
                if buffer in module.buffers:
                    self._at[module.buffers[buffer]] = Place(allocation.index, offset)
        self._by_id = {i.id: i for i in program.instructions.values()}
        self._caller: dict[int, Instruction] = {}
        for instruction in program.instructions.values():
            if instruction.opcode in ops.CONTAINERS:
                self._caller |= dict.fromkeys(instruction.called, instruction)
        self.unresolved = 0

    def place(self, instruction: int, index: tuple[int, ...] = ()) -> Place | None:
        """Where a part of an instruction's result lies; None where nothing says so."""
        for _ in range(_MOST_STEPS):
            found = self._at.get((instruction, index))
            if found is not None:
                return found
            above = self._above(instruction, index)
            if above is None:
                return None
            instruction, index = above
        return None

    def _above(self, at: int, index: tuple[int, ...]) -> tuple[int, tuple[int, ...]] | None:
        """The instruction, and the part of it, that is the same array."""
        one = self._by_id.get(at)
        if one is None:
            return None
        first = one.operands[0] if one.operands else None
        found: tuple[int, tuple[int, ...]] | None = None
        if one.opcode in (*_SAME_PLACE, "while") and first is not None:
            found = first, index
        elif one.opcode == "get-tuple-element" and first is not None:
            found = first, (one.tuple_index, *index)
        elif one.opcode == TUPLE and index and index[0] < len(one.operands):
            found = one.operands[index[0]], index[1:]
        elif one.opcode == "call" and one.called:
            found = self.program.module.computations[one.called[0]].root, index
        elif one.opcode == "parameter" and one.computation in self._caller:
            call = self._caller[one.computation]
            given = one.parameter if call.opcode == "call" else 0
            found = (call.operands[given], index) if given < len(call.operands) else None
        return found

    def arrays(
        self, instruction: Instruction, shape: Shape | None = None, index: tuple[int, ...] = ()
    ) -> Iterator[tuple[Place, int]]:
        """The arrays of an instruction's result: where they lie and how many bytes they have."""
        shape = instruction.shape if shape is None else shape
        if shape.dtype == TUPLE:
            for number, part in enumerate(shape.parts):
                yield from self.arrays(instruction, part, (*index, number))
        elif shape.size_bytes:
            place = self.place(instruction.id, index)
            if place is None:
                self.unresolved += 1
            else:
                yield place, shape.size_bytes

    def ranges(self, instruction: Instruction, execution: int = 0) -> list[Range]:
        """What an execution of an instruction touches, no more than its cost says.

        Where an instruction touches a slice of an array, its n-th execution in a program's run
        is taken to touch the n-th slice: that is what loops do.
        """
        cost = self.program.cost(instruction)
        if cost.free or cost.bytes is None:
            return []
        here = self.program.computation_of(instruction)
        operands = {o.id: o for o in here.named(instruction)}.values()
        read = dict.fromkeys(array for o in operands for array in self.arrays(o))
        written = dict.fromkeys(self.arrays(instruction))
        return [
            *_trimmed(list(read), "read", cost.bytes_read or 0.0, execution),
            *_trimmed(list(written), "write", cost.bytes_written or 0.0, execution),
        ]

    def lasting(self) -> set[Hashable]:
        """Allocations that are there before or after a run: parameters, constants, results."""
        return {
            a.index
            for a in self.program.module.allocations
            if a.is_parameter or a.is_constant or a.is_live_out
        }


def _trimmed(
    arrays: list[tuple[Place, int]], kind: Kind, most: float, execution: int
) -> list[Range]:
    """Ranges of arrays; where fewer bytes are touched than they have, the largest is cut."""
    excess = sum(size for _, size in arrays) - most
    found: list[Range] = []
    for place, size in sorted(arrays, key=lambda array: -array[1]):
        cut = int(min(max(excess, 0), size))
        excess -= cut
        length = size - cut
        if length > 0:
            moved = execution * length % (size - length + 1) if cut else 0
            found.append((place.allocation, place.offset + moved, length, kind))
    return found
