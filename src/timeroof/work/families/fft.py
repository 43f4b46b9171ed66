"""Fourier transforms: 5·n·log2(n) real FLOPs per complex transform, half for real ones.

The convention of FFTW's benchmarks (http://www.fftw.org/speed/), of a radix-2 transform.
"""

from __future__ import annotations

from math import log2

from timeroof.work.call import REAL_PART, Arg, Tensor, flag, integers, tensor
from timeroof.work.cost import Cost, cost, other_in
from timeroof.work.registry import formula
from timeroof.work.shapes import axes

_COMPLEX_OF = {"fp16": "complex32", "fp32": "complex64", "fp64": "complex128"}


def _transform(x: Tensor, dims: Arg, out: Tensor, size: Tensor, share: float) -> Cost:
    """The FLOPs of transforming some dimensions of `size` elements, one after the other."""
    real = REAL_PART.get(x.dtype, x.dtype)
    places = axes(integers(dims, "the dimensions"), len(size.shape))
    flops = sum(share * size.count * log2(max(size.shape[d], 2)) for d in places)
    found = cost([x], [out])
    return type(found)(
        other=other_in(real, flops), bytes_read=found.bytes_read, bytes_written=found.bytes_written
    )


@formula("aten::_fft_c2c")
def c2c(x: Arg, dim: Arg) -> Cost:
    """Complex to complex."""
    found = tensor(x, "the input")
    return _transform(found, dim, Tensor(found.shape, found.dtype), found, 5)


@formula("aten::_fft_r2c")
def r2c(x: Arg, dim: Arg, normalization: Arg = 0, onesided: Arg = True) -> Cost:
    """Real to complex; one-sided results have half the last dimension plus one."""
    found = tensor(x, "the input")
    last = axes(integers(dim, "the dimensions"), len(found.shape))[-1]
    half = flag(onesided, "onesided", True)
    shape = tuple(n // 2 + 1 if half and i == last else n for i, n in enumerate(found.shape))
    out = Tensor(shape, _COMPLEX_OF.get(found.dtype, "complex64"))
    return _transform(found, dim, out, found, 2.5)


@formula("aten::_fft_c2r")
def c2r(x: Arg, dim: Arg, normalization: Arg = 0, last_dim_size: Arg = None) -> Cost:
    """Complex to real."""
    found = tensor(x, "the input")
    last = axes(integers(dim, "the dimensions"), len(found.shape))[-1]
    size = last_dim_size if isinstance(last_dim_size, int) else 2 * (found.shape[last] - 1)
    shape = tuple(size if i == last else n for i, n in enumerate(found.shape))
    out = Tensor(shape, REAL_PART.get(found.dtype, "fp32"))
    return _transform(found, dim, out, out, 2.5)


@formula("aten::fft_fft", "aten::fft_ifft", "aten::fft_rfft", "aten::fft_irfft", "aten::fft_fft2",
         "aten::fft_ifft2", "aten::fft_rfft2", "aten::fft_irfft2", "aten::fft_fftn",
         "aten::fft_ifftn", "aten::fft_rfftn", "aten::fft_irfftn", "aten::stft", "aten::istft",
         composite=True)  # fmt: skip
def above(x: Arg) -> Cost:
    """The ops that call the transforms above."""
    found = tensor(x, "the input")
    return cost([found], [found], other=2.5 * found.count * log2(max(found.shape[-1], 2)))
