"""Reductions and scans: the input read once, one FLOP per element and combining step."""

from __future__ import annotations

import msgspec

from timeroof.work import call as args
from timeroof.work.call import Arg, Call, Tensor, Unrecorded
from timeroof.work.cost import Cost, cost
from timeroof.work.registry import formula
from timeroof.work.shapes import broadcast, reduced_shape

RESULT_UNRECORDED = "the reduced dimensions are not recorded: the result's bytes are left out"

_LOGSUMEXP_FLOPS = 3  # subtract the largest, exp, add


def reduction(
    x: Tensor, dim: Arg, keepdim: Arg, flops: float, dtype: str | None = None, results: int = 1,
    per_result: float = 0,
) -> Cost:  # fmt: skip
    """A reduction over some dimensions; where they were not recorded, a lower bound."""
    if isinstance(dim, Unrecorded):
        note = (RESULT_UNRECORDED,)
        return cost([x], [], other=flops * x.count, dtype=x.dtype, origin="modelled", notes=note)
    dims = () if dim is None else args.integers(dim, "dim")
    shape = reduced_shape(x.shape, dims, args.flag(keepdim, "keepdim", False))
    out = Tensor(shape, dtype or x.dtype)
    extra = [Tensor(shape, "int64")] * (results - 1)
    return cost([x], [out, *extra], other=flops * x.count + per_result * out.count, dtype=x.dtype)


def _accumulated(x: Tensor, dtype: Arg) -> str:
    wanted = args.dtype_of(dtype)
    if wanted is not None:
        return wanted
    return x.dtype if args.is_floating(x.dtype) else "int64"


@formula("aten::sum", "aten::nansum", "aten::prod", "aten::logsumexp")
def sum_(call: Call, x: Tensor, dim: Arg = None, keepdim: Arg = False, dtype: Arg = None) -> Cost:
    """A sum or product; with one more argument only, that is the format (sum of all)."""
    where = dim
    if len(call.inputs) == 2 and not isinstance(dim, tuple) and "logsumexp" not in call.op:
        where, dtype = (dim, None) if "prod" in call.op and isinstance(dim, int) else (None, dim)
    flops = _LOGSUMEXP_FLOPS if "logsumexp" in call.op else 1
    return reduction(x, where, keepdim, flops, _accumulated(x, dtype))


@formula("aten::mean", "aten::nanmean", composite=True)
def mean(call: Call, x: Tensor, dim: Arg = None, keepdim: Arg = False, dtype: Arg = None) -> Cost:
    """A mean: one addition per element, one division per result. On a CPU it calls sum."""
    where = dim
    if len(call.inputs) == 2 and not isinstance(dim, tuple):
        where, dtype = None, dim
    return reduction(x, where, keepdim, 1, args.dtype_of(dtype), per_result=1)


@formula("aten::amax", "aten::amin", "aten::_aminmax", "aten::aminmax")
def extreme(call: Call, x: Tensor, dim: Arg = None, keepdim: Arg = False) -> Cost:
    """The largest or smallest element: one comparison each."""
    found = reduction(x, dim, keepdim, 1 + ("aminmax" in call.op))
    if "aminmax" not in call.op:
        return found
    return msgspec.structs.replace(found, bytes_written=2 * (found.bytes_written or 0.0))


@formula("aten::all", "aten::any", "aten::count_nonzero")
def truth(call: Call, x: Tensor, dim: Arg = None, keepdim: Arg = False) -> Cost:
    """Questions about all elements: no arithmetic."""
    dtype = "int64" if "count" in call.op else "bool"
    return reduction(x, dim, keepdim, 0, dtype)


@formula("aten::max", "aten::min")
def max_(call: Call, x: Tensor, other: Arg = None, keepdim: Arg = False) -> Cost:
    """Of all elements, along a dimension (with places), or of two tensors."""
    second = args.optional(other)
    if second is not None and second.shape != ():
        out = Tensor(broadcast(x.shape, second.shape), x.dtype)
        return cost([x, second], [out], other=out.count)
    if other is None:
        return reduction(x, None, False, 1)
    return reduction(x, other, keepdim, 1, results=2)


@formula("aten::argmax", "aten::argmin")
def argmax(x: Tensor, dim: Arg = None, keepdim: Arg = False) -> Cost:
    """Where the largest or smallest element is."""
    return reduction(x, dim, keepdim, 1, "int64")


@formula("aten::median", "aten::nanmedian", "aten::mode", "aten::kthvalue")
def median(call: Call, x: Tensor, dim: Arg = None, keepdim: Arg = False) -> Cost:
    """Order statistics: read and compared, no arithmetic."""
    if "kthvalue" in call.op:
        dim, keepdim = (call.inputs[2:3] or (-1,))[0], (call.inputs[3:4] or (False,))[0]
    if "mode" in call.op and dim is None:
        dim = -1
    results = 1 if dim is None else 2
    return reduction(x, dim, keepdim, 0, results=results)


@formula("aten::var", "aten::std", "aten::var_mean", "aten::std_mean")
def var(
    call: Call, x: Tensor, dim: Arg = None, correction: Arg = None, keepdim: Arg = False
) -> Cost:
    """Variance: mean (1), then subtract, square and add (3) per element."""
    if len(call.inputs) == 2 and isinstance(dim, bool):
        dim = None
    found_cost = reduction(x, dim, keepdim, 4, per_result=2)
    if "_mean" not in call.op or isinstance(dim, Unrecorded):
        return found_cost
    written = 2 * (found_cost.bytes_written or 0.0)
    return msgspec.structs.replace(found_cost, bytes_written=written)


@formula("aten::norm", "aten::linalg_vector_norm", "aten::frobenius_norm", "aten::linalg_norm")
def norm(x: Tensor, p: Arg = 2, dim: Arg = None, keepdim: Arg = False, dtype: Arg = None) -> Cost:
    """A norm: power and addition per element, a root per result."""
    where = None if isinstance(dim, bool) else dim
    return reduction(x, where, keepdim, 2, args.dtype_of(dtype), per_result=1)


@formula("aten::renorm")
def renorm(x: Tensor) -> Cost:
    """Slices scaled down to a largest norm: power, addition and a product per element."""
    return cost([x], [x], other=3 * x.count)


@formula(
    "aten::cumsum", "aten::cumprod", "aten::_cumsum", "aten::logcumsumexp", "aten::_logcumsumexp"
)
def scan(x: Tensor, dim: Arg = None, dtype: Arg = None) -> Cost:
    """A scan: one FLOP per element, a result of the input's shape."""
    return cost([x], [Tensor(x.shape, _accumulated(x, dtype))], other=x.count)


@formula("aten::cummax", "aten::cummin", "aten::_cummax_helper", "aten::_cummin_helper")
def scan_extreme(x: Tensor) -> Cost:
    """A running extreme, with places."""
    return cost([x], [x, Tensor(x.shape, "int64")], other=x.count)


@formula("aten::trace")
def trace(x: Tensor) -> Cost:
    """The sum of a diagonal."""
    side = Tensor((min(x.shape[-2:]),), x.dtype)
    return cost([side], [Tensor((), x.dtype)], other=side.count)


@formula("aten::bincount", "aten::histc", "aten::histogram")
def histogram(call: Call, x: Tensor) -> Cost:
    """Counts per bin; how many bins is known from the result only."""
    if call.outputs is None:
        return cost([x], [], origin="modelled", notes=(RESULT_UNRECORDED,))
    return cost([x], call.outputs)


@formula("aten::equal", "aten::allclose", "aten::is_nonzero")
def equal(call: Call, first: Tensor, y: Tensor | None = None) -> Cost:
    """Two tensors compared, one truth on the host."""
    return cost([first, y], [])


@formula("aten::value_selecting_reduction_backward", composite=True)
def selecting_backward(grad: Tensor, dim: Arg, indices: Arg, sizes: Arg) -> Cost:
    """The gradient of max along a dimension: zeros with the gradient put in place."""
    out = Tensor(args.integers(sizes, "the sizes"), grad.dtype)
    return cost([grad, args.tensor(indices, "the places")], [out])
