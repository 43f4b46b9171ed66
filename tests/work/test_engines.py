"""Ops of inference engines and of flash-attn, by hand and one pair at a time."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from timeroof.work import Call, Cost, Tensor, count
from timeroof.work.call import Unrecorded

BF = "bf16"


def of(op: str, *values: object) -> Cost:
    return count(Call.of(op, *values))


@pytest.mark.parametrize(("rows", "inner"), [(64, 32), (32, 32)])
def test_fused_experts_by_hand(rows: int, inner: int) -> None:
    """10 tokens of 16, 3 of 8 experts each; with a gate the first product is twice as wide."""
    x, ids = Tensor((10, 16), BF), Tensor((10, 3), "int32")
    w1, w2 = Tensor((8, rows, 16), BF), Tensor((8, 16, inner), BF)
    shares = Tensor((10, 3), "fp32")
    found = of("vllm::inplace_fused_experts", x, w1, w2, shares, ids)
    assert found.contraction == {BF: 2 * 30 * 16 * (rows + inner)}
    assert found.bytes_read == 2 * (160 + 8 * 16 * (rows + inner)) + 4 * 30 + 4 * 30
    assert found.bytes_written == 2 * 160
    narrow = of("vllm::outplace_fused_experts", x, Tensor(w1.shape, "fp8"),
                Tensor(w2.shape, "fp8"), shares, ids)  # fmt: skip
    assert list(narrow.contraction) == ["fp8"]


def test_fused_experts_reach_no_more_experts_than_rows() -> None:
    one = of("sglang::inplace_fused_experts", Tensor((1, 16), BF), Tensor((8, 64, 16), BF),
             Tensor((8, 16, 32), BF), Tensor((1, 2)), Tensor((1, 2), "int32"))  # fmt: skip
    assert one.bytes_read == 2 * (16 + 2 * 16 * 96) + 8 + 8


def test_packed_experts_are_unknown() -> None:
    found = of("vllm::inplace_fused_experts", Tensor((1, 16), BF), Tensor((8, 64, 8), "uint8"),
               Tensor((8, 16, 16), "uint8"), Tensor((1, 2)), Tensor((1, 2), "int32"))  # fmt: skip
    assert "packed" in (found.unknown or "")


def test_small_ops_by_hand() -> None:
    ids, order = Tensor((4, 2), "int32"), Tensor((100,), "int32")
    aligned = of("_moe_C::moe_align_block_size", ids, 8, 16, order, order, Tensor((1,), "int32"))
    assert (aligned.flops, aligned.bytes_read, aligned.bytes_written) == (0, 32, 36)
    summed = of("_moe_C::moe_sum", Tensor((4, 2, 8), BF), Tensor((4, 8), BF))
    assert (summed.flops, summed.bytes) == (32, 2 * (64 + 32))
    gated = of("_C::gelu_and_mul", Tensor((4, 8), BF), Tensor((4, 16), BF))
    assert (gated.flops, gated.bytes) == (6 * 32, 2 * (32 + 64))
    normed = of("sgl_kernel::rmsnorm", Tensor((4, 8), BF), Tensor((4, 8), BF), Tensor((8,), BF))
    assert normed == of("_C::rms_norm", Tensor((4, 8), BF), Tensor((4, 8), BF), Tensor((8,), BF))
    added = of("fbgemm::jagged_dense_elementwise_add", Tensor((7, 4)), (Tensor((4,), "int64"),),
               Tensor((3, 5, 4)))  # fmt: skip
    assert (added.flops, added.bytes) == (28, 4 * 28 * 3)
    moved = of(
        "fbgemm::block_bucketize_sparse_features", Tensor((6,), "int64"), Tensor((20,), "int64")
    )
    assert (moved.flops, moved.bytes) == (0, 8 * (6 + 20 + 20))


def pairs_one_by_one(queries: int, keys: int, causal: bool, left: int) -> int:
    """flash-attn's mask: query i sits at place i + keys - queries of the keys."""
    total = 0
    for i in range(queries):
        place = i + keys - queries
        for j in range(keys):
            total += (not causal or j <= place) and (left < 0 or j >= place - left)
    return total


@given(st.integers(1, 12), st.integers(1, 12), st.booleans())
def test_flash_attn_without_a_window(queries: int, keys: int, causal: bool) -> None:
    q, k = Tensor((2, queries, 4, 8), BF), Tensor((2, keys, 2, 8), BF)
    found = of("flash_attn::_flash_attn_forward", q, k, k, 0.0, 1.0, causal, -1, -1)
    pairs = 2 * 4 * pairs_one_by_one(queries, keys, causal, -1)
    assert found.contraction_flops == pytest.approx(2 * pairs * 16)
    back = of("flash_attn::_flash_attn_backward", q, q, k, k, q, q, q, k, k, 0.0, 1.0, causal)
    assert back.contraction_flops == pytest.approx(2.5 * found.contraction_flops)


@given(st.integers(1, 12), st.integers(0, 6), st.integers(0, 20))
def test_flash_attn_with_a_window(queries: int, before: int, left: int) -> None:
    q, k = Tensor((1, queries, 1, 8), BF), Tensor((1, queries + before, 1, 8), BF)
    found = of("flash_attn::_flash_attn_forward", q, k, k, 0.0, 1.0, True, left, 0)
    pairs = pairs_one_by_one(queries, queries + before, True, left)
    assert found.contraction_flops == pytest.approx(2 * 16 * pairs)


def test_flash_attn_packed() -> None:
    q, starts = Tensor((30, 4, 8), BF), Tensor((4,), "int32")
    found = of("flash_attn::_flash_attn_varlen_forward", q, q, q, starts, starts, 10, 10, 0.0, 1.0,
               True)  # fmt: skip
    assert found.contraction_flops == 3 * 4 * 55 * 2 * 16
    back = of("flash_attn::_flash_attn_varlen_backward", q, q, q, q, q, q, q, q, q, starts, starts,
              10, 10, 0.0, 1.0, True)  # fmt: skip
    assert back.contraction_flops == pytest.approx(2.5 * found.contraction_flops)


@pytest.mark.parametrize(
    ("op", "values"),
    [
        ("flash_attn::_flash_attn_forward", [Tensor((1, 4, 1, 8), BF)] * 3),
        ("flash_attn::_flash_attn_forward",
         [*[Tensor((1, 4, 1, 8), BF)] * 3, 0.0, 1.0, False, 3, 3]),
        ("flash_attn::_flash_attn_forward", [Unrecorded()] * 8),
        ("_C::paged_attention_v1", [Tensor((4, 8, 64), BF)] * 4),
        ("fbgemm::jagged_index_select", [Tensor((7, 4))]),
        ("vllm::inplace_fused_experts", [Tensor((-1, 16), BF)] * 5),
        ("_moe_C::moe_sum", [Tensor((4, 8), BF)] * 2),
    ],
)  # fmt: skip
def test_what_is_not_recorded_is_unknown(op: str, values: list[object]) -> None:
    found = of(op, *values)
    assert found.unknown
    assert found.flops is None
