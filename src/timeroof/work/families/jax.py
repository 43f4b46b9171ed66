"""JAX's primitives and XLA's instructions, by the formulas that torch's ops have."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TypeGuard

from timeroof.work import call as args, hlo
from timeroof.work.call import Arg, Call, Tensor, UncountableError
from timeroof.work.cost import Cost, cost
from timeroof.work.families.conv import Convolution, forward_cost
from timeroof.work.families.elementwise import elementwise
from timeroof.work.families.reduction import reduction
from timeroof.work.registry import formula

ELEMENTWISE = {
    "add": 1, "sub": 1, "mul": 1, "div": 1, "max": 1, "min": 1, "neg": 1, "abs": 1, "sign": 1,
    "exp": 1, "exp2": 1, "expm1": 1, "log": 1, "log1p": 1, "sqrt": 1, "rsqrt": 1, "cbrt": 1,
    "sin": 1, "cos": 1, "tan": 1, "tanh": 1, "logistic": 4, "erf": 1, "erfc": 1, "erf_inv": 1,
    "pow": 1, "integer_pow": 1, "square": 1, "floor": 1, "ceil": 1, "round": 1, "rem": 2,
    "clamp": 2, "select_n": 0, "select": 0, "nextafter": 1, "atan2": 1, "add_any": 1, "not": 0,
    "and": 0, "or": 0, "xor": 0, "copy": 0, "copy_p": 0, "sinh": 1, "cosh": 1, "asin": 1,
    "acos": 1, "atan": 1, "asinh": 1, "acosh": 1, "atanh": 1, "lgamma": 1, "digamma": 1,
    "polygamma": 1, "zeta": 1, "igamma": 1, "igammac": 1, "igamma_grad_a": 1,
    "bessel_i0e": 1, "bessel_i1e": 1, "regularized_incomplete_beta": 1,
    "population_count": 0, "clz": 0, "shift_left": 0, "shift_right_logical": 0,
    "shift_right_arithmetic": 0,
}  # fmt: skip
TRUTHS = ("eq", "ne", "lt", "le", "gt", "ge", "is_finite", "eq_to", "le_to", "lt_to")


def _counter(flops: int, *, truth: bool = False) -> Callable[[Call], Cost]:
    def count(call: Call) -> Cost:
        return elementwise(call, flops, truth=truth)

    return count


for _name, _flops in ELEMENTWISE.items():
    formula(f"jax::{_name}")(_counter(_flops))
for _name in TRUTHS:
    formula(f"jax::{_name}")(_counter(1, truth=True))
for _name, _flops in hlo.ELEMENTWISE.items():
    if _name != "convert":
        formula(f"xla::{_name}")(_counter(_flops, truth=_name in hlo.TRUTHS))
formula("xla::copy")(_counter(0))


def _pairs(value: Arg) -> tuple[tuple[int, ...], ...]:
    """Contracted and batch dimensions of both operands, flattened to four lists."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise UncountableError("dimension_numbers are not recorded")
    parts = [part for pair in value if isinstance(pair, tuple) for part in pair]
    return tuple(args.integers(part, "dimension_numbers") for part in parts)


@formula("jax::dot_general", "xla::dot")
def dot_general(
    a: Tensor, b: Tensor, dimension_numbers: Arg = None, precision: Arg = None,
    preferred_element_type: Arg = None,
) -> Cost:  # fmt: skip
    """Any product of two tensors: ((contracted), (batch)) dimensions of either operand."""
    inner_x, inner_y, batch_x, batch_y = _pairs(dimension_numbers)
    inner = prod(a.shape[i] for i in inner_x)
    if inner != prod(b.shape[i] for i in inner_y):
        raise UncountableError("contracted sizes differ")
    rows = [n for i, n in enumerate(a.shape) if i not in (*inner_x, *batch_x)]
    columns = [n for i, n in enumerate(b.shape) if i not in (*inner_y, *batch_y)]
    shape = (*(a.shape[i] for i in batch_x), *rows, *columns)
    out = Tensor(shape, args.dtype_of(preferred_element_type) or a.dtype)
    return cost([a, b], [out], contraction=2 * out.count * inner, dtype=a.dtype)


@formula("jax::conv_general_dilated", "xla::convolution")
def conv_general(
    call: Call, lhs: Arg, rhs: Arg, window_strides: Arg = None, padding: Arg = None,
    lhs_dilation: Arg = None, rhs_dilation: Arg = None, dimension_numbers: Arg = None,
    feature_group_count: Arg = 1,
) -> Cost:  # fmt: skip
    """A convolution laid out as (batch, channels, space) and (filters, channels, space).

    Other layouts say so by `dimension_numbers` as three words, say ("NHWC", "HWIO", "NHWC").
    """
    x, w = args.ranked(lhs, "the input", 3, 4, 5), args.ranked(rhs, "the kernel", 3, 4, 5)
    layout = dimension_numbers if _is_words(dimension_numbers) else ("NCHW", "OIHW", "NCHW")
    x, w = _ordered(x, str(layout[0]), "NC"), _ordered(w, str(layout[1]), "OI")
    spatial = len(w.shape) - 2
    step = args.integers(window_strides, "window_strides", spatial)
    wide = args.integers(rhs_dilation or 1, "rhs_dilation", spatial)
    spread = args.integers(lhs_dilation or 1, "lhs_dilation", spatial)
    pads = _pads(padding, x, w, step, wide)
    sizes = tuple(
        max(((n - 1) * e + 1 + low + high - d * (k - 1) - 1) // s + 1, 0)
        for n, e, (low, high), d, k, s in zip(
            x.shape[2:], spread, pads, wide, w.shape[2:], step, strict=True
        )
    )
    out = Tensor((x.shape[0], w.shape[0], *sizes), x.dtype)
    groups = args.integer(feature_group_count, "feature_group_count")
    low = tuple(p[0] for p in pads)
    return forward_cost(Convolution(x, w, out, step, low, wide, groups, spread=spread))


def _is_words(value: Arg) -> TypeGuard[tuple[str, ...]]:
    return isinstance(value, tuple) and len(value) == 3 and all(isinstance(v, str) for v in value)


def _ordered(x: Tensor, layout: str, first: str) -> Tensor:
    """A tensor with the two named dimensions first and the spatial ones behind."""
    if len(layout) != len(x.shape):
        return x
    front = [layout.index(c) for c in first]
    rest = [i for i in range(len(layout)) if i not in front]
    return Tensor(tuple(x.shape[i] for i in (*front, *rest)), x.dtype)


def _pads(
    padding: Arg, x: Tensor, w: Tensor, stride: tuple[int, ...], dilation: tuple[int, ...]
) -> list[tuple[int, int]]:
    if isinstance(padding, str):
        same = padding.upper().startswith("SAME")
        places = zip(x.shape[2:], w.shape[2:], stride, dilation, strict=True)
        return [same_padding(*p) if same else (0, 0) for p in places]
    if not isinstance(padding, tuple):
        raise UncountableError("padding is not recorded")
    return [(p[0], p[1]) for p in (args.integers(q, "padding", 2) for q in padding)]


def same_padding(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """TensorFlow's "same" padding: as many windows as strides fit, the odd one behind.

    >>> same_padding(112, 3, 2, 1)
    (0, 1)
    """
    total = max((-(-size // stride) - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
    return total // 2, total - total // 2


@formula("jax::reduce_sum", "jax::reduce_max", "jax::reduce_min", "jax::reduce_prod",
         "jax::reduce_and", "jax::reduce_or")  # fmt: skip
def reduce(x: Tensor, axes: Arg = None) -> Cost:
    """A reduction over axes."""
    return reduction(x, axes, False, 1)


@formula("jax::argmax", "jax::argmin")
def argmax(x: Tensor, axes: Arg = None) -> Cost:
    """Where the extreme element is."""
    return reduction(x, axes, False, 1, "int32")


@formula("jax::convert_element_type", "xla::convert")
def convert(x: Tensor, new_dtype: Arg = None) -> Cost:
    """A cast."""
    return cost([x], [Tensor(x.shape, args.dtype_of(new_dtype) or x.dtype)])


@formula("jax::transpose", "xla::transpose", "jax::rev", "jax::cumsum", "jax::cumprod")
def rearranged(call: Call, x: Tensor) -> Cost:
    """The same elements in another order, or a running sum of them."""
    return cost([x], [x], other=x.count if "cum" in call.op else 0)


@formula("jax::broadcast_in_dim", "xla::broadcast")
def broadcast_in_dim(call: Call, x: Tensor, shape: Arg = None) -> Cost:
    """One value or tensor written many times."""
    return cost([x], [Tensor(args.integers(shape, "shape"), x.dtype)])
