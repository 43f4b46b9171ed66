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


@formula(
    "aten::max_pool1d_with_indices",
    "aten::max_pool2d_with_indices",
    "aten::max_pool3d_with_indices",
)
def max_pool(
    call: Call, x: Arg, kernel: Arg, stride: Arg = None, padding: Arg = 0, dilation: Arg = 1,
    ceil_mode: Arg = False,
) -> Cost:  # fmt: skip
    """The largest element of every window, with its place."""
    found = tensor(x, "the input")
    out, window = pooled(call, found, kernel, stride, padding, dilation, ceil_mode)
    return cost([found], [out, Tensor(out.shape, "int64")], other=(window - 1) * out.count)


@formula("aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d", composite=True)
def max_pool_op(
    call: Call, x: Arg, kernel: Arg, stride: Arg = None, padding: Arg = 0, dilation: Arg = 1,
    ceil_mode: Arg = False,
) -> Cost:  # fmt: skip
    """The ops above; without places where nothing needs a gradient."""
    found = tensor(x, "the input")
    out, window = pooled(call, found, kernel, stride, padding, dilation, ceil_mode)
    return cost([found], [out], other=(window - 1) * out.count)


formula("aten::mkldnn_max_pool2d", "aten::mkldnn_max_pool3d", "aten::quantized_max_pool2d")(
    max_pool_op
)


@formula("aten::max_pool2d_with_indices_backward", "aten::max_pool3d_with_indices_backward")
def max_pool_backward(call: Call, grad: Arg, x: Arg) -> Cost:
    """Zeros, with every gradient added at the place of its window's largest element."""
    g, found = tensor(grad, "the gradient"), tensor(x, "the input")
    return cost([g, Tensor(g.shape, "int64")], [found], other=g.count, dtype=g.dtype)


@formula("aten::avg_pool1d", "aten::avg_pool2d", "aten::avg_pool3d", "aten::mkldnn_avg_pool2d",
         "aten::mkldnn_avg_pool3d")  # fmt: skip
def avg_pool(
    call: Call, x: Arg, kernel: Arg, stride: Arg = None, padding: Arg = 0, ceil_mode: Arg = False
) -> Cost:
    """The mean of every window: an addition per element and a division."""
    found = tensor(x, "the input")
    out, window = pooled(call, found, kernel, stride, padding, 1, ceil_mode)
    return cost([found], [out], other=window * out.count)


@formula("aten::avg_pool2d_backward", "aten::avg_pool3d_backward")
def avg_pool_backward(call: Call, grad: Arg, x: Arg, kernel: Arg) -> Cost:
    """Every gradient, divided, added to all elements of its window."""
    g, found = tensor(grad, "the gradient"), tensor(x, "the input")
    window = prod(integers(kernel, "the kernel size", _spatial(call)))
    return cost([g], [found], other=(window + 1) * g.count, dtype=g.dtype)


@formula(
    "aten::_adaptive_avg_pool2d", "aten::_adaptive_avg_pool3d", "aten::mkldnn_adaptive_avg_pool2d"
)
def adaptive_avg_pool(call: Call, x: Arg, output_size: Arg) -> Cost:
    """Means over windows that cover the input."""
    found = tensor(x, "the input")
    return cost([found], [_adapted(call, found, output_size)], other=found.count)


@formula(
    "aten::adaptive_avg_pool1d",
    "aten::adaptive_avg_pool2d",
    "aten::adaptive_avg_pool3d",
    composite=True,
)
def adaptive_avg_pool_op(call: Call, x: Arg, output_size: Arg) -> Cost:
    """The ops above; a result of one place is a mean."""
    return adaptive_avg_pool(call, x, output_size)


def _adapted(call: Call, x: Tensor, output_size: Arg) -> Tensor:
    n = _spatial(call)
    if isinstance(output_size, tuple):
        pairs = zip(output_size, x.shape[-n:], strict=True)
        output_size = tuple(old if new is None else new for new, old in pairs)
    return Tensor((*x.shape[:-n], *integers(output_size, "the output size", n)), x.dtype)


@formula("aten::adaptive_max_pool1d", "aten::adaptive_max_pool2d",
         "aten::adaptive_max_pool3d")  # fmt: skip
def adaptive_max_pool(call: Call, x: Arg, output_size: Arg) -> Cost:
    """The largest element of windows that cover the input, with places."""
    found = tensor(x, "the input")
    out = _adapted(call, found, output_size)
    return cost([found], [out, Tensor(out.shape, "int64")], other=found.count)


@formula("aten::_adaptive_avg_pool2d_backward", "aten::_adaptive_avg_pool3d_backward",
         "aten::adaptive_max_pool2d_backward", "aten::adaptive_max_pool3d_backward")  # fmt: skip
def adaptive_backward(grad: Arg, x: Arg) -> Cost:
    """The gradient spread over the windows."""
    g, found = tensor(grad, "the gradient"), tensor(x, "the input")
    return cost([g], [found], other=found.count, dtype=g.dtype)


@formula("aten::max_unpool2d", "aten::max_unpool3d")
def max_unpool(x: Arg, indices: Arg, output_size: Arg) -> Cost:
    """Elements put back at their places in zeros."""
    found, places = ranked(x, "the input", 3, 4, 5), tensor(indices, "the places")
    sizes = integers(output_size, "the output size")
    out = Tensor((*found.shape[: -len(sizes)], *sizes), found.dtype)
    return cost([found, places], [out])


@formula("aten::fractional_max_pool2d", "aten::fractional_max_pool3d")
def fractional_max_pool(call: Call, x: Arg, kernel: Arg, output_size: Arg) -> Cost:
    """The largest element of windows at random steps, with places."""
    found = tensor(x, "the input")
    out = _adapted(call, found, output_size)
    window = prod(integers(kernel, "the kernel size", _spatial(call)))
    return cost([found], [out, Tensor(out.shape, "int64")], other=(window - 1) * out.count)
