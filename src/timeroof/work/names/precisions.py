"""Precision and unit of matrix products, from their names: tables, the first that fits decides.

A precision is one of `core.resources.PRECISIONS`: the unit and format the products are computed
in, not what is in memory. `volta_fp16_sgemm_fp16_…` keeps fp16 in memory and computes in fp32 on
the vector units; `volta_s884…` multiplies fp16 on tensor cores and adds in fp32.

Instruction shapes tell the unit: 884 is HMMA on Volta, 1688 fp16 on Turing and (without a type)
TF32 on Ampere, 16816 fp16 or bf16, 16832 int8 or fp8. Sources: CUTLASS' library naming
(tools/library, `procedural names`), Tensile's nomenclature page, MIOpen's igemm generator.
"""

from __future__ import annotations

from timeroof.work.names.patterns import bounded

_F16 = r"f16|fp16|half_t|__half|_Float16|c10::Half|\bhalf\b"
_BF16 = r"bf16|bfloat16|BFloat16"

# pattern, precision, tensor core. None: the name does not tell.
_TABLE: tuple[tuple[str, str | None, bool | None], ...] = (
    # AMD Tensile: letters are A, B, C/D and compute types; MI is a matrix instruction.
    (r"^Cijk_\w+?_(?:F8|B8|F8B8|B8F8)\w*?_.*_MI\d", "fp8-tensor", True),
    (r"^Cijk_[A-Za-z]+_[A-Za-z]+_S_MX_B", "tf32-tensor", True),
    (r"^Cijk_[A-Za-z]+_[A-Za-z]+_(?:HH|H_H|HS|H_S|HB)\w*_MI\d", "fp16-tensor", True),
    (r"^Cijk_[A-Za-z]+_[A-Za-z]+_(?:BB|B_B|BS|B_S)\w*_MI\d", "bf16-tensor", True),
    (r"^Cijk_[A-Za-z]+_[A-Za-z]+_(?:I8|4xi8|I_)\w*_MI\d", "int8-tensor", True),
    (r"^Cijk_[A-Za-z]+_[A-Za-z]+_(?:DB|D_B)\w*_MI\d", "fp64-tensor", True),
    (r"^Cijk_[A-Za-z]+_[A-Za-z]+_(?:SB|S_B|CB|C_B)\w*_MI\d", "fp32", True),
    (r"^Cijk_[A-Za-z]+_[A-Za-z]+_(?:DB|D_B|ZB)", "fp64", False),
    (r"^Cijk_[A-Za-z]+_[A-Za-z]+_(?:HB|H_B)", "fp16", False),
    (r"^Cijk_[A-Za-z]+_[A-Za-z]+_(?:HH|H_H|HS|BB|B_B|BS|SB|S_B|CB|C_B)", "fp32", False),
    # cuBLAS nvjet: the first letter is the type of the operands.
    (r"^nvjet_(?:sm\d+_)?h", "fp16-tensor", True),
    (r"^nvjet_(?:sm\d+_)?t", "bf16-tensor", True),
    (r"^nvjet_(?:sm\d+_)?q", "fp8-tensor", True),
    (r"^nvjet_(?:sm\d+_)?s", "tf32-tensor", True),
    (r"^nvjet_(?:sm\d+_)?d", "fp64-tensor", True),
    (r"^nvjet_", None, True),
    # TensorRT-LLM's generated kernels: output, then the operands (E2m1 is fp4, E4m3 is fp8).
    # fp4 times fp8 runs at the rate of fp8.
    (r"^bmm_[A-Za-z0-9]+_\w*E4m3\w*_Fp32|QkvE4m3", "fp8-tensor", True),
    (r"^bmm_[A-Za-z0-9]+_\w*E2m1\w*_Fp32", "fp4-tensor", True),
    (r"^bmm_[A-Za-z0-9]+_Bfloat16|QkvBfloat16", "bf16-tensor", True),
    (r"^bmm_[A-Za-z0-9]+_Fp16|QkvFp16", "fp16-tensor", True),
    # Triton's matmul_ogs: output x left x right; narrow weights are widened to the left's type.
    (r"^_matmul_ogs_\w+?_\w+?xbf16x", "bf16-tensor", True),
    (r"^_matmul_ogs_\w+?_\w+?xfp16x", "fp16-tensor", True),
    (r"^_matmul_ogs_\w+?_\w+?x(?:fp8|mxfp8)", "fp8-tensor", True),
    # xmma of cuDNN, cuBLAS and TensorRT.
    (r"xmma\w*_.*ffma", "fp32", False),
    (r"xmma.*tf32|hmma_tf32", "tf32-tensor", True),
    (r"xmma\w*?_bf16", "bf16-tensor", True),
    (r"xmma\w*?_(?:e4m3|e5m2)", "fp8-tensor", True),
    (r"xmma\w*?_(?:i8|u8|s8)|xmma\w*imma", "int8-tensor", True),
    (r"xmma\w*?_f64", "fp64-tensor", True),
    (r"xmma\w*?_f16|xmma.*hmma", "fp16-tensor", True),
    (r"^sm(?:9|1\d)\d?_xmma\w*?_f32f32", "tf32-tensor", True),
    (r"xmma\w*?_f32", "fp32", False),
    (r"^Volta_hmma", "fp16-tensor", True),
    # CUTLASS and the kernels cuBLAS and cuDNN name in its way.
    (r"tensorop_\w*d884|dmma", "fp64-tensor", True),
    (r"tensorop_\w*?(?:i8816|i16832|i16864)", "int8-tensor", True),
    (r"tensorop_\w*?(?:e4m3|e5m2)", "fp8-tensor", True),
    (rf"tensorop_\w*?(?:{_BF16})", "bf16-tensor", True),
    (r"tensorop_\w*?(?:f16|h884|h1688|h16816|s884)", "fp16-tensor", True),
    (r"tensorop_\w*?s1688", "tf32-tensor", True),
    (r"tensorop", None, True),
    (r"simt_\w*?sgemm|simt_\w*?cgemm|simt_s", "fp32", False),
    (r"simt_\w*?dgemm|simt_d", "fp64", False),
    (r"simt_\w*?hgemm|simt_h", "fp16", False),
    (r"simt_\w*?igemm", "int8", False),
    (r"tfloat32_t", "tf32-tensor", True),
    # Chip names of cuBLAS and cuDNN: volta_fp16_s884cudnn_…, ampere_bf16_s16816gemm_…
    (r"^\w*?_d884", "fp64-tensor", True),
    (r"^\w*?_i(?:8816|16832)", "int8-tensor", True),
    (r"^\w*?bf16_s(?:16816|1688)", "bf16-tensor", True),
    (r"^\w*?_[hs](?:884|16816)", "fp16-tensor", True),
    (r"^\w*?fp16_s1688|^turing_\w*?1688|^\w*?_h1688", "fp16-tensor", True),
    (r"^\w*?_s1688", "tf32-tensor", True),
    (r"_scudnn|_sgemm|^sgemm|gcgemm|_cgemm|sgemmEx|convolve_sgemm", "fp32", False),
    (r"_dcudnn|_dgemm|^dgemm|_zgemm|zcgemm", "fp64", False),
    (r"_hcudnn|_hgemm|^hgemm", "fp16", False),
    (r"_icudnn|_igemm_int8|int8x4_icudnn", "int8", False),
    # MIOpen's implicit GEMM: gtcx uses matrix cores.
    (r"^igemm_\w+_gtcx\d?_\w*bf16", "bf16-tensor", True),
    (r"^igemm_\w+_gtcx\d?_\w*fp16", "fp16-tensor", True),
    (r"^igemm_\w+_gtcx\d?_\w*int8", "int8-tensor", True),
    (r"^igemm_\w+_gtcx\d?_\w*fp32", "fp32", True),
    (r"^igemm_\w+_gtc\w*_fp32", "fp32", False),
    (r"Sp3AsmConv\w*fp32", "fp32", False),
    (r"Sp3AsmConv\w*fp16", "fp16", False),
    # Composable kernel: xdl is the matrix core; bf16 travels as unsigned short.
    (r"(?:xdl|wmma)\w*<.{0,200}?(?:_Float16|half_t)", "fp16-tensor", True),
    (r"(?:xdl|wmma)\w*<.{0,200}?(?:unsigned short|bf16|bhalf)", "bf16-tensor", True),
    (r"(?:xdl|wmma)\w*<.{0,200}?(?:f8_t|fp8)", "fp8-tensor", True),
    (r"(?:xdl|wmma)\w*<.{0,200}?signed char", "int8-tensor", True),
    (r"(?:xdl|wmma)\w*<.{0,200}?float", "fp32", True),
    (r"PipelineProblem<_Float16", "fp16-tensor", True),
    (r"PipelineProblem<(?:__bf16|std::bfloat16_t|ck_tile::bf)", "bf16-tensor", True),
    # Attention. Decoding one token at a time is done on vector units by FlashInfer.
    (r"BatchDecodeWithPagedKV", "fp32", False),
    (rf"(?:flash|fmha|attn|FlashAttn).*?(?:{_BF16})", "bf16-tensor", True),
    (r"(?:flash|fmha|attn|FlashAttn).*?(?:e4m3|fp8)", "fp8-tensor", True),
    (r"fmha_cutlass[FB]_f32", "fp32", None),
    # cuDNN writes f16 for bf16 as well: the unit is known, the format is not.
    (r"sdpa", None, True),
    (rf"(?:flash|fmha|attn|FlashAttn).*?(?:{_F16})", "fp16-tensor", True),
    (r"^attn_fwd|^bwd_kernel_|unified_attention|flash_attn|fmha_fwd|fmha_bwd", None, True),
    # Grouped and block-scaled products.
    (r"gemm.*fp8|fp8.*gemm", "fp8-tensor", True),
    (rf"matrix_core.*(?:{_BF16})", "bf16-tensor", True),
    (rf"matrix_core.*(?:{_F16})", "fp16-tensor", True),
    (r"matrix_core|mfma|wmma|tensor_core", None, True),
    (r"mul_mat_(?:vec_)?q<", "int8", False),
    # oneDNN: the instruction set is in the name.
    (r":avx512_core_amx\w*(?:int8|x8s8)|x8s8s32x:\w*amx", "int8-tensor", True),
    (r":avx512_core_amx_fp16", "fp16-tensor", True),
    (r":avx512_core_amx", "bf16-tensor", True),
    (r":avx512_core_(?:bf16|fp16)", "fp32", False),
    (r":avx512_core_vnni|:avx2_vnni|x8s8s32x", "int8", False),
    (r"^(?:jit|brg\w*|gemm|wino)\w*:(?:sse41|avx|avx2|avx512|jit|asimd|sve)", "fp32", False),
)
PRECISION_RULES = tuple((bounded(pattern), p, tensor) for pattern, p, tensor in _TABLE)


def contraction_precision(text: str) -> tuple[str | None, bool | None]:
    """Precision and tensor-core use of a matrix product, convolution or attention kernel.

    >>> contraction_precision("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn")
    ('fp16-tensor', True)
    """
    for pattern, precision, tensor_core in PRECISION_RULES:
        if pattern.search(text):
            return precision, tensor_core
    return None, None
