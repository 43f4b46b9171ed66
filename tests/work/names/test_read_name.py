"""Facts of names, one family after the other; the names are real ones."""

from __future__ import annotations

import pytest

from timeroof.work.names import NameFacts, read_name

# name -> library, algorithm, precision, tensor core, tile, pass
Facts = tuple[str | None, str, str | None, bool | None, str | None, str | None]
MATRIX_KERNELS: dict[str, Facts] = {
    # cuBLAS and cuDNN by chip
    "volta_sgemm_128x64_nn": ("cublas", "gemm", "fp32", False, "128x64", None),
    "volta_sgemm_32x32_sliced1x4_tn": ("cublas", "gemm", "fp32", False, "32x32", None),
    "volta_fp16_sgemm_fp16_128x32_nt": ("cublas", "gemm", "fp32", False, "128x32", None),
    "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn": ("cublas", "gemm", "fp16-tensor", True, "128x128", None),
    "volta_h884gemm_256x64_ldg8_nn": ("cublas", "gemm", "fp16-tensor", True, "256x64", None),
    "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn": ("cublas", "gemm", "fp16-tensor", True, "128x128", None),
    "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_32x6_nn": ("cublas", "gemm", "bf16-tensor", True, "128x64", None),
    "ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_tn": ("cublas", "gemm", "fp16-tensor", True, "64x64", None),
    "ampere_sgemm_32x128_nt": ("cublas", "gemm", "fp32", False, "32x128", None),
    "ampere_dgemm_64x64_nn": ("cublas", "gemm", "fp64", False, "64x64", None),
    "hgemm_32x32x32_TN": ("cublas", "gemm", "fp16", False, "32x32x32", None),
    "maxwell_gcgemm_32x32_nt": ("cudnn", "fft", "fp32", False, "32x32", None),
    "volta_fp16_s884cudnn_fp16_128x128_ldg8_dgrad_f2f_exp_small_nhwc_tt_v1": ("cudnn", "implicit-gemm", "fp16-tensor", True, "128x128", "dgrad"),
    "volta_s884cudnn_fp16_256x128_ldg8_wgrad_idx_exp_interior_nhwc_nt": ("cudnn", "implicit-gemm", "fp16-tensor", True, "256x128", "wgrad"),
    "volta_scudnn_128x64_relu_small_nn_v1": ("cudnn", "implicit-gemm", "fp32", False, "128x64", "fprop"),
    "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1": ("cudnn", "winograd", "fp32", False, "128x128", "fprop"),
    "Volta_hmma_implicit_gemm_wgrad_fp32_nhwc_128x256x32x1_1x3x3x0x1": ("cudnn", "implicit-gemm", "fp16-tensor", True, "128x256x32", "wgrad"),
    "cudnn_infer_ampere_scudnn_128x64_relu_xregs_large_nn_v1": ("cudnn", "implicit-gemm", "fp32", False, "128x64", "fprop"),
    # xmma
    "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x128x32_stage5_warpsize2x2x1_g1_tensor16x8x8_execute_kernel_cudnn_infer": ("cudnn", "implicit-gemm", "tf32-tensor", True, "64x128x32", "fprop"),
    "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x32x32_stage4_warpsize4x1x1_g1_tensor16x8x16_execute_kernel__5x_cudnn": ("cudnn", "implicit-gemm", "bf16-tensor", True, "128x32x32", "fprop"),
    "sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nhwckrsc_nhwc_tilesize256x64x32_stage3_warpsize4x1x1_g1_tensor16x8x16_t1r3s3_execute_kernel_trt": ("tensorrt", "implicit-gemm", "fp16-tensor", True, "256x64x32", "fprop"),
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas": ("cublas", "gemm", "fp32", False, "64x256x8", None),
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas": ("cublas", "gemm", "bf16-tensor", True, "128x128x64", None),
    "void xmma_cudnn::gemm::kernel<xmma_cudnn::implicit_gemm::dgrad::Kernel_traits<xmma_cudnn::Ampere_hmma_tf32_traits<unsigned int, float>, xmma_cudnn::Cta_tile<xmma_cudnn::Ampere, (int)64, (int)128, (int)32, (int)2>>>(T1::Params)": ("cudnn", "implicit-gemm", "tf32-tensor", True, "64x128x32", "dgrad"),
    # CUTLASS and nvjet
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(T1::Params)": ("cutlass", "gemm", "bf16-tensor", True, "256x128", None),
    "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>(T1::Params)": ("cutlass", "gemm", "bf16-tensor", True, "32x32", None),
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_nt_align4>(cutlass_80_tensorop_s1688gemm_64x64_16x6_nt_align4::Params)": ("cutlass", "gemm", "tf32-tensor", True, "64x64", None),
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(Params)": ("cutlass", "gemm", "fp32", False, "128x32", None),
    "void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1>(Params)": ("cutlass", "gemm", "fp64-tensor", True, "64x64", None),
    "void cutlass::Kernel2<cutlass_80_tensorop_i16832gemm_s8_128x128_64x4_tn_align16>(Params)": ("cutlass", "gemm", "int8-tensor", True, "128x128", None),
    "void cutlass_cudnn_infer::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_64x128_32x3_nhwc_align4>(Params)": ("cudnn", "implicit-gemm", "tf32-tensor", True, "64x128", "dgrad"),
    "nvjet_tst_192x8_64x8_4x1_v_bz_TNT": ("cublas", "gemm", "bf16-tensor", True, "192x8", None),
    "nvjet_sm90_hsh_128x224_64x4_2x1_v_bz_coopA_NTT": ("cublas", "gemm", "fp16-tensor", True, "128x224", None),
    "void cutlass::device_kernel<dpsk::grouped_gemm::cuda::fp8_ptp128c::GemmKernel>(Params)": ("deepgemm", "gemm", "fp8-tensor", True, None, None),
    "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b_rM_TN_sm100f": ("tensorrt-llm", "gemm", "fp8-tensor", True, "128x16x256", None),
    # vector units of cuBLAS and cuDNN
    "std::enable_if<!T7, void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, (bool)0, (bool)1>(T13)": ("cublas", "gemv", "fp32", False, None, None),
    "void cudnn::detail::wgrad_alg1_engine<float, 128, 6, 8, 3, 3, 5, false, true>(int, int, int, float const*)": ("cudnn", "implicit-gemm", "fp32", False, None, "wgrad"),
    "void cudnn::detail::implicit_convolve_sgemm<__half, __half, 512, 6, 8, 3, 3, 5, 1, true, false, false>(int)": ("cudnn", "implicit-gemm", "fp32", False, None, "fprop"),
    "void fft2d_r2c_32x32<__half, bool=1, unsigned int=0, bool=0>(float2*, __half const *)": ("cudnn", "fft", "fp32", False, None, None),
    "void spatialDepthwiseConvolutionUpdateGradInput<c10::Half, float, unsigned int, 3, 1>(THCDeviceTensor<c10::Half>)": ("aten", "direct", "fp32", False, None, "dgrad"),
    # AMD
    "Cijk_Ailk_Bjlk_BBS_BH_Bias_HAS_SAV_UserArgs_MT128x64x32_MI32x32x1_SN_LDSB0": ("hipblaslt", "gemm", "bf16-tensor", True, "128x64x32", None),
    "Cijk_Alik_Bljk_HHS_BH_MT64x64x64_MI16x16x16x1_SN_1LDSB0": ("tensile", "gemm", "fp16-tensor", True, "64x64x64", None),
    "Cijk_Alik_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT256x256x32_MI16x16x1_SN_LDSB1": ("hipblaslt", "gemm", "fp32", True, "256x256x32", None),
    "Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT1x4x256_SN_LDSB0": ("hipblaslt", "gemm", "fp32", False, "1x4x256", None),
    "igemm_wrw_gtcx3_nhwc_bf16_bx0_ex1_bt64x64x64_wt32x32x8_ws1x1_wr1x1_ta1x4x1x4_1x16x1x16": ("miopen", "implicit-gemm", "bf16-tensor", True, "64x64x64", "wgrad"),
    "igemm_fwd_gtcx2_nhwc_fp16_bx0_ex1_bt32x128x32_wt16x64x4_ws1x1": ("miopen", "implicit-gemm", "fp16-tensor", True, "32x128x32", "fprop"),
    "_ZN2ck16tensor_operation6device37kernel_batched_gemm_xdlops_bwd_weightINS_47GridwiseGemm_bk0mk1_bk0nk1_mn_xdlops_bwd_weightILi64EttftEEEEvv": ("ck", "implicit-gemm", "bf16-tensor", True, None, "wgrad"),
    "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu": ("triton", "gemm", "bf16-tensor", True, "16x128x256", None),
    # attention
    "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t>::Params)": ("cutlass", "flash-attention", "bf16-tensor", True, "64x64", "forward"),
    "fmha_cutlassB_f16_aligned_64x64_k64_sm80(PyTorchMemEffAttention::AttentionBackwardKernel)": ("cutlass", "flash-attention", "fp16-tensor", True, "64x64", "backward"),
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t>, false>(pytorch_flash::Flash_fwd_params)": ("flash-attention", "flash-attention", "bf16-tensor", True, "128x128", "forward"),
    "void fmha_fwd_loop_kernel<FMHA_kernel_traits<(int)128, (int)32, (int)16, (int)1, (int)4, (unsigned int)8, __half>, (bool)0>(FMHA_fprop_params)": ("flash-attention", "flash-attention", "fp16-tensor", True, None, "forward"),
    "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext": ("tensorrt-llm", "flash-attention", "fp8-tensor", True, "128x128", None),
    "void BatchDecodeWithPagedKVCacheKernel<0, 2, 1, 8, 16, 4, 2, DefaultAttention<0, 0, 0, 0>, Params>(T9)": ("flashinfer", "flash-attention", "fp32", False, None, None),
    # the name tells the unit but not the format, or nothing at all
    "cudnn_generated_fort_native_sdpa_sm100_flash_fprop_f16_knob_7_1x128x128_4x1x1_cga1x1x1_kernel0_0": ("cudnn", "flash-attention", None, True, "128x128", "forward"),
    "attn_fwd": ("triton", "flash-attention", None, True, None, "forward"),
    "kernel_gemm_0": (None, "gemm", None, None, None, None),
    # oneDNN on CPUs
    "brgconv:avx512_core_amx_bf16": ("onednn", "implicit-gemm", "bf16-tensor", True, None, None),
    "gemm:jit": ("onednn", "gemm", "fp32", False, None, None),
}  # fmt: skip


@pytest.mark.parametrize("name", MATRIX_KERNELS, ids=lambda name: name[:60])
def test_a_matrix_kernel_says_what_it_computes_and_on_which_unit(name: str) -> None:
    facts = read_name(name)
    got = (facts.library, facts.algorithm, facts.precision, facts.tensor_core, facts.tile)
    assert (*got, facts.pass_name) == MATRIX_KERNELS[name]


# name -> library, algorithm
OTHERS = {
    "Memcpy HtoD (Pinned -> Device)": ("driver", "copy"),
    "[CUDA memset]": ("driver", "memset"),
    "__amd_rocclr_fillBufferAligned.kd": ("driver", "memset"),
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)": ("nccl", "all-reduce"),
    "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": (
        "nccl",
        "reduce-scatter",
    ),
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": ("nccl", "all-gather"),
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)": ("nccl", "send-recv"),
    "ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*)": ("nccl", "broadcast"),
    "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)": ("rccl", "collective"),
    "void dpsk::ep::internode::dispatch<false, 8, true, 8>(int4*, float*)": (
        "deepep",
        "all-to-all",
    ),
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(int)": (
        "cudnn",
        "layout",
    ),
    "void at::native::im2col_kernel<float>(long, float const*)": ("aten", "layout"),
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(int)": (
        "aten",
        "softmax",
    ),
    "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float)": (
        "cudnn",
        "norm",
    ),
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)": (
        "aten",
        "norm",
    ),
    "void at::native::(anonymous namespace)::max_pool_backward_nchw<float, float>(int)": (
        "aten",
        "pooling",
    ),
    "void splitKreduce_kernel<32, 16, int, float, float, float, float, true, false, false>(int)": (
        "cublas",
        "reduction",
    ),
    "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float>(int)": (
        "apex",
        "optimizer",
    ),
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 4>(int)": (
        "aten",
        "copy",
    ),
    "triton_red_fused_add_mean_mul_pow_rsqrt_0": ("triton", "reduction"),
    "triton_poi_fused__to_copy_5": ("triton", "elementwise"),
    "void cub::DeviceRadixSortOnesweepKernel<cub::Policy800, false, long, int>(int*)": (
        "cub",
        "sort",
    ),
    "loop_transpose_fusion": ("xla", "layout"),
}


@pytest.mark.parametrize("name", OTHERS, ids=lambda name: name[:60])
def test_the_rest_says_what_it_does_and_uses_no_tensor_core(name: str) -> None:
    facts = read_name(name)
    assert (facts.library, facts.algorithm, facts.tensor_core) == (*OTHERS[name], False)


def test_what_is_in_memory_differs_from_what_is_computed_in() -> None:
    wide = read_name("volta_fp16_sgemm_fp16_128x32_nt")
    assert (wide.storage, wide.precision) == ("fp16", "fp32")
    half = read_name("void at::native::(anonymous namespace)::max_pool<c10::Half>(int)")
    assert (half.storage, half.precision) == ("fp16", "fp32")


def test_algorithms_that_do_less_work_are_named() -> None:
    winograd = "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1"
    assert read_name(winograd).algorithm == "winograd"
    assert read_name("volta_sgemm_128x64_nn").algorithm == "gemm"


def test_a_name_that_says_nothing_gives_nothing() -> None:
    assert read_name("ComputeCurrent") == NameFacts(short_name="ComputeCurrent")
