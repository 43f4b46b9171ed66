"""Matrix products: 2·m·n·k FLOPs, every operand read once and the result written once."""

from __future__ import annotations

from math import prod

from timeroof.work import call as args
from timeroof.work.call import Arg, Call, Tensor, UncountableError
from timeroof.work.cost import Cost, cost
from timeroof.work.registry import formula
from timeroof.work.shapes import broadcast

LINEAR_SIZES = "x=M,K weight=N,K bias=N"
SIXTEEN_BIT_RESULT = {"fp8": "bf16", "fp4": "bf16", "int8": "int32", "uint8": "int32"}


def product(
    call: Call | None,
    a: Tensor,
    b: Tensor,
    out: Tensor,
    inner: int,
    extra: tuple[Tensor | None, ...] = (),
    other: float = 0,
) -> Cost:
    """A matrix product with its result's shape and the length of its inner dimension."""
    dtype = a.dtype if a.dtype == b.dtype else _wider(a, b)
    return cost([a, b, *extra], [out], contraction=2 * out.count * inner, other=other, dtype=dtype)


def _wider(a: Tensor, b: Tensor) -> str:
    """Mixed operands compute in the wider of the two (weight-only quantisation unpacks)."""
    return max(a, b, key=lambda t: t.size_bytes / max(t.count, 1)).dtype


def _inner(a: int, b: int) -> int:
    if a != b:
        raise UncountableError(f"inner sizes {a} and {b} differ")
    return a


def _added(
    bias: Tensor | None, out: Tensor, beta: float, alpha: float
) -> tuple[Tensor | None, float]:
    """What adding ``beta·bias`` reads and computes; beta 0 does not even read it."""
    if bias is None or beta == 0:
        return None, 0 if alpha == 1 else out.count
    return bias, out.count * (1 + (beta != 1) + (alpha != 1))


@formula("aten::mm", "aten::_int_mm", "aten::mv", "aten::dot", "aten::vdot", "onednn::matmul",
         sizes="a=M,K b=K,N")  # fmt: skip
def mm(call: Call, a: Arg, b: Arg) -> Cost:
    """Two matrices, a matrix and a vector, or two vectors."""
    x, y = args.ranked(a, "the first operand", 1, 2), args.ranked(b, "the second operand", 1, 2)
    inner = _inner(x.shape[-1], y.shape[0])
    return product(call, x, y, _result(x, y, (*x.shape[:-1], *y.shape[1:])), inner)


def _result(x: Tensor, y: Tensor, shape: tuple[int, ...], dtype: str | None = None) -> Tensor:
    same = x.dtype if x.dtype == y.dtype else _wider(x, y)
    return Tensor(shape, dtype or ("int32" if same in ("int8", "uint8") else same))


@formula("aten::addmm", "aten::_addmm_activation", "aten::addmv", "aten::addr",
         sizes="a=M,K b=K,N")  # fmt: skip
def addmm(call: Call, bias: Tensor | None, a: Arg, b: Arg, beta: Arg = 1, alpha: Arg = 1) -> Cost:
    """``beta·bias + alpha·(a @ b)``; the addition is no contraction."""
    x, y = args.ranked(a, "the first operand", 1, 2), args.ranked(b, "the second operand", 1, 2)
    if len(x.shape) == len(y.shape) == 1:  # addr: an outer product
        out = _result(x, y, (*x.shape, *y.shape))
        return product(call, x, y, out, 1, (bias,), out.count)
    out = _result(x, y, (*x.shape[:-1], *y.shape[1:]))
    extra, other = _added(bias, out, args.number(beta, 1), args.number(alpha, 1))
    inner = _inner(x.shape[-1], y.shape[0])
    return product(call, x, y, out, inner, (extra,), other)


@formula("aten::bmm", sizes="a=B,M,K b=B,K,N")
def bmm(call: Call, a: Arg, b: Arg) -> Cost:
    """A batch of matrix products."""
    x, y = args.ranked(a, "the first operand", 3), args.ranked(b, "the second operand", 3)
    if x.shape[0] != y.shape[0]:
        raise UncountableError(f"batches {x.shape[0]} and {y.shape[0]} differ")
    inner = _inner(x.shape[2], y.shape[1])
    return product(call, x, y, _result(x, y, (*x.shape[:2], y.shape[2])), inner)


@formula("aten::baddbmm", "aten::addbmm", sizes="a=B,M,K b=B,K,N")
def baddbmm(call: Call, bias: Tensor | None, a: Arg, b: Arg, beta: Arg = 1, alpha: Arg = 1) -> Cost:
    """``beta·bias + alpha·(a @ b)`` for a batch; addbmm also sums over the batch."""
    x, y = args.ranked(a, "the first operand", 3), args.ranked(b, "the second operand", 3)
    inner = _inner(x.shape[2], y.shape[1])
    whole = _result(x, y, (x.shape[0], x.shape[1], y.shape[2]))
    out = Tensor(whole.shape[1:], whole.dtype) if call.op.startswith("aten::addbmm") else whole
    extra, other = _added(bias, out, args.number(beta, 1), args.number(alpha, 1))
    batch = x.shape[0] if out is not whole else 1
    return product(call, x, y, out, inner * batch, (extra,), other)


@formula("aten::matmul", "aten::__matmul__", composite=True, sizes="a=M,K b=K,N")
@formula("aten::inner", composite=True)
def matmul(call: Call, a: Tensor, b: Tensor) -> Cost:
    """NumPy's matmul: leading dimensions are batches and broadcast."""
    if not a.shape or not b.shape:
        raise UncountableError("an operand has no dimensions")
    rows, columns = a.shape[-2:-1], b.shape[-1:] if len(b.shape) > 1 else ()
    inner = _inner(a.shape[-1], b.shape[-2] if len(b.shape) > 1 else b.shape[0])
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    return product(call, a, b, _result(a, b, (*batch, *rows, *columns)), inner)


@formula("aten::linear", "onednn::inner_product", composite=True, sizes=LINEAR_SIZES)
@formula("aten::mkldnn_linear", "mkldnn::_linear_pointwise", "vllm::rocm_unquantized_gemm",
         sizes=LINEAR_SIZES)  # fmt: skip
@formula("aten::_mkl_linear", "mkl::_mkl_linear", order="x packed weight bias batch_size",
         sizes=LINEAR_SIZES)  # fmt: skip
def linear(call: Call, x: Tensor, weight: Arg, bias: Tensor | None = None) -> Cost:
    """``x @ weight.T + bias`` over the last dimension; a packed weight's shape says nothing."""
    w = args.ranked(weight, "the weight", 1, 2)
    inner = _inner(x.shape[-1], w.shape[-1])
    out = _result(x, w, (*x.shape[:-1], *w.shape[:-1]))
    return product(call, x, w, out, inner, (bias,), out.count if bias else 0)


@formula("aten::linear_backward", "aten::mkldnn_linear_backward")
def linear_backward(
    x: Tensor, grad: Tensor, weight: Tensor, output_mask: Arg = (True, True, True)
) -> Cost:
    """Gradients of a linear layer: one product for the input, one for the weight."""
    wanted = output_mask if isinstance(output_mask, tuple) else (True, True, True)
    each = 2 * grad.count * x.shape[-1]
    bias = Tensor(grad.shape[-1:], grad.dtype)
    writes = [t for t, w_ in zip((x, weight, bias), wanted, strict=False) if w_]
    return cost(
        [grad, weight if wanted[0] else None, x if wanted[1] else None],
        writes,
        contraction=each * (bool(wanted[0]) + bool(wanted[1])),
        other=grad.count if wanted[2] else 0,
        dtype=grad.dtype,
    )


@formula("aten::_scaled_mm", "aten::_scaled_mm_v2", sizes="a=M,K b=K,N")
def scaled_mm(
    call: Call, a: Arg, b: Arg, scale_a: Tensor | None = None, scale_b: Tensor | None = None,
    bias: Tensor | None = None, scale_result: Tensor | None = None, out_dtype: Arg = None,
) -> Cost:  # fmt: skip
    """A product of 8-bit or 4-bit operands with scales; the scaling is one FLOP per result."""
    x, y = args.ranked(a, "the first operand", 2), args.ranked(b, "the second operand", 2)
    dtype = args.dtype_of(out_dtype) or x.dtype
    out = Tensor((x.shape[0], y.shape[1]), dtype)
    scales = (scale_a, scale_b, bias, scale_result)
    added = out.count * (1 + (scales[2] is not None))
    return product(call, x, y, out, _inner(x.shape[1], y.shape[0]), scales, added)


@formula(
    "aten::_weight_int8pack_mm", "aten::_weight_int4pack_mm", "aten::_weight_int4pack_mm_for_cpu"
)
def packed_mm(
    call: Call, a: Arg, weight: Tensor, scales: Arg = None, zeros: Tensor | None = None
) -> Cost:
    """Activations times a packed integer weight of n rows, in the activations' format."""
    x = args.ranked(a, "the input", 2)
    rows = weight.shape[0] * (8 if len(weight.shape) == 4 else 1)
    out = Tensor((x.shape[0], rows), x.dtype)
    found = product(call, x, weight, out, x.shape[1], tuple(t for t in (zeros,) if t))
    return cost([x, weight, zeros], [out], contraction=found.contraction_flops or 0, dtype=x.dtype)


@formula("aten::_grouped_mm", "aten::_scaled_grouped_mm")
def grouped_mm(call: Call, a: Arg, b: Arg, offs: Arg = None) -> Cost:
    """Products of row groups, each with its own matrix (mixture of experts).

    With offsets the groups partition the rows of `a` (or the inner dimension, where both
    operands are matrices), so the total does not depend on where they lie.
    """
    x, y = args.ranked(a, "the first operand", 2, 3), args.ranked(b, "the second operand", 2, 3)
    inner = _inner(x.shape[-1], y.shape[-2])
    groups = args.tensor(offs, "the offsets").shape[0] if isinstance(offs, Tensor) else 1
    dtype = SIXTEEN_BIT_RESULT.get(x.dtype, x.dtype)
    if len(x.shape) == len(y.shape) == 2:
        out = Tensor((groups, x.shape[0], y.shape[1]), dtype)
        return cost([x, y], [out], contraction=2 * x.shape[0] * y.shape[1] * inner, dtype=x.dtype)
    shape = (x.shape[0], y.shape[-1]) if len(x.shape) == 2 else (*x.shape[:2], y.shape[-1])
    return product(call, x, y, Tensor(shape, dtype), inner)


@formula("aten::einsum", "aten::tensordot", "aten::bilinear", "aten::_trilinear", composite=True)
def einsum(call: Call, equation: Arg = None, operands: Arg = None) -> Cost:
    """Two operands over an equation: 2 FLOPs for every combination of all its letters."""
    if not isinstance(equation, str):
        raise UncountableError("the equation is not recorded")
    found = args.tensors(operands, "the operands")
    terms, _, result = equation.replace(" ", "").partition("->")
    parts = terms.split(",")
    if len(parts) != len(found) or "." in equation:
        raise UncountableError(f"equation {equation!r} does not fit its operands")
    sizes = {
        c: n for p, t in zip(parts, found, strict=True) for c, n in zip(p, t.shape, strict=True)
    }
    letters = (
        result if "->" in equation else "".join(c for c in sorted(sizes) if terms.count(c) == 1)
    )
    out = Tensor(tuple(sizes[c] for c in letters), found[0].dtype)
    steps = max(len(found) - 1, 1)
    return cost(found, [out], contraction=2 * prod(sizes.values()) * steps)


@formula("aten::kron", "aten::outer", "aten::ger", composite=True)
def outer(a: Tensor, b: Tensor) -> Cost:
    """Every element of one with every element of the other: one multiplication each."""
    out = Tensor((a.count * b.count,), a.dtype)
    return cost([a, b], [out], other=out.count)


@formula("aten::cdist", "aten::_cdist_forward", "aten::_euclidean_dist")
def distances(a: Tensor, b: Tensor) -> Cost:
    """Distances between all pairs of rows: subtract, square and add per coordinate."""
    out = Tensor((*broadcast(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-2]), a.dtype)
    return cost([a, b], [out], other=out.count * (3 * a.shape[-1] + 1))


@formula("aten::_cdist_backward")
def distances_backward(grad: Tensor, a: Tensor, b: Tensor) -> Cost:
    """The gradient of one side: subtract, multiply and add per coordinate, a division per pair."""
    flops = grad.count * (3 * a.shape[-1] + 1)
    return cost([grad, a, b], [Tensor(a.shape, a.dtype)], other=flops, dtype=a.dtype)


# Quantised ops: integer products on integer units, scaling in floating point.

SCALE_FLOPS, QUANTISE_FLOPS = 1, 4  # scale; scale, round, and clamp at both ends


@formula("aten::quantize_per_tensor", "aten::quantize_per_channel",
         "aten::quantize_per_tensor_dynamic",
         "quantized_decomposed::quantize_per_tensor")  # fmt: skip
def quantize(call: Call, x: Tensor) -> Cost:
    """Floating point to integers; the format is among the arguments."""
    named = [args.dtype_of(v) for v in reversed(call.inputs[1:])]
    dtype = next((d for d in named if d in ("int8", "uint8", "int32", "int16")), "int8")
    return cost([x], [Tensor(x.shape, dtype)], other=QUANTISE_FLOPS * x.count)


@formula("aten::dequantize", "quantized_decomposed::dequantize_per_tensor")
def dequantize(x: Tensor) -> Cost:
    """Integers to single precision: subtract and scale."""
    return cost([x], [Tensor(x.shape, "fp32")], other=2 * x.count, dtype="fp32")


@formula("quantized::linear", "quantized::linear_relu", "quantized::linear_dynamic")
def quantized_linear(call: Call, x: Tensor, packed: Arg = None) -> Cost:
    """The weight is packed away from the record: the result must tell its size."""
    if call.outputs is None:
        raise UncountableError("the packed weight's shape is not recorded")
    out = args.tensor(call.outputs[0], "the result")
    weight = Tensor((out.shape[-1], x.shape[-1]), "int8")
    return cost([x, weight], [out], contraction=2 * out.count * x.shape[-1], dtype="int8")


@formula("onednn::qlinear_pointwise", "onednn::qlinear_prepack_pointwise")
def onednn_linear(call: Call, x: Tensor, scale: Arg, zero: Arg, weight: Arg) -> Cost:
    """An int8 product with its scaling; the weight lies with its inner dimension first."""
    w = args.ranked(weight, "the weight", 2)
    columns = w.shape[1] if w.shape[0] == x.shape[-1] else w.shape[0]
    out = Tensor((*x.shape[:-1], columns), "fp32")
    return cost([x, w], [out], contraction=2 * out.count * x.shape[-1], other=0, dtype="int8")


@formula("_C::cutlass_scaled_mm", "_C::cutlass_scaled_mm_azp")
def cutlass_scaled_mm(out: Arg, a: Arg, b: Arg, scale_a: Arg = None, scale_b: Arg = None) -> Cost:
    """vLLM's scaled product: the result comes first."""
    written = args.ranked(out, "the result", 2)
    x, y = args.ranked(a, "the first operand", 2), args.ranked(b, "the second operand", 2)
    scales = [args.tensor(s, "a scale") for s in (scale_a, scale_b) if isinstance(s, Tensor)]
    return cost(
        [x, y, *scales], [written], contraction=2 * written.count * x.shape[1], dtype=x.dtype
    )


@formula("aten::_choose_qparams_per_tensor", "aten::choose_qparams_optimized")
def choose_parameters(x: Tensor) -> Cost:
    """The range of a tensor: two comparisons per element."""
    return cost([x], [], other=2 * x.count)
