"""Convolution: 2·N·K·(C/groups)·R·S·P·Q FLOPs, and as many again for either gradient.

The algorithmic count of a direct convolution, padding included, as the paper and torch
count it; `Cost.padding_flops` says how many of these have padding as a factor.
"""

from __future__ import annotations

from math import prod

import msgspec

from timeroof.work import call as args
from timeroof.work.call import Arg, Call, Tensor, UncountableError, Unrecorded
from timeroof.work.cost import Cost, cost
from timeroof.work.registry import formula
from timeroof.work.shapes import real_taps, touched, window_count
from timeroof.work.traced import called, real

# Names of sizes in the formulas' texts: N samples, C channels of H·W places, K filters of R·S
# taps on Cg channels each; P·Q are the windows.
SIZES = "x=N,C,H,W weight=K,Cg,R,S grad=N,K,P,Q bias=K"


class Convolution(msgspec.Struct, frozen=True):
    """A convolution with all its sizes known; `x` and `weight` as the forward pass has them."""

    x: Tensor
    weight: Tensor
    out: Tensor
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    transposed: bool = False
    # Distance of the input's elements, zeros between them (JAX's lhs_dilation).
    spread: tuple[int, ...] | None = None

    @property
    def flops(self) -> int:
        """2 FLOPs per weight and window; a transposed one has a window per input place."""
        windows = self.x if self.transposed else self.out
        return 2 * windows.shape[0] * prod(windows.shape[2:]) * self.weight.count

    @property
    def real_flops(self) -> int:
        """FLOPs that meet real input, in the forward pass and in either gradient.

        A transposed convolution's windows lie on its result, and what sticks out is cut off.
        """
        here, there = (self.x, self.out) if self.transposed else (self.out, self.x)
        kernel = self.weight.shape[2:]
        places = zip(
            there.shape[2:], here.shape[2:], kernel, self.stride, self.padding, self.dilation,
            self.spread or (1,) * len(kernel), strict=True,
        )  # fmt: skip
        taps = prod(called(f"taps{i}", real_taps(*p)) for i, p in enumerate(places))
        return 2 * here.shape[0] * taps * (self.weight.count // max(prod(kernel), 1))

    @property
    def padding_flops(self) -> int:
        """FLOPs with padding as a factor: counted by convention, owed by nobody."""
        return self.flops - self.real_flops

    def touched_input(self) -> Tensor:
        """The part of the input that some window touches."""
        if self.transposed:
            return self.x
        places = zip(
            self.x.shape[2:], self.out.shape[2:], self.weight.shape[2:], self.stride, self.dilation,
            strict=True,
        )  # fmt: skip
        spatial = tuple(touched(*p) for p in places)
        if spatial == self.x.shape[2:]:
            return self.x
        return Tensor((*self.x.shape[:2], *spatial), self.x.dtype)


def convolution(
    x: Arg, weight: Arg, stride: Arg, padding: Arg, dilation: Arg, groups: Arg,
    transposed: bool = False, output_padding: Arg = 0,
) -> Convolution:  # fmt: skip
    """Work out a convolution's sizes from an op's arguments."""
    w = args.ranked(weight, "the weight", 3, 4, 5)
    spatial = len(w.shape) - 2
    x = batched(args.ranked(x, "the input", spatial + 1, spatial + 2), spatial)
    step = args.integers(stride, "stride", spatial)
    wide = args.integers(dilation, "dilation", spatial)
    parts = args.integer(groups, "groups")
    if parts < 1 or x.shape[1] != w.shape[0 if transposed else 1] * (1 if transposed else parts):
        raise UncountableError(f"weight {list(w.shape)} does not fit input {list(x.shape)}")
    pad = _padding(padding, w, x, step, wide)
    if transposed:
        more = args.integers(output_padding, "output padding", spatial)
        sizes = tuple(
            (n - 1) * s - 2 * p + d * (k - 1) + e + 1
            for n, s, p, d, k, e in zip(
                x.shape[2:], step, pad, wide, w.shape[2:], more, strict=True
            )
        )
        channels = w.shape[1] * parts
    else:
        places = zip(x.shape[2:], w.shape[2:], step, pad, wide, strict=True)
        sizes, channels = tuple(window_count(*p) for p in places), w.shape[0]
        if isinstance(padding, str) and padding.lower() == "same":
            sizes = x.shape[2:]  # an odd place of padding goes behind
    sizes = tuple(called(name, n) for name, n in zip("PQT", sizes, strict=False))
    out = Tensor((x.shape[0], channels, *sizes), x.dtype)
    return Convolution(x, w, out, step, pad, wide, parts, transposed)


def fitted(x: Arg, weight: Arg, out: Tensor) -> Convolution:
    """The convolution that leads to a result of known size, where no value was recorded.

    >>> conv = fitted(Tensor((8, 3, 224, 224)), Tensor((64, 3, 7, 7)), Tensor((8, 64, 112, 112)))
    >>> conv.stride, conv.padding, conv.groups
    ((2, 2), (3, 3), 1)
    """
    w = args.ranked(weight, "the weight", 3, 4, 5)
    spatial = len(w.shape) - 2
    x, out = (batched(args.tensor(t, "the input"), spatial) for t in (x, out))
    parts = max(x.shape[1] // max(w.shape[1], 1), 1)
    places = zip(x.shape[2:], w.shape[2:], out.shape[2:], strict=False)
    sizes = [_window(*place) for place in places]
    if len(out.shape) != len(w.shape) or out.shape[1] != w.shape[0] or None in sizes:
        raise UncountableError(f"result {list(out.shape)} does not fit input {list(x.shape)}")
    stride, padding = zip(*(s for s in sizes if s is not None), strict=True)
    return convolution(x, w, stride, padding, (1,) * spatial, parts)


def _window(size: int, kernel: int, results: int) -> tuple[int, int] | None:
    """The smallest stride and padding that give so many windows."""
    for stride in range(1, max(size, 1) + 1):
        padding = max(-(-((results - 1) * stride + kernel - size) // 2), 0)
        if padding < kernel and window_count(size, kernel, stride, padding, 1) == results:
            return stride, padding
    return None


def batched(x: Tensor, spatial: int) -> Tensor:
    """The input with its batch dimension, which torch lets one leave out."""
    return x if len(x.shape) == spatial + 2 else Tensor((1, *x.shape), x.dtype)


def _padding(
    padding: Arg, w: Tensor, x: Tensor, stride: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[int, ...]:
    if not isinstance(padding, str):
        return args.integers(padding, "padding", len(w.shape) - 2)
    if padding.lower() == "valid":
        return (0,) * (len(w.shape) - 2)
    if padding.lower() != "same" or set(stride) != {1}:
        raise UncountableError(f"padding {padding!r}")
    return tuple(d * (k - 1) // 2 for d, k in zip(dilation, w.shape[2:], strict=True))


def forward_cost(
    conv: Convolution, bias: Tensor | None = None, other: float = 0, extra: Tensor | None = None
) -> Cost:
    """The forward pass; adding the bias is one FLOP per result."""
    found = cost(
        [conv.touched_input(), conv.weight, bias, extra],
        [conv.out],
        contraction=conv.flops,
        other=other + (conv.out.count if bias else 0),
        dtype=conv.x.dtype,
    )
    return msgspec.structs.replace(found, padding_flops=real(conv.padding_flops))


@formula(
    "aten::convolution", "aten::convolution_overrideable", "aten::_convolution", composite=True
)
@formula("aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::_convolution_mode", composite=True,
         order="x weight bias stride padding dilation groups")  # fmt: skip
@formula("aten::mkldnn_convolution", "aten::miopen_convolution", "onednn::convolution",
         "aten::miopen_depthwise_convolution", "aten::_nnpack_spatial_convolution",
         "mkldnn::_convolution_pointwise",
         order="x weight bias padding stride dilation groups")  # fmt: skip
@formula("aten::cudnn_convolution", "cudnn::convolution",
         order="x weight padding stride dilation groups")  # fmt: skip
def any_convolution(
    call: Call, x: Arg, weight: Arg, bias: Tensor | None = None, stride: Arg = 1, padding: Arg = 0,
    dilation: Arg = 1, transposed: Arg = False, output_padding: Arg = 0, groups: Arg = 1,
) -> Cost:  # fmt: skip
    """Any convolution: torch's own ops, whose padding may be a word, and the libraries'."""
    if isinstance(stride, Unrecorded) and call.outputs and "transpose" not in call.op:
        found = forward_cost(fitted(x, weight, call.outputs[0]), bias)
        return msgspec.structs.replace(found, origin="inferred")
    turned = args.flag(transposed, "transposed")
    conv = convolution(x, weight, stride, padding, dilation, groups, turned, output_padding)
    return forward_cost(conv, bias)


@formula("aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d",
         composite=True)  # fmt: skip
@formula("aten::cudnn_convolution_transpose",
         order="x weight padding output_padding stride dilation groups")  # fmt: skip
@formula("aten::miopen_convolution_transpose", "mkldnn::_convolution_transpose_pointwise",
         order="x weight bias padding output_padding stride dilation groups")  # fmt: skip
@formula("aten::slow_conv_transpose2d", "aten::slow_conv_transpose3d",
         order="x weight _ bias stride padding output_padding dilation")  # fmt: skip
def any_transposed(
    call: Call, x: Arg, weight: Arg, bias: Tensor | None = None, stride: Arg = 1, padding: Arg = 0,
    output_padding: Arg = 0, groups: Arg = 1, dilation: Arg = 1,
) -> Cost:  # fmt: skip
    """Transposed convolution in its functional forms and in the libraries'."""
    sizes = (stride, padding, dilation, True, output_padding, groups)
    return any_convolution(call, x, weight, bias, *sizes)


@formula("aten::cudnn_convolution_relu", "aten::miopen_convolution_relu")
def convolution_relu(
    x: Arg, weight: Arg, bias: Tensor | None = None, stride: Arg = 1, padding: Arg = 0,
    dilation: Arg = 1, groups: Arg = 1,
) -> Cost:  # fmt: skip
    """Convolution, bias and relu in one kernel."""
    conv = convolution(x, weight, stride, padding, dilation, groups)
    return forward_cost(conv, bias, other=conv.out.count)


@formula("aten::cudnn_convolution_add_relu", "aten::miopen_convolution_add_relu",
         order="x weight z _ bias stride padding dilation groups")  # fmt: skip
def convolution_add_relu(
    x: Arg, weight: Arg, z: Arg, bias: Tensor | None = None, stride: Arg = 1,
    padding: Arg = 0, dilation: Arg = 1, groups: Arg = 1,
) -> Cost:  # fmt: skip
    """Convolution, bias, residual and relu in one kernel."""
    conv = convolution(x, weight, stride, padding, dilation, groups)
    return forward_cost(conv, bias, other=2 * conv.out.count, extra=args.tensor(z))


@formula("aten::_slow_conv2d_forward", "aten::slow_conv3d_forward", "aten::_conv_depthwise2d",
         "aten::conv_depthwise3d", "aten::slow_conv_dilated2d", "aten::slow_conv_dilated3d",
         order="x weight _ bias stride padding dilation")  # fmt: skip
@formula("aten::thnn_conv2d", order="x weight _ bias stride padding dilation", composite=True)
def native_convolution(
    x: Tensor, weight: Arg, bias: Tensor | None = None, stride: Arg = 1, padding: Arg = 0,
    dilation: Arg = 1,
) -> Cost:  # fmt: skip
    """torch's own convolutions; depthwise ones tell their groups by the weight's shape."""
    w = args.ranked(weight, "the weight", 4, 5)
    wide = dilation if isinstance(dilation, tuple) else 1
    groups = x.shape[-len(w.shape) + 1] // max(w.shape[1], 1)
    return forward_cost(convolution(x, weight, stride, padding, wide, groups), bias)


def backward_cost(conv: Convolution, grad: Tensor, mask: tuple[bool, ...]) -> Cost:
    """The wanted gradients in one call: the incoming gradient is read once."""
    passes = mask[0] + mask[1]
    bias = Tensor((grad.shape[1],), grad.dtype)
    found = cost(
        [grad, conv.weight if mask[0] else None, conv.touched_input() if mask[1] else None],
        [conv.x if mask[0] else None, conv.weight if mask[1] else None, bias if mask[2] else None],
        contraction=conv.flops * passes,
        other=grad.count if mask[2] else 0,
        dtype=grad.dtype,
    )
    return msgspec.structs.replace(found, padding_flops=real(conv.padding_flops * passes))


@formula("aten::convolution_backward", "aten::convolution_backward_overrideable",
         order="grad x weight _ stride padding dilation transposed output_padding groups "
         "output_mask")  # fmt: skip
@formula("aten::_slow_conv2d_backward", order="grad x weight _ stride padding output_mask")
def convolution_backward(
    grad: Tensor, x: Arg, weight: Arg, stride: Arg = 1, padding: Arg = 0, dilation: Arg = 1,
    transposed: Arg = False, output_padding: Arg = 0, groups: Arg = 1, output_mask: Arg = None,
) -> Cost:  # fmt: skip
    """Gradients for input, weight and bias, as `output_mask` asks."""
    turned = args.flag(transposed, "transposed")
    conv = convolution(x, weight, stride, padding, dilation, groups, turned, output_padding)
    return backward_cost(conv, _fitting(grad, conv), args.flags(output_mask, "output_mask", 3))


def _fitting(grad: Tensor, conv: Convolution) -> Tensor:
    found = batched(grad, len(conv.x.shape) - 2)
    if found.shape != conv.out.shape:
        raise UncountableError(f"gradient {list(found.shape)} is not {list(conv.out.shape)}")
    return found


@formula("aten::mkldnn_convolution_backward", "aten::miopen_convolution_backward",
         "aten::cudnn_convolution_backward")  # fmt: skip
def library_backward(
    call: Call, x: Arg, grad: Tensor, weight: Arg, padding: Arg = 0, stride: Arg = 1,
    dilation: Arg = 1, groups: Arg = 1,
) -> Cost:  # fmt: skip
    """The libraries' own backward ops of older versions; the mask comes last."""
    conv = convolution(x, weight, stride, padding, dilation, groups)
    masks = [r for r in call.inputs[7:] if isinstance(r, tuple)]
    mask = args.flags(masks[-1] if masks else None, "output_mask", 2)
    return backward_cost(
        conv, _fitting(grad, conv), (*mask[:2], mask[2] if len(mask) > 2 else False)
    )
