"""What a kernel does and in which pass: tables of patterns, the first that fits decides.

`head` rows look at the function's own name, `signature` rows at its template arguments too
(wrappers such as `cutlass::Kernel2<…>` say nothing in their head).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from timeroof.core.vocabulary import FirstFit

if TYPE_CHECKING:
    from timeroof.work.names.anatomy import Anatomy

# Products of matrices in one form or another: FLOPs that a matrix unit could do.
CONTRACTIONS = frozenset(
    {"gemm", "gemv", "implicit-gemm", "winograd", "fft", "direct", "flash-attention"}
)
CONVOLUTIONS = frozenset({"implicit-gemm", "winograd", "fft", "direct"})
COLLECTIVES = frozenset(
    {"all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce", "send-recv"}
    | {"all-to-all", "collective"}
)

# What a row looks at.
_HEAD, _SIGNATURE = 0, 1

_TABLE: tuple[tuple[int, str, str], ...] = (
    (_HEAD, r"memcpy|rocclr_copyBuffer|^_copy_tensor_kernel", "copy"),
    (_HEAD, r"memset|rocclr_fillBuffer|SetZero", "memset"),
    (_HEAD, r"page faults", "page-fault"),
    # Communication
    (_HEAD, r"all_?reduce", "all-reduce"),
    (_HEAD, r"all_?gather", "all-gather"),
    (_HEAD, r"reduce_?scatter", "reduce-scatter"),
    (_HEAD, r"^nccl\w*_broadcast", "broadcast"),
    (_HEAD, r"^nccl\w*_send_?recv", "send-recv"),
    (_HEAD, r"all_?to_?all|::ep::(?:internode|intranode)::", "all-to-all"),
    (_HEAD, r"^nccl\w*_reduce", "reduce"),
    (_HEAD, r"^nccl", "collective"),
    # Attention; what only prepares or merges its parts has no products
    (_HEAD, r"reshape_and_cache|_copy_page_indices", "copy"),
    (_SIGNATURE, r"splitkv_combine|MergeStates|^reduce_segments$", "reduction"),
    (_SIGNATURE, r"FlashAttn\w*(?:Pre|Post)process", "reduction"),
    (_SIGNATURE, r"flash_bwd_(?:dot_do_o|convert)|fmha_bwd_(?:dot|convert)", "reduction"),
    (_SIGNATURE, r"flash_(?:fwd|bwd|attn|fprop|bprop)|FlashAttn|fmha", "flash-attention"),
    (_SIGNATURE, r"attn_(?:fwd|bwd)|unified_attention", "flash-attention"),
    (_SIGNATURE, r"PagedKVCache|sdpa|MemEffAttention", "flash-attention"),
    (_SIGNATURE, r"^bwd_kernel_(?:fuse|dk_dv|dq)|compute_attn", "flash-attention"),
    (_SIGNATURE, r"paged_attention|triton_tem_\w*(?:attention|flex)", "flash-attention"),
    # Wrappers around a functor: the head decides, the functor may say more
    (
        _SIGNATURE,
        r"multi_tensor_apply\w*<.*(?:Adam|SGD|Lamb|Adagrad|RMSprop|Lion)\w*Functor",
        "optimizer",
    ),
    (_SIGNATURE, r"multi_tensor_apply\w*<.*Norm\w*Functor", "reduction"),
    (_SIGNATURE, r"elementwise\w*<.*?(?:copy_kernel|copy_device_to_device|_copy\()", "copy"),
    (
        _SIGNATURE,
        r"elementwise\w*<.*?(?:index_kernel|index_put|gpu_index|masked_scatter|_cuda_scatter|scatter_gather)",
        "gather",
    ),
    (_SIGNATURE, r"elementwise\w*<.*?dropout", "dropout"),
    (_HEAD, r"distribution_elementwise|_random|philox|curand|bernoulli", "random"),
    (_HEAD, r"vectorized_elementwise|unrolled_elementwise", "elementwise"),
    (_HEAD, r"^\w*::?elementwise_kernel|legacy::elementwise", "elementwise"),
    (_HEAD, r"elementwise_kernel|^elementwise|multi_tensor_apply|EigenMetaKernel", "elementwise"),
    # Convolution
    (_SIGNATURE, r"compute\w*OffsetsKernel|kern_precompute_indices|generateWinogradTiles", "setup"),
    (_SIGNATURE, r"winograd|\bwino:|Sp3AsmConv", "winograd"),
    (_SIGNATURE, r"fft2d|gcgemm|fft_kernel|regular_fft|vector_fft", "fft"),
    (_SIGNATURE, r"reduce_wgrad|ReduceSplitK|splitK?_?reduce", "reduction"),
    (_SIGNATURE, r"implicit_gemm|ImplicitGemm|igemm_(?:fwd|bwd|wrw)", "implicit-gemm"),
    (_SIGNATURE, r"implicit_convolve|precomputed_convolve", "implicit-gemm"),
    (_SIGNATURE, r"\ds?cudnn_|_scudnn|_hcudnn|_icudnn|grouped_conv_", "implicit-gemm"),
    (_SIGNATURE, r"gemm\w*_bwd_weight|cudnn-conv", "implicit-gemm"),
    (_SIGNATURE, r"tensorop\w*(?:fprop|dgrad|wgrad)_", "implicit-gemm"),
    (_SIGNATURE, r"xmma\w*_(?:fprop|dgrad|wgrad)", "implicit-gemm"),
    (_HEAD, r"[dw]grad_alg\d|[dw]grad2d_alg|[dw]grad_engine|^brgconv|brgemm_conv", "implicit-gemm"),
    (_HEAD, r"dgrad_1x1_stride", "implicit-gemm"),
    (_HEAD, r"depthwise|conv2d_c1_k1|conv2d_grouped|grad2d_(?:c1_k1|grouped|shmem)", "direct"),
    (_HEAD, r"naive_conv|ssm_conv|causal_conv1d|conv_direct|Conv2DShmem|convolve_common", "direct"),
    (_HEAD, r"gridwise_convolution|^jit\w*:.*conv", "direct"),
    (_HEAD, r"im2col|col2im|vol2col|vol2im", "layout"),
    # Matrix products
    (_HEAD, r"gemv|mul_mat_vec", "gemv"),
    (_SIGNATURE, r"cublas(?:Gemv|Dot)\w*Params|gemvx|GemvKernel", "gemv"),
    (_HEAD, r"fill_tensormaps|finalize_matmul|moe_align", "setup"),
    (_HEAD, r"permute_2D|permute_indices|permute_pooled|recat_copy", "layout"),
    (_HEAD, r"grouped_gemm\w*::\w*::?utils::transpose", "layout"),
    (_SIGNATURE, r"gemm(?!_gpu|::cuda::utils)|^Cijk_|^nvjet_|matmul|^bmm_", "gemm"),
    (_SIGNATURE, r"matrix_multiplication|triton_tem_\w*mm", "gemm"),
    (_HEAD, r"mul_mat_q|^triton_(?:mm|bmm|addmm)", "gemm"),
    # The rest of a network
    (_HEAD, r"soft_?max", "softmax"),
    (_SIGNATURE, r"softmax_op_gpu|SubtractAndExpFunctor|GenerateNormalizedProb", "softmax"),
    (_SIGNATURE, r"softmaxSoftmax", "softmax"),
    (_SIGNATURE, r"batch_?norm|layer_?norm|group_?norm|rms_?norm|instance_?norm", "norm"),
    (_SIGNATURE, r"\bln_(?:fwd|bwd)_|l2_norm", "norm"),
    (_HEAD, r"bn_(?:fw|bw)_|GammaBeta|MIOpenBatchNorm|normalize_kernel|Rmsnorm|lpnorm", "norm"),
    (_HEAD, r"nll_loss|ClassNLL|ctc_loss|cross_entropy|mse_loss", "loss"),
    (_HEAD, r"pool", "pooling"),
    (_HEAD, r"upsample|resize_|ResizeBilinear|interpolate", "interpolation"),
    (_HEAD, r"elementWise_bp|elemWiseRNN|lstm_cell|gru_cell|RNN_", "recurrent-cell"),
    (_HEAD, r"adagrad|_adam_|_sgd_|optimizer", "optimizer"),
    (_HEAD, r"rotary|rope", "rotary"),
    (_HEAD, r"kernelTransformReduce|moe::.*finalize", "reduction"),
    (_HEAD, r"embedding|compute_grad_weight|krn_partial|num_of_partial_segments", "embedding"),
    (_HEAD, r"sum_and_scatter", "embedding"),
    (_HEAD, r"linearize_index|bounds_check|to_dense_representation|_offsets_range", "embedding"),
    (_HEAD, r"dropout", "dropout"),
    (_HEAD, r"radix_?sort|bitonicSort|merge_?sort|block_merge|sort_kernel", "sort"),
    (_HEAD, r"topk|gatherTopK|routing|expert|fused_mapping|bitmatrix|dispatch_layout", "sort"),
    (_HEAD, r"searchsorted", "sort"),
    (_HEAD, r"scan|CompactInit|lookback|partition_kernel|cumsum", "scan"),
    (_HEAD, r"index|gather|scatter|get_rows|expand_to_fused", "gather"),
    (_HEAD, r"CatArray|concat|::S2B|PadInput|slice", "copy"),
    (_HEAD, r"transpose|nchwTo|nhwcTo|NhwcKernel|SwapDimension|ShuffleInTensor|permut", "layout"),
    (_HEAD, r"region_transform|Reformat", "layout"),
    (_HEAD, r"quant|(?<!b)cast|convertTensor|_autocast_to_", "cast"),
    (_HEAD, r"^triton_(?:red|per)_", "reduction"),
    (_HEAD, r"^triton_poi_|^loop_", "elementwise"),
    (_HEAD, r"reduc|CleanupSegments|_sum_|\bdot_kernel", "reduction"),
    (_HEAD, r"SubTensorOp|OpTensor|scalePacked|swiglu|silu|gelu|relu|activat|unary", "elementwise"),
    (_HEAD, r"bin_bcast|add_bias|scale_|axpy|triad|::(?:add|mul|fill)_", "elementwise"),
    (_HEAD, r"^(?:add|mul|fill|init|square|scale)_|globalKernel", "elementwise"),
    (_HEAD, r"copy|Copy", "copy"),
    (_HEAD, r"fill|zero", "memset"),
)
ALGORITHMS = FirstFit(
    [(pattern, name) for _, pattern, name in _TABLE], re.IGNORECASE, [row[0] for row in _TABLE]
)

_PASSES: tuple[tuple[str, str], ...] = (
    (r"[Ww]grad|_wrw_|bwd_weight|AccGradParameters|grad_weight|backward_weights", "wgrad"),
    (r"[Dd]grad|igemm_bwd_|bwd_data|UpdateGradInput|grad_input_kernel|backward_data", "dgrad"),
    (r"[Ff]prop|igemm_fwd_|conv_fwd|UpdateOutput|implicit_convolve|precomputed_convolve", "fprop"),
    (r"_relu_\w*v1$", "fprop"),
    (r"[Bb]ackward|_bwd|bwd_|Bwd|_bw_|_bp\d|fmha_cutlassB|_grad\b|GradKernel", "backward"),
    (r"[Ff]orward|_fwd|fwd_|Fwd|_fw_|fmha_cutlassF", "forward"),
)
PASSES = FirstFit(_PASSES)


def algorithm_of(parts: Anatomy) -> str | None:
    """What the kernel does, or None where its name does not tell."""
    return ALGORITHMS.first(parts.head, parts.signature)


def pass_of(parts: Anatomy, algorithm: str | None) -> str | None:
    """The pass: fprop, dgrad, wgrad of a convolution; forward or backward of the rest."""
    name = PASSES.first(parts.signature)
    if name is None or name in ("forward", "backward") or algorithm in CONVOLUTIONS:
        return name
    if algorithm in ("gemm", "gemv"):  # `relu` in their names is an epilogue, no pass
        return None
    return "forward" if name == "fprop" else "backward"


# Which library a kernel comes from: a table of patterns, the first that fits decides.
#
# Patterns are searched in the function's own name, then in the whole: what tells may be a
# template
# argument (`cutlass::Kernel2<cutlass_80_…>`) or a suffix (`…_kernel__5x_cublas`).


_CHIP = r"(?:maxwell|pascal|volta|turing|ampere|hopper|blackwell)"

_LIBRARIES_TABLE: tuple[tuple[str, str], ...] = (
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
    (r"pooling_[fb]w_|^Volta_hmma_implicit_gemm", "cudnn"),
    (rf"^{_CHIP}_\w*gemm", "cublas"),
    (r"^sm\d+_xmma_|xmma::", "xmma"),
    (r"deep_gemm::|grouped_gemm::cuda", "deepgemm"),
    (r"cutlass", "cutlass"),
    (r"^igemm_(?:fwd|bwd|wrw)_|miopen|MIOpen|^batched_transpose_\d|SubTensorOpWith", "miopen"),
    (r"^naive_conv_|^transpose_(?:NCHW|CNHW)|^Op\dd?Tensor|gridwise_convolution", "miopen"),
    # Frameworks and generators.
    (r"^triton_|^_?\w+_0d1d|^kernel_unified_attention|^_matmul_ogs|^_finalize_matmul", "triton"),
    (r"^attn_(?:fwd|bwd)", "triton"),
    (r"^bwd_kernel_(?:fuse|dk_dv|dq)|^_(?:topk_forward|combined_routing|sum_bitmatrix)", "triton"),
    (r"^reduce_segments$", "triton"),
    (r"vllm::", "vllm"),
    (r"fbgemm|split_embedding|dense_embedding|permute_pooled_embs|linearize_index", "fbgemm"),
    (r"bounds_check_indices|recat_copy_async", "fbgemm"),
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
LIBRARIES = FirstFit(_LIBRARIES_TABLE, re.IGNORECASE)


# Heads that wrap another library's kernel: their template argument decides.
_WRAPPERS = frozenset({"cutlass::device_kernel", "cutlass::Kernel", "cutlass::Kernel2"})


def library_of(parts: Anatomy) -> str | None:
    """The library, or None where the name does not tell: the head first, then the rest."""
    heads = () if parts.head in _WRAPPERS else (parts.head,)
    texts = dict.fromkeys((*heads, parts.signature, parts.text))
    return next((library for text in texts if (library := LIBRARIES.first(text))), None)


# Precision and unit of matrix products, from their names: tables, the first that fits decides.
#
# A precision is one of `core.machine.PRECISIONS`: the unit and format the products are computed
# in, not what is in memory. `volta_fp16_sgemm_fp16_…` keeps fp16 in memory and computes in fp32
# on
# the vector units; `volta_s884…` multiplies fp16 on tensor cores and adds in fp32.
#
# Instruction shapes tell the unit: 884 is HMMA on Volta, 1688 fp16 on Turing and (without a type)
# TF32 on Ampere, 16816 fp16 or bf16, 16832 int8 or fp8. Sources: CUTLASS' library naming
# (tools/library, `procedural names`), Tensile's nomenclature page, MIOpen's igemm generator.


_F16 = r"f16|fp16|half_t|__half|_Float16|c10::Half|\bhalf\b"
_BF16 = r"bf16|bfloat16|BFloat16"

# pattern, precision, tensor core. None: the name does not tell.
_PRECISIONS_TABLE: tuple[tuple[str, str | None, bool | None], ...] = (
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
    (r"^\w*?_[hs](?:884|16816)|^\w*?fp16_s1688|^turing_\w*?1688|^\w*?_h1688", "fp16-tensor", True),
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
    (r"^igemm_\w+_gtc\w*_fp32|Sp3AsmConv\w*fp32", "fp32", False),
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
PRECISIONS = FirstFit(
    (pattern, (precision, tensor_core)) for pattern, precision, tensor_core in _PRECISIONS_TABLE
)


def contraction_precision(text: str) -> tuple[str | None, bool | None]:
    """Precision and tensor-core use of a matrix product, convolution or attention kernel.

    >>> contraction_precision("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn")
    ('fp16-tensor', True)
    """
    return PRECISIONS.first(text) or (None, None)
