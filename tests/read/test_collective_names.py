"""Which kernels communicate, by names of many libraries, in Kineto traces and in tables alike."""

from __future__ import annotations

import polars as pl
import pytest

from timeroof.read.events import kernel_kind
from timeroof.read.nvidia.nvprof_profile import kind_of_name
from timeroof.read.torch.events import is_collective

TALKS = (
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(ncclSymkDevWorkArgs4K)",
    "void rccl_main_kernel(rcclArgs)",
    "void mscclpp::allreduce8<__half>(void*)",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*)",
    "void sglang::all_reduce_one_shot_push_kernel<__nv_bfloat16>(int)",
    "void aiter::reduce_scatter_cross_device_store<__hip_bfloat16>(int)",
    "void aiter::allgather_lastdim<__hip_bfloat16, 8>(int)",
    "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half>>(int)",
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half>(int)",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<4>(int)",
    "void c10d::symmetric_memory::(anonymous namespace)::one_shot_all_reduce_kernel<float>(int)",
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16>(int)",
    "void deep_ep::intranode::dispatch<8>(int4*)",
    "EpCombineIntraNodeKernel_bf16",
    "userbuffers_fp16_sum_inplace_gpu_rr_rs_oop",
)
COMPUTES = (
    "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float>>(int)",
    "void cublasLt::splitKreduce_kernel<32, 16, int>(int)",
    "void cub::DeviceReduceKernel<cub::DeviceReducePolicy<float>>(int)",
    "void at::native::_scatter_gather_elementwise_kernel<128, 4>(int)",
    # Inductor names a kernel after all ops that it was made of; products may send as they go.
    "triton_poi_fused_add_all_reduce_mul_3",
    "void gemm_allreduce_kernel<128, 128>(int)",
    # What a template argument is called says nothing of the kernel.
    "void at::native::elementwise_kernel<128, at::native::after_all_gather_add>(int)",
)


@pytest.mark.parametrize("name", [*TALKS, *COMPUTES])
def test_a_kernel_communicates_or_not_in_every_format(name: str) -> None:
    table = pl.DataFrame({"name": [name]})
    kind = "collective" if name in TALKS else "kernel"
    assert table.select(kernel_kind())["kind"].to_list() == [kind]
    assert table.select(kind_of_name())["kind"].to_list() == [kind]
    assert is_collective(name) is (name in TALKS)
