"""Algorithms that need fewer FLOPs than a direct convolution: their own counts.

Three numbers are never mixed: algorithmic FLOPs (from shapes), executed FLOPs (from
counters), and these, which the paper's FP32 rows are held against.

Winograd F(m×m, 3×3) after Lavin and Gray, "Fast Algorithms for Convolutional Neural
Networks", 2015: a tile of m×m results needs (m+2)² multiply-adds per pair of channels,
and transforms of input, filter and result whose operations they give per tile.
FFT: forward and inverse transforms of 2.5·n·log2(n) real FLOPs each and a complex
multiply-add (8 real FLOPs) per frequency and pair of channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2, prod

# Operations per tile: input transform, filter transform, inverse transform.
_TRANSFORMS = {2: (32, 28, 24), 4: (156, 72, 90)}


def reduced_flops(
    x: Sequence[int],
    weight: Sequence[int],
    out: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> dict[str, float]:
    """FLOPs by algorithm for a forward convolution; empty where none applies.

    >>> x, weight, out = (16, 64, 112, 112), (64, 64, 3, 3), (16, 64, 110, 110)
    >>> found = reduced_flops(x, weight, out, (1, 1), (1, 1))
    >>> round(found["winograd-2x2"] / (2 * 16 * 64 * 64 * 9 * 110**2), 2)
    0.46
    """
    if len(x) != 4 or set(stride) != {1} or set(dilation) != {1} or not prod(out):
        return {}
    found = {"fft": _fft(x, weight, out, groups)}
    if tuple(weight[2:]) == (3, 3):
        for tile, transforms in _TRANSFORMS.items():
            found[f"winograd-{tile}x{tile}"] = _winograd(weight, out, tile, transforms)
    return found


def _winograd(
    weight: Sequence[int], out: Sequence[int], tile: int, transforms: tuple[int, int, int]
) -> float:
    filters, channels = weight[0], weight[1]
    tiles = out[0] * ceil(out[2] / tile) * ceil(out[3] / tile)
    into, of_filter, back = transforms
    products = 2 * tiles * (tile + 2) ** 2 * filters * channels
    return float(
        products + tiles * (into * channels + back * filters) + of_filter * filters * channels
    )


def _fft(x: Sequence[int], weight: Sequence[int], out: Sequence[int], groups: int) -> float:
    size = x[2] * x[3]
    transform = 2.5 * size * log2(max(size, 2))
    transforms = x[0] * x[1] + weight[0] * weight[1] + out[0] * out[1]
    products = 8 * (size / 2) * x[0] * weight[0] * weight[1]
    return float(transforms * transform + products)
