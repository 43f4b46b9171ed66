"""One call of an op, in words of no framework: a name, shapes, formats and arguments.

A `Call` is hashable, so that equal calls are counted once. Live programs and trace
files both end here; `timeroof.work.recorded` builds calls from what profilers wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Union

import msgspec

from timeroof.work.dtypes import FORMATS


class Tensor(msgspec.Struct, frozen=True, cache_hash=True):
    """Shape, number format and strides (in elements) of a tensor.

    `alias_of` is the place, among the tensors of a call counted from 0, of an earlier
    one with the same data: ``mul(x, x)`` reads one tensor, not two.

    >>> Tensor((2, 3), "fp32").count, Tensor((2, 3), "fp32").size_bytes
    (6, 24)
    """

    shape: tuple[int, ...]
    dtype: str = "fp32"
    strides: tuple[int, ...] | None = None
    alias_of: int | None = None

    @property
    def count(self) -> int:
        """How many elements the shape has."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of a dense tensor of this shape; the format must be a known one."""
        return -(-self.count * FORMATS[self.dtype].bits // 8)


class Unrecorded(msgspec.Struct, frozen=True, cache_hash=True):
    """An argument that was there but whose value nobody wrote down, and why."""

    reason: str = "not recorded"


Arg = Union[Tensor, Unrecorded, int, float, bool, str, None, tuple["Arg", ...]]  # noqa: UP007


class Call(msgspec.Struct, frozen=True, cache_hash=True):
    """An op with its arguments, and its outputs where they were recorded."""

    op: str
    inputs: tuple[Arg, ...] = ()
    outputs: tuple[Tensor, ...] | None = None
    kwargs: tuple[tuple[str, Arg], ...] = ()

    @classmethod
    def of(
        cls, op: str, *inputs: object, outputs: Sequence[Tensor] | None = None, **kwargs: object
    ) -> Call:
        """A call with lists turned into tuples, and keyword arguments in order.

        >>> Call.of("aten::sum", Tensor((2, 3)), [0], keepdim=True).inputs[1]
        (0,)
        """
        return cls(
            op,
            tuple(frozen(v) for v in inputs),
            None if outputs is None else tuple(outputs),
            tuple(sorted((k, frozen(v)) for k, v in kwargs.items())),
        )


def frozen(value: object) -> Arg:
    """A value as a call can hold it: lists as tuples, what is strange as unrecorded.

    >>> frozen([1, [2, 3], None])
    (1, (2, 3), None)
    >>> frozen(object)
    Unrecorded(reason='a value of type type')
    """
    if value is None or isinstance(value, Tensor | Unrecorded | int | float | str):
        return value
    if isinstance(value, Mapping):
        return tuple((str(k), frozen(v)) for k, v in value.items())
    if isinstance(value, Sequence | set | frozenset):
        return tuple(frozen(v) for v in value)
    return Unrecorded(f"a value of type {type(value).__name__}")
