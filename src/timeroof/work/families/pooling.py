"""Pooling: one comparison or addition per element of every window."""

from __future__ import annotations

from math import prod

from timeroof.work.call import Arg, Call, Tensor, UncountableError, flag, integers, ranked, tensor
from timeroof.work.cost import Cost, cost
from timeroof.work.registry import formula
from timeroof.work.shapes import window_count


def _spatial(call: Call) -> int:
    for rank in (1, 2, 3):
        if f"pool{rank}d" in call.op:
            return rank
    raise UncountableError("the number of spatial dimensions")


def pooled(
    call: Call, x: Tensor, kernel: Arg, stride: Arg, padding: Arg, dilation: Arg, ceil_mode: Arg
) -> tuple[Tensor, int]:
    """The result of a pooling and the size of its window."""
    n = _spatial(call)
    windows = integers(kernel, "the kernel size", n)
    steps = integers(stride, "stride", n) if stride not in (None, ()) else windows
    pads, wide = integers(padding, "padding", n), integers(dilation, "dilation", n)
    sizes = []
    for size, k, s, p, d in zip(x.shape[-n:], windows, steps, pads, wide, strict=True):
        count = window_count(size, k, s, p, d)
        if flag(ceil_mode, "ceil_mode", False):
            count = _ceiled(size, k, s, p, d)
        sizes.append(count)
    return Tensor((*x.shape[:-n], *sizes), x.dtype), prod(windows)


def _ceiled(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    count = -(-(size + 2 * padding - dilation * (kernel - 1) - 1) // stride) + 1
    return count - ((count - 1) * stride >= size + padding)


@formula(*(f"aten::max_pool{n}d_with_indices" for n in (1, 2, 3)))
@formula(*(f"aten::max_pool{n}d" for n in (1, 2, 3)), composite=True)
@formula("aten::mkldnn_max_pool2d", "aten::mkldnn_max_pool3d", "aten::quantized_max_pool2d")
def max_pool(
    call: Call, x: Tensor, kernel: Arg, stride: Arg = None, padding: Arg = 0, dilation: Arg = 1,
    ceil_mode: Arg = False,
) -> Cost:  # fmt: skip
    """The largest element of every window; with its place where a gradient will need it."""
    out, window = pooled(call, x, kernel, stride, padding, dilation, ceil_mode)
    places = Tensor(out.shape, "int64") if "with_indices" in call.op else None
    return cost([x], [out, places], other=(window - 1) * out.count)


@formula("aten::max_pool2d_with_indices_backward", "aten::max_pool3d_with_indices_backward")
def max_pool_backward(call: Call, grad: Tensor, x: Tensor) -> Cost:
    """Zeros, with every gradient added at the place of its window's largest element."""
    return cost([grad, Tensor(grad.shape, "int64")], [x], other=grad.count, dtype=grad.dtype)


@formula("aten::avg_pool1d", "aten::avg_pool2d", "aten::avg_pool3d", "aten::mkldnn_avg_pool2d",
         "aten::mkldnn_avg_pool3d")  # fmt: skip
def avg_pool(
    call: Call, x: Tensor, kernel: Arg, stride: Arg = None, padding: Arg = 0, ceil_mode: Arg = False
) -> Cost:
    """The mean of every window: an addition per element and a division."""
    out, window = pooled(call, x, kernel, stride, padding, 1, ceil_mode)
    return cost([x], [out], other=window * out.count)


@formula("aten::avg_pool2d_backward", "aten::avg_pool3d_backward")
def avg_pool_backward(call: Call, grad: Tensor, x: Tensor, kernel: Arg) -> Cost:
    """Every gradient, divided, added to all elements of its window."""
    window = prod(integers(kernel, "the kernel size", _spatial(call)))
    return cost([grad], [x], other=(window + 1) * grad.count, dtype=grad.dtype)


@formula(
    "aten::_adaptive_avg_pool2d", "aten::_adaptive_avg_pool3d", "aten::mkldnn_adaptive_avg_pool2d"
)
@formula(*(f"aten::adaptive_avg_pool{n}d" for n in (1, 2, 3)), composite=True)
def adaptive_avg_pool(call: Call, x: Tensor, output_size: Arg) -> Cost:
    """Means over windows that cover the input; a result of one place is a mean."""
    return cost([x], [_adapted(call, x, output_size)], other=x.count)


def _adapted(call: Call, x: Tensor, output_size: Arg) -> Tensor:
    n = _spatial(call)
    if isinstance(output_size, tuple):
        pairs = zip(output_size, x.shape[-n:], strict=True)
        output_size = tuple(old if new is None else new for new, old in pairs)
    return Tensor((*x.shape[:-n], *integers(output_size, "the output size", n)), x.dtype)


@formula("aten::adaptive_max_pool1d", "aten::adaptive_max_pool2d",
         "aten::adaptive_max_pool3d")  # fmt: skip
def adaptive_max_pool(call: Call, x: Tensor, output_size: Arg) -> Cost:
    """The largest element of windows that cover the input, with places."""
    out = _adapted(call, x, output_size)
    return cost([x], [out, Tensor(out.shape, "int64")], other=x.count)


@formula("aten::_adaptive_avg_pool2d_backward", "aten::_adaptive_avg_pool3d_backward",
         "aten::adaptive_max_pool2d_backward", "aten::adaptive_max_pool3d_backward")  # fmt: skip
def adaptive_backward(grad: Tensor, x: Tensor) -> Cost:
    """The gradient spread over the windows."""
    return cost([grad], [x], other=x.count, dtype=grad.dtype)


@formula("aten::max_unpool2d", "aten::max_unpool3d")
def max_unpool(x: Arg, indices: Arg, output_size: Arg) -> Cost:
    """Elements put back at their places in zeros."""
    found, places = ranked(x, "the input", 3, 4, 5), tensor(indices, "the places")
    sizes = integers(output_size, "the output size")
    out = Tensor((*found.shape[: -len(sizes)], *sizes), found.dtype)
    return cost([found, places], [out])


@formula("aten::fractional_max_pool2d", "aten::fractional_max_pool3d")
def fractional_max_pool(call: Call, x: Tensor, kernel: Arg, output_size: Arg) -> Cost:
    """The largest element of windows at random steps, with places."""
    out = _adapted(call, x, output_size)
    window = prod(integers(kernel, "the kernel size", _spatial(call)))
    return cost([x], [out, Tensor(out.shape, "int64")], other=(window - 1) * out.count)


# Resizing images. Per result: nearest 0, linear 3, bilinear 9, trilinear 21, bicubic 39.

_FLOPS = {"trilinear": 21, "bilinear": 9, "bicubic": 39, "linear": 3, "nearest": 0}
_PLAIN = "nearest1d nearest2d nearest3d linear1d bilinear2d trilinear3d bicubic2d"
_FURTHER = "nearest_exact1d nearest_exact2d nearest_exact3d bilinear2d_aa bicubic2d_aa"
_FORWARD = [f"aten::upsample_{n}" for n in _PLAIN.split()]
_FORWARD += [f"aten::_upsample_{n}" for n in _FURTHER.split()]


def _per_result(op: str) -> int:
    return next(flops for kind, flops in _FLOPS.items() if kind in op)


@formula(*_FORWARD)
def upsample(call: Call, x: Tensor, output_size: Arg = None, a: Arg = None, b: Arg = None) -> Cost:
    """The new size is given, or scale factors in one of the later places."""
    spatial = len(x.shape) - 2
    if isinstance(output_size, tuple) and output_size:
        sizes = integers(output_size, "the output size", spatial)
    else:
        sizes = _scaled(x, (a, b))
    out = Tensor((*x.shape[:2], *sizes), x.dtype)
    return cost([x], [out], other=_per_result(call.op) * out.count)


def _scaled(x: Tensor, places: tuple[Arg, ...]) -> tuple[int, ...]:
    factors = next((v for v in places if isinstance(v, tuple) and v), None)
    if factors is None:
        raise UncountableError("the output size is not recorded")
    pairs = zip(x.shape[2:], factors, strict=True)
    return tuple(int(n * f) for n, f in pairs if isinstance(f, int | float))


@formula(*(f"{name}_backward" for name in _FORWARD))
def upsample_backward(call: Call, grad: Tensor, output_size: Arg, input_size: Arg) -> Cost:
    """Every gradient spread back over the neighbours it came from."""
    out = Tensor(integers(input_size, "the input size"), grad.dtype)
    return cost([grad], [out], other=max(_per_result(call.op), 1) * grad.count)


@formula("aten::grid_sampler_2d", "aten::grid_sampler_3d", "aten::cudnn_grid_sampler")
@formula("aten::grid_sampler", "aten::affine_grid_generator", composite=True)
def grid_sampler(call: Call, x: Tensor, grid: Tensor) -> Cost:
    """Bilinear samples at given places."""
    out = Tensor((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
    return cost([x, grid], [out], other=(_FLOPS["bilinear"] + 8) * out.count)


@formula("aten::grid_sampler_2d_backward", "aten::grid_sampler_3d_backward")
def grid_sampler_backward(grad: Tensor, x: Tensor, grid: Tensor) -> Cost:
    """Gradients for the input and for the places."""
    return cost([grad, x, grid], [x, grid], other=34 * grad.count)


@formula("torchvision::roi_align", "torchvision::ps_roi_align")
def roi_align(x: Tensor, rois: Arg, scale: Arg, height: Arg, width: Arg, ratio: Arg = 2) -> Cost:
    """Bilinear samples per region and cell, averaged."""
    regions = tensor(rois, "the regions")
    cells = integers((height, width), "the size")
    samples = ratio * ratio if isinstance(ratio, int) and ratio > 0 else 4
    out = Tensor((regions.shape[0], x.shape[1], *cells), x.dtype)
    flops = out.count * samples * (_FLOPS["bilinear"] + 1)
    return cost([x, regions], [out], other=flops, origin="modelled")
