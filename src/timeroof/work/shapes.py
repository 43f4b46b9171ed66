"""Shapes of results, from shapes of arguments alone; and the products of windows that meet input.

By convention (torch's FlopCounterMode, the paper) every tap of every window counts. A tap
that lies in the padding multiplies with zero: nobody has to do that. Along one dimension
the pairs of window and tap inside the input are counted; dimensions multiply. Either
gradient has the same pairs: they join the same input, weight and result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd

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


MAX_TAPS = 1 << 20


def real_taps(
    size: int, windows: int, kernel: int, stride: int, padding: int, dilation: int, spread: int = 1
) -> int:
    """Pairs (window, tap) along one dimension that lie inside the input.

    Window `o` has its tap `k` at place ``o*stride + k*dilation - padding`` of an input with
    `size` places; `padding` is the one before the input, and may be negative. With `spread`
    the input's elements lie that far apart, with zeros between them.

    >>> real_taps(4, 4, 3, 1, 1, 1)  # 4 windows of 3 taps; the first and last miss one
    10
    """
    if stride < 1 or dilation < 1 or spread < 1:
        raise UncountableError("a stride or dilation below 1")
    if min(size, windows, kernel) < 1:
        return 0
    if spread > 1:
        return _spread_taps(size, windows, kernel, stride, padding, dilation, spread)
    up_to_end = _places_up_to(size - 1 + padding, windows, kernel, stride, dilation)
    return up_to_end - _places_up_to(padding - 1, windows, kernel, stride, dilation)


def _places_up_to(last: int, windows: int, kernel: int, stride: int, dilation: int) -> int:
    """Pairs with ``o*stride + k*dilation <= last``: lattice points under a line, in a box."""
    if last < 0:
        return 0
    taps = min(kernel, last // dilation + 1)  # later taps lie behind the last place
    all_windows = last - (windows - 1) * stride
    full = min(taps, all_windows // dilation + 1) if all_windows >= 0 else 0
    rest = taps - full
    # The taps from the last one down: their first windows are fewer with every tap.
    lowest = last - (taps - 1) * dilation
    return full * windows + rest + _floor_sum(rest, stride, dilation, lowest)


def _floor_sum(count: int, divisor: int, step: int, first: int) -> int:
    """The sum of ``(first + i*step) // divisor`` over i below count, as Euclid would do it.

    >>> _floor_sum(4, 3, 2, 1), sum((1 + 2 * i) // 3 for i in range(4))
    (4, 4)
    """
    total = 0
    while count > 0:
        total += (step // divisor) * count * (count - 1) // 2 + (first // divisor) * count
        step, first = step % divisor, first % divisor
        end = step * count + first
        if end < divisor:
            break
        count, first, divisor, step = end // divisor, end % divisor, step, divisor
    return total


def _spread_taps(
    size: int, windows: int, kernel: int, stride: int, padding: int, dilation: int, spread: int
) -> int:
    """The same with zeros between elements: per tap, windows that hit a multiple of `spread`."""
    if kernel > MAX_TAPS:
        raise UncountableError("a window of an impossible size")
    common = gcd(stride, spread)
    every = spread // common
    inverse = pow(stride // common, -1, every) if every > 1 else 0
    found = 0
    for tap in range(kernel):
        shift = padding - tap * dilation  # o*stride = shift + a multiple of spread
        if shift % common:
            continue
        first = (shift // common) * inverse % every
        low = max(-(-shift // stride), 0)
        high = min((shift + (size - 1) * spread) // stride, windows - 1)
        first += -(-(low - first) // every) * every if first < low else 0
        found += (high - first) // every + 1 if first <= high else 0
    return found
