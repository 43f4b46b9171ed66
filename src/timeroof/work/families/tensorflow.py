"""TensorFlow's ops, by the formulas that torch's ops have; images are NHWC, filters HWIO."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from timeroof.work.call import (
    Arg,
    Call,
    Tensor,
    UncountableError,
    flag,
    integers,
    optional,
    ranked,
    tensor,
    tensors,
)
from timeroof.work.cost import Cost, cost, merged
from timeroof.work.families.collectives import collective
from timeroof.work.families.conv import Convolution, backward_cost, forward_cost
from timeroof.work.families.elementwise import elementwise
from timeroof.work.families.jax import same_padding
from timeroof.work.families.normalization import batch_norm_cost
from timeroof.work.registry import formula
from timeroof.work.shapes import broadcast

_ELEMENTWISE = {
    "Add": 1, "AddV2": 1, "Sub": 1, "Mul": 1, "RealDiv": 1, "Div": 1, "Maximum": 1, "Minimum": 1,
    "Neg": 1, "Abs": 1, "Exp": 1, "Log": 1, "Sqrt": 1, "Rsqrt": 1, "Square": 1, "Tanh": 1,
    "Sigmoid": 4, "Relu": 1, "Relu6": 2, "Elu": 4, "Pow": 1, "Erf": 1,
    "SquaredDifference": 2, "ReluGrad": 1, "TanhGrad": 3, "SigmoidGrad": 3, "Select": 0,
    "SelectV2": 0, "Softplus": 4, "LeakyRelu": 2, "Selu": 5, "Erfc": 1, "Log1p": 1, "Expm1": 1,
    "Sin": 1, "Cos": 1, "Sign": 1, "Floor": 1, "Ceil": 1, "Round": 1, "Rint": 1, "Inv": 1,
    "Reciprocal": 1, "DivNoNan": 1, "FloorDiv": 2, "FloorMod": 3, "Mod": 3, "Softsign": 3,
    "EluGrad": 3, "SeluGrad": 3, "LeakyReluGrad": 2, "Relu6Grad": 2, "SoftplusGrad": 5,
    "RsqrtGrad": 4, "SqrtGrad": 3, "InvGrad": 3, "ReciprocalGrad": 3, "ClipByValue": 2,
    "BitwiseAnd": 0, "BitwiseOr": 0,
}  # fmt: skip
# Ops whose result is a truth.
_TRUTHS = {
    "Less": 1, "LessEqual": 1, "Greater": 1, "GreaterEqual": 1, "Equal": 1, "NotEqual": 1,
    "LogicalAnd": 0, "LogicalOr": 0, "LogicalNot": 0, "IsNan": 1, "IsInf": 1, "IsFinite": 1,
}  # fmt: skip


def _counter(flops: int, *, truth: bool = False) -> Callable[[Call], Cost]:
    def count(call: Call) -> Cost:
        return elementwise(call, flops, truth=truth)

    return count


for _name, _flops in _ELEMENTWISE.items():
    formula(f"tf::{_name}")(_counter(_flops))
for _name, _flops in _TRUTHS.items():
    formula(f"tf::{_name}")(_counter(_flops, truth=True))


@formula("tf::_UnaryOpsComposition")
def composed(given: Arg, names: Arg = ()) -> Cost:
    """Element-wise ops that TensorFlow made one: the array is read once and written once."""
    x = tensor(given, "the operand")
    ops = [str(name) for name in names] if isinstance(names, tuple) else []
    if not ops or any(name not in _ELEMENTWISE for name in ops):
        raise UncountableError("what it is made of is not known")
    return cost([x], [x], other=sum(_ELEMENTWISE[name] for name in ops) * x.count)


# What a fused op does beside its product: FLOPs per element of the result.
_FUSED = {"BiasAdd": 1, "Add": 1, "Relu": 1, "Relu6": 2, "Elu": 4, "LeakyRelu": 2, "Tanh": 1,
          "Sigmoid": 4, "GeluApproximate": 5, "GeluExact": 5, "FusedBatchNorm": 2}  # fmt: skip


def _with_fused(found: Cost, out: Tensor, dtype: str, fused: Arg) -> Cost:
    """A product with the element-wise ops that run on its result, a bias read once."""
    names = [str(name) for name in fused] if isinstance(fused, tuple) else []
    if any(name not in _FUSED for name in names):
        raise UncountableError(f"fused with {', '.join(n for n in names if n not in _FUSED)}")
    bias = [Tensor(out.shape[-1:], dtype)] if "BiasAdd" in names else []
    more = cost(bias, [], other=sum(_FUSED[n] for n in names) * out.count, dtype=dtype)
    return msgspec.structs.replace(
        found,
        other=merged(found.other, more.other),
        bytes_read=(found.bytes_read or 0.0) + (more.bytes_read or 0.0),
    )


@formula("tf::AddN")
def add_n(call: Call) -> Cost:
    """All operands are of one shape."""
    given = [one for one in call.inputs if isinstance(one, Tensor)]
    if not given:
        raise UncountableError("its operands were not recorded")
    return cost(given, given[:1], other=(len(given) - 1) * given[0].count)


@formula("tf::MatMul", "tf::_FusedMatMul", "tf::BatchMatMul", "tf::BatchMatMulV2",
         "tf::BatchMatMulV3")  # fmt: skip
def matmul(
    a: Arg, b: Arg, transpose_a: Arg = False, transpose_b: Arg = False, fused: Arg = ()
) -> Cost:
    """Matrices, or batches of them that broadcast; either may be transposed."""
    x, y = (tensor(v, f"the {n} operand") for v, n in ((a, "first"), (b, "second")))
    if min(len(x.shape), len(y.shape)) < 2:
        raise UncountableError("an operand is not a matrix")
    rows = x.shape[-2:][::-1] if flag(transpose_a, "", False) else x.shape[-2:]
    columns = y.shape[-2:][::-1] if flag(transpose_b, "", False) else y.shape[-2:]
    if rows[1] != columns[0]:
        raise UncountableError(f"inner sizes {rows[1]} and {columns[0]} differ")
    out = Tensor((*broadcast(x.shape[:-2], y.shape[:-2]), rows[0], columns[1]), x.dtype)
    found = cost([x, y], [out], contraction=2 * out.count * rows[1])
    return _with_fused(found, out, x.dtype, fused)


@formula("tf::Einsum", "tf::XlaEinsum")
def einsum(operands: Arg, equation: Arg) -> Cost:
    """One or two operands: every combination of all labels is one product."""
    found = tensors(operands, "the operands")
    left, _, right = str(equation).replace(" ", "").partition("->")
    names = left.split(",")
    if (
        "..." in left
        or len(names) != len(found)
        or any(len(n) != len(t.shape) for n, t in zip(names, found, strict=True))
    ):
        raise UncountableError(f"the equation {equation!r} does not name every size")
    size = {
        c: s for n, t in zip(names, found, strict=True) for c, s in zip(n, t.shape, strict=True)
    }
    out = Tensor(tuple(size[c] for c in right), found[0].dtype)
    if len(found) == 1:
        return cost(found, [out], other=found[0].count if len(right) < len(left) else 0)
    return cost(found, [out], contraction=2 * math.prod(size.values()))


def _convolution(
    shape: tuple[int, ...], kernel: Tensor, dtype: str, strides: Arg, padding: Arg,
    data_format: Arg, dilations: Arg = None,
) -> Convolution:  # fmt: skip
    first = data_format == "NCHW"
    if str(padding).upper() == "EXPLICIT":
        raise UncountableError("its padding is not recorded")
    n, c, *space = shape if first else (shape[0], shape[3], *shape[1:3])
    step, apart = (_spatial(v, what, first) for v, what in ((strides, "strides"), (dilations, "")))
    height, width, inner, filters = kernel.shape
    same = str(padding).upper() == "SAME"
    sizes, before = [], []
    for size, k, s, d in zip(space, (height, width), step, apart, strict=True):
        low, high = same_padding(size, k, s, d) if same else (0, 0)
        sizes.append(max((size + low + high - d * (k - 1) - 1) // s + 1, 0))
        before.append(low)
    x = Tensor((n, c, *space), dtype)
    weight = Tensor((filters, inner, height, width), dtype)
    out = Tensor((n, filters, *sizes), dtype)
    groups = max(c // max(inner, 1), 1)
    return Convolution(x, weight, out, step, tuple(before), apart, groups)


def _spatial(value: Arg, what: str, first: bool) -> tuple[int, ...]:
    """Height and width of an attribute with four numbers; ones where it need not be given."""
    if value is None and not what:
        return (1, 1)
    four = integers(value, what or "dilations", 4)
    return four[2:] if first else four[1:3]


@formula("tf::Conv2D", "tf::_FusedConv2D", "tf::DepthwiseConv2dNative",
         "tf::_FusedDepthwiseConv2dNative")  # fmt: skip
def conv2d(
    call: Call, x: Arg, kernel: Arg, strides: Arg = None, padding: Arg = "VALID",
    data_format: Arg = "NHWC", dilations: Arg = None, fused: Arg = (),
) -> Cost:  # fmt: skip
    """A 2-d convolution, perhaps with a bias and an activation in it."""
    found, w = ranked(x, "the input", 4), _filter(call, ranked(kernel, "the filter", 4))
    conv = _convolution(found.shape, w, found.dtype, strides, padding, data_format, dilations)
    last = Tensor((*conv.out.shape[:1], *conv.out.shape[2:], conv.out.shape[1]), found.dtype)
    return _with_fused(forward_cost(conv), last, found.dtype, fused)


def _filter(call: Call, kernel: Tensor) -> Tensor:
    """A filter as `Conv2D` has it; depthwise ones hold channels and filters of each."""
    if "Depthwise" not in call.op:
        return kernel
    height, width, channels, each = kernel.shape
    return Tensor((height, width, 1, channels * each), kernel.dtype)


@formula("tf::Conv2DBackpropFilter", "tf::DepthwiseConv2dNativeBackpropFilter")
def conv2d_weight(
    call: Call, x: Arg, filter_sizes: Arg, grad: Arg, strides: Arg = None, padding: Arg = "VALID",
    data_format: Arg = "NHWC", dilations: Arg = None, bias: Arg = False,
) -> Cost:  # fmt: skip
    """The gradient of the filter, and of a bias where it is fused."""
    found = ranked(x, "the input", 4)
    w = _filter(call, Tensor(integers(filter_sizes, "the filter's size", 4), found.dtype))
    conv = _convolution(found.shape, w, found.dtype, strides, padding, data_format, dilations)
    return backward_cost(conv, Tensor(conv.out.shape, found.dtype), (False, True, bool(bias)))


@formula("tf::Conv2DBackpropInput", "tf::DepthwiseConv2dNativeBackpropInput")
def conv2d_input(
    call: Call, input_sizes: Arg, kernel: Arg, grad: Arg, strides: Arg = None,
    padding: Arg = "VALID", data_format: Arg = "NHWC", dilations: Arg = None,
) -> Cost:  # fmt: skip
    """The gradient of the input."""
    w = _filter(call, ranked(kernel, "the filter", 4))
    shape = integers(input_sizes, "the input's size", 4)
    conv = _convolution(shape, w, w.dtype, strides, padding, data_format, dilations)
    return backward_cost(conv, Tensor(conv.out.shape, w.dtype), (True, False, False))


@formula("tf::FusedBatchNorm", "tf::FusedBatchNormV3")
def fused_batch_norm(
    x: Tensor, scale: Tensor | None, offset: Tensor | None, mean: Arg = None, variance: Arg = None,
    is_training: Arg = True,
) -> Cost:  # fmt: skip
    """Batch normalisation."""
    training = flag(is_training, "", True)
    moved = Tensor((x.shape[0], x.shape[-1], *x.shape[1:-1]), x.dtype)
    running = [] if training else [optional(mean), optional(variance)]
    return batch_norm_cost(moved, [scale, offset], running, training)


@formula("tf::BiasAdd", "tf::BiasAddV1")
def bias_add(x: Tensor, bias: Tensor) -> Cost:
    """One addition per element; the channels may be the second dimension or the last."""
    return cost([x, bias], [x], other=x.count)


@formula("tf::BiasAddGrad")
def bias_grad(grad: Tensor) -> Cost:
    """The sum over all but the channels."""
    return cost([grad], [Tensor(grad.shape[-1:], grad.dtype)], other=grad.count)


@formula("tf::Softmax", "tf::LogSoftmax")
def softmax(x: Tensor) -> Cost:
    """Softmax over the last dimension: 5 FLOPs per element."""
    return cost([x], [x], other=5 * x.count)


# What each collective is, by the words that all frameworks share.
COLLECTIVES = {
    **dict.fromkeys(("CollectiveReduce", "CollectiveReduceV2", "CollectiveReduceV3"), "allreduce"),
    **dict.fromkeys(("CollectiveGather", "CollectiveGatherV2"), "allgather"),
    **dict.fromkeys(("CollectiveBcastSend", "CollectiveBcastSendV2"), "send"),
    **dict.fromkeys(("CollectiveBcastRecv", "CollectiveBcastRecvV2"), "recv"),
    **dict.fromkeys(("CollectiveAllToAllV2", "CollectiveAllToAllV3"), "alltoall"),
    "CollectiveReduceScatterV2": "reducescatter", "CollectivePermute": "send",
    "NcclAllReduce": "allreduce", "_NcclReduceSend": "send", "_NcclReduceRecv": "recv",
    "_NcclBroadcastSend": "send", "_NcclBroadcastRecv": "recv",
}  # fmt: skip


@formula(*(f"tf::{name}" for name in COLLECTIVES))
def exchange(call: Call, message: Tensor, group_size: Arg = None) -> Cost:
    """What one device sends and what passes through its memory, by the size of the group."""
    kind = COLLECTIVES[call.op.removeprefix("tf::")]
    # Its own part of it is all that an op names; all parts are what goes round.
    whole = message
    if kind == "allgather" and isinstance(group_size, int):
        whole = Tensor((group_size, *message.shape), message.dtype)
    return collective(Call.of(f"collective::{kind}", message, whole, group_size=group_size))
