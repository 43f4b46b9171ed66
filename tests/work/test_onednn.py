"""oneDNN's verbose output."""

from __future__ import annotations

from hypothesis import given, strategies as st

from timeroof.work import count
from timeroof.work.onednn import call_from_onednn

TENSORS = "src_f32::blocked:acdb::f0 wei_f32::blocked:Acdb64a::f0 bia_f32::blocked:a::f0 dst_f32::b"
PROBLEM = "mb16_ic64oc64_ih112oh55kh3sh2dh0ph0_iw112ow55kw3sw2dw0pw0"
FLOPS = 2 * 16 * 64 * 64 * 9 * 55 * 55


def test_a_convolution_in_all_directions() -> None:
    forward = count(call_from_onednn("convolution", "forward_training", TENSORS, PROBLEM))
    assert forward.contraction == {"fp32": FLOPS}
    assert forward.other == {"fp32": 16 * 64 * 55 * 55}
    for way in ("backward_data", "backward_weights"):
        found = count(call_from_onednn("convolution", way, TENSORS, PROBLEM))
        assert found.contraction == {"fp32": FLOPS}, found.unknown


def test_groups_and_one_dimension() -> None:
    problem = "g4mb2_ic8oc12_iw30ow28kw3sw1dw0pw0"
    found = count(
        call_from_onednn("convolution", "forward_inference", "src_bf16::b wei_bf16::b", problem)
    )
    assert found.contraction == {"bf16": 2 * 2 * 12 * 2 * 3 * 28}


def test_products() -> None:
    found = count(
        call_from_onednn("matmul", "undef", "src_u8::b wei_s8::b dst_f32::b", "16x32:32x64:16x64")
    )
    assert found.contraction == {"int8": 2 * 16 * 32 * 64}
    found = count(call_from_onednn("matmul", "undef", "src_f32::b wei_f32::b", "4x16x32:4x32x8"))
    assert found.contraction == {"fp32": 2 * 4 * 16 * 32 * 8}
    found = count(
        call_from_onednn("inner_product", "forward", "src_f32::b wei_f32::b", "mb16ic32oc64")
    )
    assert found.contraction == {"fp32": 2 * 16 * 32 * 64}


def test_element_wise_primitives() -> None:
    found = count(call_from_onednn("eltwise", "forward", "src_f32::b", "8x4", "eltwise_logistic"))
    assert found.flops == 4 * 32
    found = count(call_from_onednn("reorder", "undef", "src_f32::b dst_f32::b", "8x4"))
    assert (found.flops, found.bytes) == (0, 256)
    found = count(call_from_onednn("softmax", "forward", "src_f32::b dst_f32::b", "8x4"))
    assert found.flops == 5 * 32


@given(st.tuples(*(st.text(max_size=30) for _ in range(5))))
def test_nothing_raises(texts: tuple[str, ...]) -> None:
    cost = count(call_from_onednn(*texts))
    assert cost.known or cost.unknown


@given(
    st.sampled_from(["convolution", "deconvolution", "matmul", "inner_product", "eltwise"]),
    st.text(),
)
def test_no_problem_raises(primitive: str, problem: str) -> None:
    cost = count(call_from_onednn(primitive, "backward_weights", TENSORS, problem))
    assert cost.known or cost.unknown
