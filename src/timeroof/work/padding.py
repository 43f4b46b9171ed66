"""How many products of a convolution meet real input, and not padding.

By convention (torch's FlopCounterMode, the paper) every tap of every window counts. A tap
that lies in the padding multiplies with zero: nobody has to do that. Along one dimension
the pairs of window and tap inside the input are counted; dimensions multiply. Either
gradient has the same pairs: they join the same input, weight and result.
"""

from __future__ import annotations

from math import gcd

from timeroof.work.call import UncountableError

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
