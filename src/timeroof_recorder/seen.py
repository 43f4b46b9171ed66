"""What is described of a program, as values: ops, tensors, compiled kernels; and their plain form.

Imported once a framework is there, and by whoever reads a record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import NamedTuple

# What an event is: an op, a node of a backward pass, a region that the program named.
OP_SCOPE, BACKWARD_SCOPE, USER_SCOPE = 0, 1, 7


@dataclass(frozen=True)
class Described:
    """One op of a described step: who called it, with which tensors, and what it returned."""

    name: str
    parent: int | None
    thread: int
    sequence: int
    scope: int
    schema: str
    inputs: tuple[object, ...]
    outputs: tuple[object, ...]
    # The compiled kernel that it is, by its place among the recording's.
    kernel: int | None = None
    # Where it comes from, where that is known of the op itself (compiled code).
    module: str | None = None
    phase: str | None = None
    source: str | None = None
    # The formula that counts it, where that is not found under its own name.
    op: str | None = None
    # What the program states of its cost (`timeroof.cost_of`), worked out in its own process.
    stated: dict[str, object] | None = None


@dataclass(frozen=True)
class TensorSeen:
    """A tensor as it was passed: shape, its format's name, and its place in memory."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]
    storage: int
    offset: int
    item_bytes: int
    device: str


class LoopOp(NamedTuple):
    """An operation of a compiled loop: the op that does the same, its format, its operands."""

    op: str
    dtype: str
    operands: int


@dataclass(frozen=True)
class KernelArgument:
    """A tensor argument of a compiled kernel: what of it is read and written, and its size."""

    read_bytes: int
    written_bytes: int
    size_bytes: int


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel that a compiler made: the ops in it, what its loops compute, what it touches.

    `work` counts elements per operation of its loops, `products` are ops of templates.
    `symbolic`: sizes vary from call to call; all figures are for those it was compiled with.
    """

    name: str
    ops: tuple[str, ...]
    work: tuple[tuple[LoopOp, int], ...]
    products: tuple[Described, ...]
    arguments: tuple[KernelArgument, ...]
    module: str | None
    source: str | None
    phase: str | None
    symbolic: bool = False


@dataclass(frozen=True)
class ExternCall:
    """An op that compiled code calls as it is, and where it comes from."""

    op: str
    module: str | None
    source: str | None


@dataclass(frozen=True)
class GraphSeen:
    """A compiled graph: the numbers of its kernels by name, and the ops that it calls."""

    phase: str | None
    kernels: tuple[tuple[str, int], ...]
    externs: tuple[ExternCall, ...]


_TYPES: dict[str, Callable[..., object]] = {
    kind.__name__: kind
    for kind in (
        Described, TensorSeen, LoopOp, KernelArgument, CompiledKernel, ExternCall, GraphSeen,
    )
}  # fmt: skip
_MARK = "\0"


def plain(value: object) -> object:  # noqa: PLR0911
    """A value as plain data that a record can hold.

    >>> restored(plain((TensorSeen((2,), "float", (1,), 7, 0, 4, "cpu"), [1, None])))
    (TensorSeen(shape=(2,), dtype='float', strides=(1,), storage=7, offset=0, item_bytes=4, device='cpu'), [1, None])
    """  # noqa: E501
    if is_dataclass(value) and not isinstance(value, type):
        own = [plain(getattr(value, f.name)) for f in fields(value)]
        return (_MARK + type(value).__name__, *own)
    if isinstance(value, LoopOp):
        return (_MARK + "LoopOp", *value)
    if isinstance(value, tuple):
        return tuple(plain(v) for v in value)
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {plain(k): plain(v) for k, v in value.items()}
    if value is None or isinstance(value, (bool, str, bytes)):
        return value
    if isinstance(value, int):
        return int(value)
    return float(value) if isinstance(value, float) else str(value)


def restored(value: object) -> object:
    """The value whose plain form this is."""
    if isinstance(value, tuple):
        head = value[0] if value else None
        if isinstance(head, str) and head.startswith(_MARK):
            return _TYPES[head[1:]](*(restored(v) for v in value[1:]))
        return tuple(restored(v) for v in value)
    if isinstance(value, list):
        return [restored(v) for v in value]
    if isinstance(value, dict):
        return {restored(k): restored(v) for k, v in value.items()}
    return value


__all__ = [
    "BACKWARD_SCOPE", "OP_SCOPE", "USER_SCOPE", "CompiledKernel", "Described", "ExternCall",
    "GraphSeen", "KernelArgument", "LoopOp", "TensorSeen", "plain", "restored",
]  # fmt: skip
