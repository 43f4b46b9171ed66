"""Quantised ops: integer products on integer units, scaling in floating point."""

from __future__ import annotations

from timeroof.work.call import Arg, Call, Tensor, UncountableError, dtype_of, ranked, tensor
from timeroof.work.cost import Cost, cost
from timeroof.work.registry import formula

SCALE_FLOPS, QUANTISE_FLOPS = 1, 4  # scale; scale, round, and clamp at both ends


@formula("aten::quantize_per_tensor", "aten::quantize_per_channel",
         "aten::quantize_per_tensor_dynamic",
         "quantized_decomposed::quantize_per_tensor")  # fmt: skip
def quantize(call: Call, x: Arg) -> Cost:
    """Floating point to integers; the format is among the arguments."""
    found = tensor(x, "the input")
    named = [dtype_of(v) for v in reversed(call.inputs[1:])]
    dtype = next((d for d in named if d in ("int8", "uint8", "int32", "int16")), "int8")
    return cost([found], [Tensor(found.shape, dtype)], other=QUANTISE_FLOPS * found.count)


@formula("aten::dequantize", "quantized_decomposed::dequantize_per_tensor")
def dequantize(x: Arg) -> Cost:
    """Integers to single precision: subtract and scale."""
    found = tensor(x, "the input")
    return cost([found], [Tensor(found.shape, "fp32")], other=2 * found.count, dtype="fp32")


@formula("_C::static_scaled_fp8_quant", "_C::dynamic_scaled_fp8_quant",
         "_C::dynamic_per_token_scaled_fp8_quant")  # fmt: skip
def fp8_quant(out: Arg, x: Arg, scale: Arg = None) -> Cost:
    """vLLM's casts to fp8: scale and clamp; the result comes first."""
    found, written = tensor(x, "the input"), tensor(out, "the result")
    return cost([found, tensor(scale, "the scale") if isinstance(scale, Tensor) else None],
                [written], other=QUANTISE_FLOPS * found.count, dtype=found.dtype)  # fmt: skip


@formula("quantized::linear", "quantized::linear_relu", "quantized::linear_dynamic")
def quantized_linear(call: Call, x: Arg, packed: Arg = None) -> Cost:
    """The weight is packed away from the record: the result must tell its size."""
    found = tensor(x, "the input")
    if call.outputs is None:
        raise UncountableError("the packed weight's shape is not recorded")
    out = tensor(call.outputs[0], "the result")
    weight = Tensor((out.shape[-1], found.shape[-1]), "int8")
    return cost([found, weight], [out], contraction=2 * out.count * found.shape[-1], dtype="int8")


@formula("onednn::qlinear_pointwise", "onednn::qlinear_prepack_pointwise")
def onednn_linear(call: Call, x: Arg, scale: Arg, zero: Arg, weight: Arg) -> Cost:
    """An int8 product with its scaling; the weight lies with its inner dimension first."""
    a, w = tensor(x, "the input"), ranked(weight, "the weight", 2)
    columns = w.shape[1] if w.shape[0] == a.shape[-1] else w.shape[0]
    out = Tensor((*a.shape[:-1], columns), "fp32")
    return cost([a, w], [out], contraction=2 * out.count * a.shape[-1], other=0, dtype="int8")


@formula("_C::cutlass_scaled_mm", "_C::scaled_fp4_mm")
def cutlass_scaled_mm(out: Arg, a: Arg, b: Arg, scale_a: Arg = None, scale_b: Arg = None) -> Cost:
    """vLLM's scaled product: the result comes first."""
    written = ranked(out, "the result", 2)
    x, y = ranked(a, "the first operand", 2), ranked(b, "the second operand", 2)
    scales = [tensor(s, "a scale") for s in (scale_a, scale_b) if isinstance(s, Tensor)]
    return cost(
        [x, y, *scales], [written], contraction=2 * written.count * x.shape[1], dtype=x.dtype
    )


@formula("aten::_choose_qparams_per_tensor", "aten::choose_qparams_optimized")
def choose_parameters(x: Arg) -> Cost:
    """The range of a tensor: two comparisons per element."""
    found = tensor(x, "the input")
    return cost([found], [], other=2 * found.count)
