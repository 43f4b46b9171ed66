"""Products of narrow formats and casts to them, as libraries of inference engines register them.

AITER, SGLang's sgl_kernel, vLLM, TensorRT-LLM and bitsandbytes compute the same products. They
differ in where the result stands among the arguments, in which side of the weight is summed over,
and in how numbers of four bits are packed: two to a byte, so that packed sides are half as long as
the product is deep.
"""

from __future__ import annotations

from math import prod

from timeroof.work import call as args
from timeroof.work.call import Arg, Call, Tensor, UncountableError
from timeroof.work.cost import Cost, cost
from timeroof.work.families.matmul import QUANTISE_FLOPS
from timeroof.work.registry import formula

SIXTEEN_BIT = ("result taken as 16 bits wide",)
_PACKED, _FOUR_BITS = "uint8", "fp4"
_SIXTEEN = ("bf16", "fp16")


def _result(x: Tensor, shape: tuple[int, ...], given: tuple[Arg, ...]) -> tuple[Tensor, bool]:
    """The result, of the format of an argument of its shape; and whether its format was guessed."""
    for value in given:
        if isinstance(value, Tensor) and value.shape == shape:
            return args.tensor(value, "the result"), False
    return Tensor(shape, x.dtype if x.dtype in _SIXTEEN else "bf16"), x.dtype not in _SIXTEEN


def _counted(
    reads: list[Tensor | None], out: Tensor, depth: int, dtype: str, guessed: bool
) -> Cost:
    return cost(
        reads, [out], contraction=2 * out.count * depth, dtype=dtype,
        origin="modelled" if guessed else "counted", notes=SIXTEEN_BIT if guessed else (),
    )  # fmt: skip


def _by_rows(call: Call, x: Arg, weight: Arg, rest: int, *, packed: bool = False) -> Cost:
    """Rows of `x` by rows of the weight, per batch where there are three sides.

    Arguments from the place `rest` on may be scales and the result.
    """
    a, b = args.ranked(x, "the input", 2, 3), args.ranked(weight, "the weight", 2, 3)
    if a.shape[-1] != b.shape[-1] or (len(b.shape) == 3 and a.shape[:-2] != b.shape[:-2]):
        raise UncountableError("the sides of input and weight do not fit together")
    out, guessed = _result(a, (*a.shape[:-1], b.shape[-2]), call.inputs[rest:])
    scales = [args.optional(v) for v in call.inputs[2:4] if v is not out] if rest > 2 else []
    depth = a.shape[-1] * (2 if packed else 1)
    return _counted([a, b, *scales], out, depth, _FOUR_BITS if packed else a.dtype, guessed)


_SCALED = (
    "", "_ck", "_cktile", "_asm", "_bpreshuffle", "_bpreshuffle_ck", "_bpreshuffle_cktile",
    "_bpreshuffle_asm", "_blockscale", "_blockscale_ck", "_blockscale_cktile",
    "_blockscale_bpreshuffle", "_blockscale_bpreshuffle_ck", "_blockscale_bpreshuffle_cktile",
    "_blockscale_bpreshuffle_asm",
)  # fmt: skip


@formula(*(f"aiter::gemm_a8w8{way}" for way in _SCALED), "aiter::flatmm_a8w8_blockscale_asm",
         "aiter::gfx950_a8w8_blockscale_asm", "aiter::batched_gemm_a8w8",
         "vllm::rocm_aiter_gemm_a8w8", "vllm::rocm_aiter_gemm_w8a8",
         "vllm::rocm_aiter_gemm_a8w8_blockscale", "vllm::rocm_aiter_gemm_w8a8_blockscale",
         "vllm::rocm_aiter_triton_gemm_a8w8_blockscale",
         "vllm::_rocm_aiter_preshuffled_per_token_w8a8_gemm",
         "vllm::w8a8_triton_block_scaled_mm_func", "vllm::padded_cutlass",
         "trtllm::fp8_block_scaling_gemm", "trtllm::fp8_block_scaling_gemm_impl",
         "bitsandbytes::int8_scaled_mm")  # fmt: skip
def scaled_by_rows(call: Call, x: Arg, weight: Arg) -> Cost:
    """Eight-bit operands (M, K) and (N, K), their scales, and perhaps the result."""
    return _by_rows(call, x, weight, 4)


@formula("aiter::gemm_a4w4", "aiter::_gemm_a4w4_asm", "aiter::gemm_a4w4_asm",
         "aiter::gemm_a4w4_blockscale", "aiter::gemm_afp4wfp4_",
         "aiter::gemm_afp4wfp4", "trtllm::nvfp4_gemm", "trtllm::nvfp4_gemm_cublaslt")  # fmt: skip
def packed_by_rows(call: Call, x: Arg, weight: Arg) -> Cost:
    """Four-bit operands (M, K/2) and (N, K/2), two numbers to a byte."""
    return _by_rows(call, x, weight, 4, packed=True)


@formula("aiter::gemm_a16w16", "aiter::gemm_a16w16_atomic_", "aiter::_gemm_a16w16_asm",
         "aiter::gemm_a16w16_asm", "aiter::batched_gemm_bf16", "aiter::LLMM1", "aiter::wvSpltK",
         "_rocm_C::LLMM1", "_rocm_C::wvSplitK", "_rocm_C::wvSplitKrc",
         "_rocm_C::wvSplitKQ")  # fmt: skip
def plain_by_rows(call: Call, x: Arg, weight: Arg) -> Cost:
    """(M, K) and (N, K) without scales; skinny kernels name the weight first."""
    return _by_rows(call, x, weight, 2)


@formula("trtllm::cublas_scaled_mm", "trtllm::cuda_scaled_mm",
         order="a b scale_a scale_b bias out_dtype")  # fmt: skip
@formula("sgl_kernel::fp8_scaled_mm", "sgl_kernel::int8_scaled_mm",
         "sgl_kernel::fp8_blockwise_scaled_mm")  # fmt: skip
def scaled_mm_out_dtype(
    a: Arg, b: Arg, scale_a: Tensor | None, scale_b: Tensor | None, out_dtype: Arg = None,
    bias: Tensor | None = None,
) -> Cost:  # fmt: skip
    """(M, K) and (K, N) with scales; the result's format is named."""
    x, y = args.ranked(a, "the first operand", 2), args.ranked(b, "the second operand", 2)
    if x.shape[1] != y.shape[0]:
        raise UncountableError(f"inner sizes {x.shape[1]} and {y.shape[0]} differ")
    told = args.dtype_of(out_dtype)
    out = Tensor((x.shape[0], y.shape[1]), told or "bf16")
    return _counted([x, y, scale_a, scale_b, bias], out, x.shape[1], x.dtype, told is None)


@formula("sgl_kernel::dsv3_fused_a_gemm", "sgl_kernel::dsv3_router_gemm", "_C::dsv3_fused_a_gemm",
         "_moe_C::dsv3_router_gemm", "_C::scaled_fp4_mm", "_C::cutlass_scaled_fp4_mm",
         "sgl_kernel::cutlass_scaled_fp4_mm")  # fmt: skip
def result_first(
    out: Arg, a: Arg, b: Arg, scale_a: Tensor | None = None, scale_b: Tensor | None = None
) -> Cost:
    """The result (M, N) comes first; four-bit operands are packed along the inner side."""
    written = args.ranked(out, "the result", 2)
    x, y = args.ranked(a, "the first operand", 2), args.ranked(b, "the second operand", 2)
    packed = x.dtype == _PACKED
    depth = x.shape[1] * (2 if packed else 1)
    return _counted([x, y, scale_a, scale_b], written, depth, _FOUR_BITS if packed else x.dtype,
                    False)  # fmt: skip


# Weights of few bits under 16-bit activations: unpacked on the way, computed in 16 bits.


def _unpacked(a: Arg, weight: Arg, columns: int, scales: Arg) -> Cost:
    x, packed = args.ranked(a, "the input", 2), args.tensor(weight, "the packed weight")
    out = Tensor((x.shape[0], columns), x.dtype)
    return _counted([x, packed, args.optional(scales)], out, x.shape[1], x.dtype, False)


@formula("_C::awq_gemm")
def awq(a: Arg, weight: Arg, scales: Arg) -> Cost:
    """AWQ: the scales are (groups, N)."""
    return _unpacked(a, weight, args.ranked(scales, "the scales", 2).shape[1], scales)


@formula("_C::gptq_gemm", "sgl_kernel::gptq_gemm", order="a weight zeros scales")
def gptq(a: Arg, weight: Arg, scales: Arg) -> Cost:
    """GPTQ: the packed weight is (K / numbers per word, N)."""
    return _unpacked(a, weight, args.ranked(weight, "the packed weight", 2).shape[1], scales)


@formula("_C::marlin_gemm", "_C::gptq_marlin_gemm", "sgl_kernel::gptq_marlin_gemm",
         order="a _ weight")  # fmt: skip
def marlin(call: Call, a: Arg, weight: Arg) -> Cost:
    """Marlin's layout hides the weight's sides: M, N and K are arguments, one behind the other."""
    x = args.ranked(a, "the input", 2)
    numbers = call.inputs
    for m, n, k in zip(numbers, numbers[1:], numbers[2:], strict=False):
        if isinstance(n, int) and (m, k) == x.shape:
            return _unpacked(a, weight, n, None)
    raise UncountableError("the weight's sides are not recorded")


@formula("bitsandbytes::gemv_4bit", "bitsandbytes::gemm_4bit", order="a weight sides")
def four_bit(call: Call, a: Arg, weight: Arg, sides: Arg) -> Cost:
    """Blocks of four bits: the weight's sides (N, K) are an argument, scales come behind it."""
    x, packed = args.tensor(a, "the input"), args.tensor(weight, "the packed weight")
    columns, depth = args.integers(sides, "the weight's sides", 2)
    if x.shape[-1] != depth:
        raise UncountableError("the sides of input and weight do not fit together")
    scale = next((value for value in call.inputs[3:] if isinstance(value, Tensor)), None)
    out = Tensor((*x.shape[:-1], columns), x.dtype)
    return _counted([x, packed, scale], out, depth, x.dtype, False)


@formula("bitsandbytes::int8_linear_matmul")
def int8_product(a: Arg, weight: Arg) -> Cost:
    """Rows of eight bits by rows of the weight, summed in 32."""
    x, y = args.tensor(a, "the input"), args.ranked(weight, "the weight", 2)
    if x.shape[-1] != y.shape[-1]:
        raise UncountableError("the sides of input and weight do not fit together")
    return _counted(
        [x, y], Tensor((*x.shape[:-1], y.shape[0]), "int32"), x.shape[-1], "int8", False
    )


@formula("bitsandbytes::dequantize_4bit", order="packed scales _ _ sides dtype")
def unpacked(packed: Tensor, scales: Tensor, sides: Arg, dtype: Arg) -> Cost:
    """A weight of four bits in full: a table's value times its block's scale."""
    shape = args.integers(sides, "the weight's sides")
    told = args.dtype_of(dtype)
    out = Tensor(shape, told or "bf16")
    return cost(
        [packed, scales], [out], other=out.count, dtype=out.dtype,
        origin="counted" if told else "modelled", notes=() if told else SIXTEEN_BIT,
    )  # fmt: skip


# Casts to narrow formats with a scale per tensor, row or group.


@formula("sgl_kernel::sgl_per_token_group_quant_fp8", "sgl_kernel::sgl_per_token_group_quant_int8",
         "sgl_kernel::sgl_per_token_group_quant_8bit", "sgl_kernel::sgl_per_tensor_quant_fp8",
         "sgl_kernel::sgl_per_token_quant_fp8", "_C::per_token_group_fp8_quant",
         "_C::per_token_group_quant_int8", order="x out scale")  # fmt: skip
@formula("_C::static_scaled_fp8_quant", "_C::dynamic_scaled_fp8_quant",
         "_C::dynamic_per_token_scaled_fp8_quant", "_C::static_scaled_int8_quant",
         "_C::dynamic_scaled_int8_quant", "aiter::dynamic_per_token_scaled_quant",
         "aiter::dynamic_per_group_scaled_quant", "aiter::dynamic_per_group_scaled_quant_fp4",
         "aiter::dynamic_per_tensor_quant", "aiter::static_per_tensor_quant",
         order="out x scale")  # fmt: skip
@formula("sgl_kernel::scaled_fp4_quant", "_C::scaled_fp4_quant", order="out x scale")
def narrowed(out: Tensor, x: Tensor, scale: Tensor | None = None) -> Cost:
    """Scale and clamp; the scales are read or written once."""
    return cost([x, scale], [out], other=QUANTISE_FLOPS * x.count, dtype=x.dtype)


@formula("vllm::triton_per_token_group_quant_fp8", "vllm::rocm_aiter_group_fp8_quant")
def narrowed_by_group(x: Tensor, group: Arg) -> Cost:
    """A new fp8 tensor with a scale per group of a row."""
    size = args.integer(group, "the group's size")
    if size < 1:
        raise UncountableError("the group's size is not a number of elements")
    rows = prod(x.shape[:-1])
    scales = Tensor((rows, -(-x.shape[-1] // size)), "fp32")
    writes = [Tensor(x.shape, "fp8"), scales]
    return cost([x], writes, other=QUANTISE_FLOPS * x.count, dtype=x.dtype)


@formula("_C::awq_dequantize", "sgl_kernel::awq_dequantize")
def awq_dequantize(weight: Tensor, scales: Arg, zeros: Tensor | None = None) -> Cost:
    """Eight numbers of four bits per word; subtract and scale."""
    per_group = args.ranked(scales, "the scales", 2)
    out = Tensor((weight.shape[0], per_group.shape[1]), per_group.dtype)
    return cost([weight, per_group, zeros], [out], other=2 * out.count, dtype=out.dtype)
