"""Shapes of results, from shapes of arguments alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from timeroof.work.call import INTEGER, Tensor, UncountableError, is_floating, nature, promote

Shape = tuple[int, ...]


def broadcast(*shapes: Sequence[int]) -> Shape:
    """The common shape of shapes, NumPy's rule.

    >>> broadcast((8, 1, 4), (3, 1))
    (8, 3, 4)
    """
    rank = max((len(s) for s in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for place, size in enumerate(shape, rank - len(shape)):
            if size != 1 and result[place] not in (1, size):
                raise UncountableError(f"shapes {list(shapes[0])} and {list(shape)} do not fit")
            if size != 1:
                result[place] = size
    return tuple(result)


def promoted(tensors: Iterable[Tensor], *, floats: bool = False) -> str:
    """The format of an element-wise result; tensors without dimensions do not widen others.

    >>> promoted([Tensor((2,), "fp16"), Tensor((), "fp64")])
    'fp16'
    """
    groups = [t for t in tensors if t.shape], [t for t in tensors if not t.shape]
    result: str | None = None
    for t in groups[0] or groups[1]:
        result = t.dtype if result is None else promote(result, t.dtype)
    for t in groups[1]:
        if result is not None and _category(t.dtype) > _category(result):
            result = promote(result, t.dtype)
    result = result or "fp32"
    return result if is_floating(result) or not floats else "fp32"


def _category(dtype: str) -> int:
    if is_floating(dtype):
        return 2
    return 1 if nature(dtype) == INTEGER else 0


def axes(dims: Sequence[int], rank: int) -> tuple[int, ...]:
    """Dimensions counted from the front, each once; none named means all of them.

    >>> axes([-1], 3), axes([], 2)
    ((2,), (0, 1))
    """
    if not dims:
        return tuple(range(rank))
    if any(not -max(rank, 1) <= d < max(rank, 1) for d in dims):
        raise UncountableError(f"dimension {list(dims)} is not among {rank}")
    return tuple(sorted({d % max(rank, 1) for d in dims if rank}))


def reduced_shape(shape: Shape, dims: Sequence[int], keepdim: bool) -> Shape:
    """The shape that is left after reducing some dimensions.

    >>> reduced_shape((2, 3, 4), [1], False), reduced_shape((2, 3, 4), [], True)
    ((2, 4), (1, 1, 1))
    """
    gone = axes(dims, len(shape))
    if keepdim:
        return tuple(1 if i in gone else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in gone)


def window_count(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """How many windows fit along one dimension (convolution arithmetic, floor mode).

    >>> window_count(112, 3, 2, 0, 1)
    55
    """
    if stride < 1 or kernel < 1 or dilation < 1:
        raise UncountableError("a window, stride or dilation below 1")
    return max((size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1, 0)


def touched(size: int, windows: int, kernel: int, stride: int, dilation: int) -> int:
    """How many places along one dimension some window touches, at most `size`.

    >>> touched(56, 28, 1, 2, 1)  # every second place
    28
    >>> touched(112, 55, 3, 2, 1)
    111
    """
    if not windows:
        return 0
    reach = (windows - 1) * stride + dilation * (kernel - 1) + 1
    return min(size, reach, windows * kernel)
