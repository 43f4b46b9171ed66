"""Our own saved runs (`.troof`), read like any other file, and the recorded calls within them.

The calls are packed as bytes, so that a saved run can still say how its amounts came about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import msgspec

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.core.run_file import SavedRun, load_run
from timeroof.read.formats import ReadOptions
from timeroof.read.open import Entry, Input
from timeroof.read.text import plain_file
from timeroof.work.call import Arg, Call, Tensor, Unrecorded
from timeroof.work.recorded import RecordedCall

# A tensor, what was not recorded, and a list, by their first entry.
_TENSOR, _UNRECORDED, _LIST = "t", "u", "l"
# Deeper arguments are no program's.
MAX_DEPTH = 8


# Op, inputs, outputs and named arguments.
_WrittenCall = tuple[str, list[object], list[object] | None, list[tuple[str, object]]]
# Shape, format, strides, and the number of the tensor whose memory it is.
_WrittenTensor = tuple[list[int], str, list[int] | None, int | None]


class _Packed(msgspec.Struct, array_like=True):
    """Each different call once, and the rows that are of it."""

    calls: list[_WrittenCall]
    rows: list[tuple[int, int, float | None, list[tuple[str, list[int]]], bool]]


def packed(calls: Mapping[int, object]) -> bytes:
    """The calls of a profile as bytes; none of none."""
    if not calls:
        return b""
    recorded = cast("Mapping[int, RecordedCall]", calls)
    different: dict[Call, int] = {}
    rows = [
        (
            row, different.setdefault(found.call, len(different)), found.times,
            [(name, list(grid)) for name, grid in found.launched], found.has_children,
        )
        for row, found in recorded.items()
    ]  # fmt: skip
    return msgspec.msgpack.encode(_Packed([_written(call) for call in different], rows))


def _written(call: Call) -> _WrittenCall:
    outputs = None if call.outputs is None else [_argument(t) for t in call.outputs]
    kwargs = [(key, _argument(value)) for key, value in call.kwargs]
    return call.op, [_argument(value) for value in call.inputs], outputs, kwargs


def _argument(value: Arg) -> object:
    if isinstance(value, Tensor):
        return [_TENSOR, value.shape, value.dtype, value.strides, value.alias_of]
    if isinstance(value, Unrecorded):
        return [_UNRECORDED, value.reason]
    if isinstance(value, tuple):
        return [_LIST, *(_argument(v) for v in value)]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return [_UNRECORDED, "a number that is too large"]
    return value


def unpacked(data: bytes, where: str) -> dict[int, RecordedCall]:
    """The calls that `packed` wrote."""
    if not data:
        return {}
    try:
        found = msgspec.msgpack.decode(data, type=_Packed)
        calls = [_call(written) for written in found.calls]
        return {
            row: RecordedCall(
                calls[code], times, tuple((n, tuple(grid)) for n, grid in launched), children
            )
            for row, code, times, launched, children in found.rows
        }
    except (msgspec.DecodeError, TypeError, ValueError, IndexError) as error:
        raise InputError(
            f"has recorded calls that cannot be read ({error})", where=where,
            advice="save it again with --save",
        ) from error  # fmt: skip


def _call(written: _WrittenCall) -> Call:
    op, inputs, outputs, kwargs = written
    read = None
    if outputs is not None:
        read = tuple(t for t in map(_value, outputs) if isinstance(t, Tensor))
    return Call(op, tuple(map(_value, inputs)), read, tuple((k, _value(v)) for k, v in kwargs))


def _value(value: object, depth: int = 0) -> Arg:
    if not isinstance(value, list):
        if value is None or isinstance(value, int | float | str):
            return value
        raise TypeError(f"an argument of type {type(value).__name__}")
    if depth > MAX_DEPTH:
        raise ValueError("arguments nest too deeply")
    head, *rest = value
    if head == _TENSOR:
        shape, dtype, strides, alias = msgspec.convert(rest, type=_WrittenTensor)
        return Tensor(tuple(shape), dtype, None if strides is None else tuple(strides), alias)
    if head == _UNRECORDED:
        return Unrecorded(str(rest[0]))
    return tuple(_value(v, depth + 1) for v in rest)


def load_entry(entry: Entry) -> SavedRun:
    """The run of an entry, with the machine that it was judged on and its recorded calls."""
    with plain_file(entry, ".troof") as path:
        run = load_run(path)
        whole = _with_calls(run, str(path))
        kinds = {name: _with_calls(kind, str(path)) for name, kind in run.kinds.items()}
        return replace(run, profile=replace(whole, kinds=kinds))


def _with_calls(run: SavedRun, where: str) -> Profile:
    return replace(run.profile, calls=unpacked(run.calls, where))


def read(found: Input, options: ReadOptions) -> Profile:
    """The profile alone; its amounts are counted already."""
    return replace(load_entry(found.only).profile, calls={})
