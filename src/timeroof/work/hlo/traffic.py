"""Bytes that an instruction must read and write, each place once.

A slice reads what it gives, an update in place writes only what is new. A fusion reads its
operands (of one that it only slices, the slices) and writes its results; what is inside never
reaches memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from timeroof.work.hlo.opcodes import SLICES, VIEWS
from timeroof.work.hlo.proto import MOST_NESTED, TUPLE, Computation, Instruction, Shape
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
