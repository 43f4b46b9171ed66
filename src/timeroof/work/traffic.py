"""Compulsory bytes: what an op must read and write at least once, however good its cache.

Unique bytes count. A dimension of stride 0 (broadcast) is read once, overlapping
windows are read once, the same tensor passed twice is read once.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from timeroof.work.call import Tensor
from timeroof.work.dtypes import FORMATS


def unique_elements(tensor: Tensor) -> int:
    """Elements of a tensor that lie at different places.

    >>> unique_elements(Tensor((8, 4), "fp32", (0, 1)))  # a row, broadcast
    4
    >>> unique_elements(Tensor((3, 4), "fp32", (1, 1)))  # windows that overlap
    6
    """
    strides = tensor.strides
    if strides is None or len(strides) != len(tensor.shape) or 0 in tensor.shape:
        return tensor.count
    sizes = [(n, s) for n, s in zip(tensor.shape, strides, strict=True) if s != 0]
    reach = 1 + sum((n - 1) * abs(s) for n, s in sizes)
    return min(prod(n for n, _ in sizes), reach)


def unique_bytes(tensor: Tensor) -> int:
    """Bytes of a tensor that lie at different places."""
    return -(-unique_elements(tensor) * FORMATS[tensor.dtype].bits // 8)


def read_bytes(tensors: Iterable[Tensor | None]) -> int:
    """Bytes that must be read; a tensor that repeats an earlier one adds nothing."""
    return sum(unique_bytes(t) for t in tensors if t is not None and t.alias_of is None)


def written_bytes(tensors: Iterable[Tensor | None]) -> int:
    """Bytes that must be written: results are dense, whatever strides an operand of their
    shape may have.
    """
    return sum(t.size_bytes for t in tensors if t is not None)
