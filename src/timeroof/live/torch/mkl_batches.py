"""Batches of products (``bmm``) as calls of MKL: one line each, which tells no sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from timeroof.live.calls import flat
from timeroof.live.torch.recording import Described, TensorSeen
from timeroof.work.dtypes import parse_dtype

# Where the two operands are.
_BATCHES = {"aten::bmm": 0, "aten::baddbmm": 1, "aten::baddbmm_": 1}
_ROUTINE = re.compile(r"(?:cblas_)?([sdcz])gemm\w*_batch\w*")
_FORMATS = {"s": "fp32", "d": "fp64", "c": "complex64", "z": "complex128"}
# Multiplications in one product of a batch below which torch uses loops of its own.
LEAST_PRODUCT = 400


def is_batch(routine: str) -> bool:
    """Whether a line is a whole batch of products.

    >>> is_batch("sgemm_batch"), is_batch("sgemm")
    (True, False)
    """
    return _ROUTINE.fullmatch(routine) is not None


def format_of(routine: str) -> str | None:
    """The number format of a batch's line.

    >>> format_of("dgemm_batch")
    'fp64'
    """
    found = _ROUTINE.fullmatch(routine)
    return _FORMATS[found[1]] if found else None


Operands = tuple[TensorSeen, TensorSeen]


def operands(op: Described, places: Mapping[str, int]) -> Operands | None:
    """The two operands of a product; None of another op, or where they were not seen."""
    place = places.get(op.name.removesuffix(".out"))
    tensors = flat(op.inputs)
    if place is None or len(tensors) < place + 2:
        return None
    first, second = tensors[place : place + 2]
    if not isinstance(first, TensorSeen) or not isinstance(second, TensorSeen):
        return None
    return first, second


def batch_of(op: Described) -> Operands | None:
    """The operands of a batch of products; None of another op."""
    found = operands(op, _BATCHES)
    return found if found and all(len(t.shape) == 3 for t in found) else None


def batched_format(op: Described) -> str | None:
    """The format of the one line that an op writes for all of its products; None where none.

    torch hands a batch to MKL as a whole if its products are not tiny and each matrix has
    rows or columns in one piece. A batch of one is a plain product; all else is done matrix
    by matrix, or by torch itself.
    """
    found = batch_of(op)
    if found is None:
        return None
    first, second = found
    batch, rows, inner = first.shape
    columns = second.shape[2]
    if batch < 2 or rows * inner * columns < LEAST_PRODUCT:
        return None
    results = [t for t in flat(op.outputs) if isinstance(t, TensorSeen)]
    if not all(map(_in_pieces, found)) or not all(map(_is_contiguous, results[:1])):
        return None
    dtype = parse_dtype(first.dtype)
    return dtype if dtype in _FORMATS.values() else None


def _in_pieces(tensor: TensorSeen) -> bool:
    """Whether every matrix of a batch has its rows, or its columns, in one piece."""
    if len(tensor.strides) != len(tensor.shape):
        return True
    (_, rows, columns), (_, down, along) = tensor.shape, tensor.strides
    return (along == 1 and down >= columns) or (down == 1 and along >= rows)


def _is_contiguous(tensor: TensorSeen) -> bool:
    if len(tensor.strides) != len(tensor.shape):
        return True
    step = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def in_order(lines: Sequence[int], ops: Sequence[int]) -> dict[int, int]:
    """Lines of a format to the ops of the same, one each; none where their numbers differ.

    >>> in_order([3, 8], [10, 12]), in_order([3, 8], [10])
    ({3: 10, 8: 12}, {})
    """
    return dict(zip(lines, ops, strict=True)) if len(lines) == len(ops) else {}
