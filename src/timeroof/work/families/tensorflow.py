"""TensorFlow's ops, by the formulas that torch's ops have; images are NHWC, filters HWIO."""

from __future__ import annotations

from collections.abc import Callable

from timeroof.work.call import Arg, Call, Tensor, UncountableError, flag, integers, optional, ranked
from timeroof.work.cost import Cost, cost
from timeroof.work.families.conv import Convolution, backward_cost, forward_cost
from timeroof.work.families.elementwise import elementwise
from timeroof.work.families.jax import same_padding
from timeroof.work.families.normalization import batch_norm_cost
from timeroof.work.registry import formula

_ELEMENTWISE = {
    "Add": 1, "AddV2": 1, "Sub": 1, "Mul": 1, "RealDiv": 1, "Div": 1, "Maximum": 1, "Minimum": 1,
    "Neg": 1, "Abs": 1, "Exp": 1, "Log": 1, "Sqrt": 1, "Rsqrt": 1, "Square": 1, "Tanh": 1,
    "Sigmoid": 4, "Relu": 1, "Relu6": 2, "Elu": 4, "Pow": 1, "Erf": 1, "BiasAdd": 1, "AddN": 1,
    "SquaredDifference": 2, "ReluGrad": 1, "TanhGrad": 3, "SigmoidGrad": 3, "Select": 0,
    "SelectV2": 0, "Softplus": 4, "LeakyRelu": 2,
}  # fmt: skip


def _counter(flops: int) -> Callable[[Call], Cost]:
    def count(call: Call) -> Cost:
        return elementwise(call, flops)

    return count


for _name, _flops in _ELEMENTWISE.items():
    formula(f"tf::{_name}")(_counter(_flops))


@formula("tf::MatMul", "tf::_FusedMatMul")
def matmul(a: Arg, b: Arg, transpose_a: Arg = False, transpose_b: Arg = False) -> Cost:
    """Two matrices, either of which may be transposed."""
    x, y = ranked(a, "the first operand", 2), ranked(b, "the second operand", 2)
    rows = x.shape[::-1] if flag(transpose_a, "", False) else x.shape
    columns = y.shape[::-1] if flag(transpose_b, "", False) else y.shape
    if rows[1] != columns[0]:
        raise UncountableError(f"inner sizes {rows[1]} and {columns[0]} differ")
    out = Tensor((rows[0], columns[1]), x.dtype)
    return cost([x, y], [out], contraction=2 * out.count * rows[1])


def _convolution(
    shape: tuple[int, ...], kernel: Tensor, dtype: str, strides: Arg, padding: Arg, data_format: Arg
) -> Convolution:
    first = data_format == "NCHW"
    n, c, *space = shape if first else (shape[0], shape[3], *shape[1:3])
    steps = integers(strides, "strides", 4)
    step = steps[2:] if first else steps[1:3]
    height, width, inner, filters = kernel.shape
    same = str(padding).upper() == "SAME"
    sizes, before = [], []
    for size, k, s in zip(space, (height, width), step, strict=True):
        low, high = same_padding(size, k, s, 1) if same else (0, 0)
        sizes.append(max((size + low + high - k) // s + 1, 0))
        before.append(low)
    x = Tensor((n, c, *space), dtype)
    weight = Tensor((filters, inner, height, width), dtype)
    out = Tensor((n, filters, *sizes), dtype)
    groups = max(c // max(inner, 1), 1)
    return Convolution(x, weight, out, step, tuple(before), (1, 1), groups)


@formula("tf::Conv2D", "tf::_FusedConv2D")
def conv2d(
    x: Arg, kernel: Arg, strides: Arg = None, padding: Arg = "VALID", data_format: Arg = "NHWC"
) -> Cost:
    """A 2-d convolution without bias."""
    found, w = ranked(x, "the input", 4), ranked(kernel, "the filter", 4)
    return forward_cost(_convolution(found.shape, w, found.dtype, strides, padding, data_format))


@formula("tf::Conv2DBackpropFilter")
def conv2d_weight(
    x: Arg, filter_sizes: Arg, grad: Arg, strides: Arg = None, padding: Arg = "VALID",
    data_format: Arg = "NHWC",
) -> Cost:  # fmt: skip
    """The gradient of the filter."""
    found = ranked(x, "the input", 4)
    w = Tensor(integers(filter_sizes, "the filter's size", 4), found.dtype)
    conv = _convolution(found.shape, w, found.dtype, strides, padding, data_format)
    return backward_cost(conv, Tensor(conv.out.shape, found.dtype), (False, True, False))


@formula("tf::Conv2DBackpropInput")
def conv2d_input(
    input_sizes: Arg, kernel: Arg, grad: Arg, strides: Arg = None, padding: Arg = "VALID",
    data_format: Arg = "NHWC",
) -> Cost:  # fmt: skip
    """The gradient of the input."""
    w = ranked(kernel, "the filter", 4)
    shape = integers(input_sizes, "the input's size", 4)
    conv = _convolution(shape, w, w.dtype, strides, padding, data_format)
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


@formula("tf::BiasAddGrad")
def bias_grad(grad: Tensor) -> Cost:
    """The sum over all but the channels."""
    return cost([grad], [Tensor(grad.shape[-1:], grad.dtype)], other=grad.count)


@formula("tf::Softmax", "tf::LogSoftmax")
def softmax(x: Tensor) -> Cost:
    """Softmax over the last dimension: 5 FLOPs per element."""
    return cost([x], [x], other=5 * x.count)


@formula("tf::Transpose", "tf::Cast", "tf::Slice", "tf::StridedSlice")
def moved(x: Tensor) -> Cost:
    """A copy in another order or format of like width."""
    return cost([x], [x], origin="modelled")
