"""Short names: readable, at most 40 characters, the same for every spelling of a kernel."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings, strategies as st

from timeroof.work.names import read_name
from timeroof.work.names.facts import LONGEST_SHORT_NAME

FILL = "vectorized_elementwise_kernel<{four}, at::native::FillFunctor<float>, {array}>"
SHORT = {
    "volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc_tn_v1": "cudnn conv fp16 tensor 256x64",
    "volta_sgemm_128x64_nn": "cublas gemm fp32 128x64",
    "volta_fp16_sgemm_fp16_128x32_nt": "cublas gemm fp32 (fp16 data) 128x32",
    "void fft2d_c2r_32x32<float, false, false, 0u, false, false>(float*, float2 const*)": "cudnn fft conv fp32",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)": "nccl all-reduce float ring",
    "Memcpy DtoH (Device -> Pinned)": "memcpy DtoH",
    "[CUDA memcpy HtoD]": "memcpy HtoD",
    "Memset (Device)": "memset",
    "triton_poi_fused__unsafe_view_mul_silu_2": "triton pointwise unsafe_view_mul_silu",
    "triton_poi_fused_0": "triton pointwise",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>, unsigned int, float, 4> >(int)": "reduce Mean<float>",
    "_ZN2at6native13reduce_kernelILi128ELi4ENS0_8ReduceOpIN3c104HalfENS0_14func_wrapper_tIfZNS0_11sum_functorIS4_ffEclERNS_14TensorIteratorEEUlffE_EEjfLi4EEEEEvT1_": "reduce sum<half>",
    "_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_15exp_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE_clEvENKUlvE2_clEvEUlfE_NS_6detail5ArrayIPcLi2EEEEEviT0_T1_": "elementwise exp<float>",
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::<unnamed>::silu_kernel(at::TensorIteratorBase &)::[lambda() (instance 1)]::operator ()() const::[lambda() (instance 6)]::operator ()() const::[lambda(c10::BFloat16) (instance 1)], std::array<char *, (unsigned long)2>>(int, T2, T3)": "elementwise silu<bf16>",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<1>, at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 1, 1, 0>, std::multiplies<float>, float>(int)": "foreach mul<float>",
    "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<Eigen::TensorAssignOp<Eigen::TensorMap<Eigen::Tensor<float, 1, 1, int>, 16>, Eigen::TensorCwiseBinaryOp<Eigen::internal::scalar_product_op<float, float>> > > >(int)": "eigen product<float>",
    "": "(unnamed)",
}  # fmt: skip


@pytest.mark.parametrize("name", SHORT, ids=lambda name: name[:50])
def test_short_names_read_well(name: str) -> None:
    assert read_name(name).short_name == SHORT[name]


SPELLINGS = (
    ("4", "at::detail::Array<char*, 1> "),
    ("(int)4", "std::array<char *, (unsigned long)1>"),
    ("int=4", "at::detail::Array<char*, int=1>"),
)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_profiler_spells_it_differently_and_it_stays_the_same(
    spelling: tuple[str, str],
) -> None:
    four, array = spelling
    name = f"void at::native::{FILL.format(four=four, array=array)}(int, float)"
    assert read_name(name).short_name == "elementwise Fill<float>"


def test_instances_of_one_generated_kernel_share_a_name() -> None:
    names = {read_name(f"triton_poi_fused__to_copy_{i}").short_name for i in range(30)}
    assert names == {"triton pointwise to_copy"}


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=300) | st.from_regex(r"(_ZN?[0-9A-Za-z_]{0,120}|[a-z_:<>(),& ]{0,200})"))
def test_any_text_gives_a_short_printable_name(name: str) -> None:
    facts = read_name(name)
    assert 0 < len(facts.short_name) <= LONGEST_SHORT_NAME
    assert facts.short_name.isprintable()
    assert read_name(name) == facts


HUGE = {
    "letters": "a" * 100_000,
    "brackets": "<" * 50_000 + ">" * 50_000,
    "parentheses": "void f" + "(" * 99_000,
    "attention": "flash" * 20_000,
    "xmma": "xmma_" * 20_000,
    "types": "void k<" + "float, " * 14_000 + ">()",
    "mangled": "_ZN" + "1a" * 49_000,
    "substitutions": "_Z1fI" + "N1aE" + "S_I" * 30_000,
    "doubling": "_Z1f" + "".join(f"1{chr(97 + i % 26)}IS{i}_S{i}_E" for i in range(10)) * 800,
    "controls": "\x00\x1b[31m\u202e" * 20_000,
    "lambdas": "_ZZ" * 33_000,
}


@pytest.mark.parametrize("kind", HUGE)
def test_huge_names_take_bounded_time(kind: str) -> None:
    begin = time.perf_counter()
    facts = read_name(HUGE[kind])
    assert time.perf_counter() - begin < 2.0
    assert len(facts.short_name) <= LONGEST_SHORT_NAME
