"""Which library a kernel comes from: a table of patterns, the first that fits decides.

Patterns are searched in the function's own name, then in the whole: what tells may be a template
argument (`cutlass::Kernel2<cutlass_80_…>`) or a suffix (`…_kernel__5x_cublas`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from timeroof.work.names.patterns import bounded

if TYPE_CHECKING:
    from timeroof.work.names.anatomy import Anatomy

_CHIP = r"(?:maxwell|pascal|volta|turing|ampere|hopper|blackwell)"

_TABLE: tuple[tuple[str, str], ...] = (
    # The driver's own kernels.
    (r"^\[?(?:CUDA |HIP |Unified Memory )?mem(?:cpy|set)|^\[Unified Memory", "driver"),
    (r"^__amd_rocclr_", "driver"),
    # Communication.
    (r"^ncclDevKernel_Generic|rccl", "rccl"),
    (r"^nccl|ncclKernel|ncclDevKernel", "nccl"),
    (r"nvshmem|::ep::(?:internode|intranode|cuda)|deep_ep::", "deepep"),
    # Attention.
    (r"flashinfer::|BatchDecodeWithPagedKVCache|BatchPrefillWith", "flashinfer"),
    (r"VariableLengthMergeStates", "flashinfer"),
    (r"^cudnn_generated|fort_native_sdpa", "cudnn"),
    (r"^fmhaSm\d+|^bmm_\w+_sm1\d\d|tensorrt_llm::|moe::dev::", "tensorrt-llm"),
    (r"^void ?fmha_cutlass|^fmha_cutlass|PyTorchMemEffAttention", "cutlass"),
    (r"aiter::|^_ZN5aiter", "aiter"),
    (r"ck_tile::|\bck::", "ck"),
    (r"\bflash::|pytorch_flash::|\bflash_(?:fwd|bwd)_|fmha_(?:fwd|bwd)_loop", "flash-attention"),
    (r"FlashAttn(?:Fwd|Bwd)", "flash-attention"),
    # Matrix products and convolutions.
    (r"^Cijk_\w*UserArgs", "hipblaslt"),
    (r"^Cijk_", "tensile"),
    (r"^nvjet_|_cublas$|cublasLt::|cublasGemv|cublasGemm|cublasDot|cublasSplitK", "cublas"),
    (r"gemvx::kernel", "cublas"),
    (r"magma_\w*gemm|splitKreduce_kernel|^(?:h|s|d)gemm_\d+x\d+|cublas(?:Lt)?Epilogue", "cublas"),
    (r"gemv(?:2T|2N|NSP)_kernel|gemmk1_kernel|gemmSN_|region_transform_ABC", "cublas"),
    (r"_trt$|^trt_|genericReformat::", "tensorrt"),
    (r"cudnn|implicit_convolve_sgemm|precomputed_convolve|fft2d_[rc]2[rc]|gcgemm", "cudnn"),
    (r"[wd]grad_alg\d|[wd]grad2d_|[wd]grad_engine|wgrad_alg0_engine|elemWiseRNNcell", "cudnn"),
    (r"(?:LSTM|GRU|GENERIC)_elementWise|RNN_bidirectional|n(?:chw|hwc)To|foldedNhwc", "cudnn"),
    (r"dgrad_1x1_stride", "cudnn"),
    (r"conv2d_c1_k1|conv2d_grouped_direct|convertTensor_kernel|scalePackedTensor", "cudnn"),
    (r"pooling_[fb]w_", "cudnn"),
    (r"^Volta_hmma_implicit_gemm", "cudnn"),
    (rf"^{_CHIP}_\w*gemm", "cublas"),
    (r"^sm\d+_xmma_|xmma::", "xmma"),
    (r"deep_gemm::|grouped_gemm::cuda", "deepgemm"),
    (r"cutlass", "cutlass"),
    (r"^igemm_(?:fwd|bwd|wrw)_|miopen|MIOpen|^batched_transpose_\d|SubTensorOpWith", "miopen"),
    (r"^naive_conv_", "miopen"),
    (r"^transpose_(?:NCHW|CNHW)|^Op\dd?Tensor|gridwise_convolution", "miopen"),
    # Frameworks and generators.
    (r"^triton_|^_?\w+_0d1d|^kernel_unified_attention|^_matmul_ogs|^_finalize_matmul", "triton"),
    (r"^attn_(?:fwd|bwd)", "triton"),
    (r"^bwd_kernel_(?:fuse|dk_dv|dq)|^_(?:topk_forward|combined_routing|sum_bitmatrix)", "triton"),
    (r"^reduce_segments$", "triton"),
    (r"vllm::", "vllm"),
    (r"fbgemm|split_embedding|dense_embedding|permute_pooled_embs|linearize_index", "fbgemm"),
    (r"bounds_check_indices", "fbgemm"),
    (r"recat_copy_async", "fbgemm"),
    (r"transformer_engine::|layer_norm::ln_", "transformer-engine"),
    (r"Eigen::", "eigen"),
    (r"tensorflow::", "tensorflow"),
    (r"at_cuda_detail::cub|\bcub::Device", "cub"),
    (r"rocprim::", "rocprim"),
    (r"\bthrust::", "thrust"),
    (r"\bat::|c10::|THCDeviceTensor|softmax_warp_|vectorized_elementwise", "aten"),
    (r"unrolled_elementwise", "aten"),
    (r"multi_tensor_apply_kernel", "apex"),
    (r"\bat_|kernelTransformReduce|^elementwise_kernel|CatArrayBatched|indexing_backward", "aten"),
    (r"mul_mat_(?:vec_)?q|ggml_|^quantize_q8|k_bin_bcast|k_get_rows", "ggml"),
    (r"unary_(?:gated_)?op_kernel|_norm_f32|ssm_conv_f32|^scale_f32", "ggml"),
    (r"CUTENSOR", "cutensor"),
    (r"^(?:loop|input|wrapped|fused)_\w*fusion|^gemm_fusion", "xla"),
    (r"^\w+_fusion(?:_\d+)?(?:\.\d+)?$", "xla"),
    (
        r"^(?:brg|brgemm|brgconv|brg_matmul|brdgmm|jit|jit_uni|gemm|wino|rnn|ref|simple|acl|x64)\w*:",
        "onednn",
    ),
    (r"mkldnn|onednn|dnnl", "onednn"),
)
LIBRARY_RULES = tuple((bounded(pattern, re.IGNORECASE), library) for pattern, library in _TABLE)


# Heads that wrap another library's kernel: their template argument decides.
_WRAPPERS = frozenset({"cutlass::device_kernel", "cutlass::Kernel", "cutlass::Kernel2"})


def library_of(parts: Anatomy) -> str | None:
    """The library, or None where the name does not tell: the head first, then the rest."""
    heads = () if parts.head in _WRAPPERS else (parts.head,)
    for text in (*heads, parts.signature, parts.text):
        for pattern, library in LIBRARY_RULES:
            if pattern.search(text):
                return library
    return None
