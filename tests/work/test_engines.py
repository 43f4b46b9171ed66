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


# AITER's and FlashAttention 3's attention: flags stand at different places in their versions.


@pytest.mark.parametrize(
    "numbers",
    [(64, 64, 0.0, 0.125, False, True, -1, 0), (64, 64, 0, 0.0, 0.125, 0.0, False, True, -1, 0, 0)],
    ids=["older", "newer"],
)
def test_aiters_packed_sequences_in_two_versions(numbers: tuple[object, ...]) -> None:
    q, k = Tensor((128, 8, 32), BF), Tensor((128, 2, 32), BF)
    starts = Tensor((3,), "int32")
    found = of("aiter::mha_varlen_fwd", q, k, k, starts, starts, *numbers)
    pairs = 8 * 2 * (64 * 65 / 2)
    assert found.contraction == {BF: 2 * pairs * 64}
    back = of("aiter::mha_varlen_bwd", q, q, k, k, q, None, starts, starts, *numbers, False)
    assert back.contraction == {BF: 2 * pairs * 5 * 32}


def test_aiters_whole_sequences_are_those_of_flash_attn() -> None:
    q, k = Tensor((2, 64, 8, 32), BF), Tensor((2, 64, 2, 32), BF)
    same = [of(op, q, k, k, 0.0, 0.125, True, -1, 0)
            for op in ("flash_attn::_flash_attn_forward", "aiter::fmha_v3_fwd")]  # fmt: skip
    assert same[0] == same[1]
    back = of("aiter::mha_bwd", q, q, k, k, q, None, 0.0, 0.125, True, -1, 0, False)
    assert back == of("flash_attn::_flash_attn_backward", q, q, k, k, q, None, q, k, k, 0.0, 0.125,
                      True, -1, 0)  # fmt: skip


def test_flash_attn_3_with_and_without_a_cache() -> None:
    q, k = Tensor((2, 64, 8, 32), BF), Tensor((2, 64, 8, 32), BF)
    rest = [None] * 20 + [0.125, True, -1, -1, 0.0, False]
    plain = of("sgl_kernel::fwd", q, k, k, *rest)
    assert plain.contraction == {BF: 4 * 2 * 8 * (64 * 65 // 2) * 32}
    rest[11] = Tensor((2, 4), "int32")  # the page table
    assert "cached contexts" in (of("_vllm_fa3_C::fwd", q, k, k, *rest).unknown or "")
    unsaid = of("flash_attn_3::fwd", q, k, k, *[Unrecorded()] * 26)
    assert "causal is not recorded" in (unsaid.unknown or "")


def test_pages_of_a_cache_say_why_they_are_unknown() -> None:
    starts = Tensor((3,), "int32")
    paged = of("aiter::mha_varlen_fwd", Tensor((8, 8, 32), BF), Tensor((99, 16, 2, 32), BF),
               Tensor((99, 16, 2, 32), BF), starts, None, 4, 64, 0.0, 1.0, False, True)  # fmt: skip
    assert "cached contexts" in (paged.unknown or "")
    assert "cached contexts" in (of("aiter::pa_fwd_asm", Tensor((8, 8, 32), BF)).unknown or "")


# AITER's mixture of experts: 10 tokens of 16, 3 of 8 experts each, inner width 32, gated.


def test_aiters_experts_in_two_stages_and_in_one() -> None:
    x, up, down = Tensor((10, 16), "fp8"), Tensor((8, 64, 16), "fp8"), Tensor((8, 16, 32), "fp8")
    between, out, ids = Tensor((10, 3, 32), BF), Tensor((10, 16), BF), Tensor((40,), "int32")
    first = of("aiter::ck_moe_stage1", x, up, down, ids, ids, ids, between, 3)
    second = of("aiter::ck_moe_stage2", Tensor((10, 3, 32), "fp8"), up, down, ids, ids, ids, out, 3)
    assert first.contraction == {"fp8": 2 * 30 * 64 * 16}
    assert second.contraction == {"fp8": 2 * 30 * 16 * 32}
    assert first.bytes == 160 + 8 * 64 * 16 + 2 * 960
    assert second.bytes == 960 + 8 * 16 * 32 + 2 * 160
    one = of("aiter::fmoe_fp8_blockscale_g1u1", out, x, up, down, ids, ids, ids, ids, 3)
    assert one.contraction == {"fp8": 2 * 30 * 16 * (64 + 32)}
    assert one.bytes == 160 + 8 * 16 * 96 + 2 * 160
    whole = of("aiter::fused_moe_", Tensor((10, 16), BF), up, down, Tensor((10, 3)),
               Tensor((10, 3), "int32"))  # fmt: skip
    assert whole.contraction == one.contraction


def test_experts_packed_to_four_bits() -> None:
    """Sides that are half as long as the other weights say hold two numbers to a byte."""
    up, down = Tensor((8, 64, 8), "uint8"), Tensor((8, 16, 16), "uint8")
    ids, between = Tensor((40,), "int32"), Tensor((10, 3, 32), BF)
    first = of("aiter::ck_moe_stage1", Tensor((10, 8), "uint8"), up, down, ids, ids, ids, between)
    assert first.contraction == {"fp4": 2 * 30 * 64 * 16}
    second = of("aiter::ck_moe_stage2", Tensor((10, 3, 16), "uint8"), up, down, ids, ids, ids,
                Tensor((10, 16), BF))  # fmt: skip
    assert second.contraction == {"fp4": 2 * 30 * 16 * 32}
    odd = of("aiter::ck_moe_stage1", Tensor((10, 5), "uint8"), up, down, ids, ids, ids, between)
    assert "do not fit" in (odd.unknown or "")


def test_rotations_and_caches_of_every_library() -> None:
    q, k, places = Tensor((4, 64), BF), Tensor((4, 16), BF), Tensor((4,), "int64")
    table = Tensor((128, 32))
    turned = of("sgl_kernel::apply_rope_pos_ids_cos_sin_cache", q, k, q, k, table, places)
    assert (turned.flops, turned.bytes) == (3 * 320, 2 * 2 * 320 + 32 + 4 * 4 * 32)
    latent, turn = Tensor((4, 512), BF), Tensor((4, 64), BF)
    stored = of("aiter::concat_and_cache_mla", latent, turn, Tensor((99, 16, 576), "fp8"), places)
    assert stored.bytes == 2 * 4 * 576 + 32 + 4 * 576
    pair = Tensor((4, 128), BF)
    cache = Tensor((999, 128), BF)
    assert of("sglang::store_cache", pair, pair, cache, cache, places).bytes == 4 * 1024 + 32


def test_products_of_four_and_eight_bits_by_hand() -> None:
    """bitsandbytes: the sides of a packed weight are an argument; scales are per 64 numbers."""
    packed, scales = Tensor((64 * 32 // 2, 1), "uint8"), Tensor((32,))
    x = Tensor((2, 5, 32), BF)
    for op, tail in (("gemv_4bit", (Tensor((16,)), 64)), ("gemm_4bit", (64, "nf4"))):
        found = of(f"bitsandbytes::{op}", x, packed, (64, 32), scales, *tail)
        assert found.contraction == {BF: 2 * 10 * 64 * 32}
        assert found.bytes == 2 * 320 + 64 * 16 + 4 * 32 + 2 * 10 * 64
    full = of("bitsandbytes::dequantize_4bit", packed, scales, 64, "nf4", (64, 32), 15)
    assert (full.flops, full.bytes_written, full.notes) == (64 * 32, 2 * 64 * 32, ())
    whole = of("bitsandbytes::int8_linear_matmul", Tensor((2, 5, 32), "int8"),
               Tensor((64, 32), "int8"))  # fmt: skip
    assert whole.contraction == {"int8": 2 * 10 * 64 * 32}
    assert whole.bytes_written == 4 * 10 * 64


def test_products_of_tensorrt_llm_by_hand() -> None:
    scale = Tensor((1,))
    wide = of("trtllm::cublas_scaled_mm", Tensor((8, 32), "fp8"), Tensor((32, 64), "fp8"), scale,
              scale, None, 15, -1)  # fmt: skip
    assert wide.contraction == {"fp8": 2 * 8 * 32 * 64}
    assert wide.bytes == 8 * 32 + 32 * 64 + 4 + 4 + 2 * 8 * 64
    rows = of("trtllm::fp8_block_scaling_gemm", Tensor((8, 32), "fp8"), Tensor((64, 32), "fp8"),
              scale, scale)  # fmt: skip
    assert rows.contraction == {"fp8": 2 * 8 * 32 * 64}
    four = of("trtllm::nvfp4_gemm", Tensor((8, 16), "uint8"), Tensor((64, 16), "uint8"), scale,
              scale, scale, 15)  # fmt: skip
    assert four.contraction == {"fp4": 2 * 8 * 32 * 64}
    assert "lengths" in (of("trtllm::attention", Tensor((8, 96), BF)).unknown or "")


def test_attention_of_xformers_is_that_of_flash_attn() -> None:
    """With and without a window behind the causal flag; without starts the batch is a side."""
    q, starts = Tensor((128, 4, 32), BF), Tensor((3,), "int32")
    old = of("xformers_flash::flash_fwd", q, q, q, starts, starts, 64, 64, 0.0, 0.1, True, False)
    new = of("xformers_flash::flash_fwd", q, q, q, starts, starts, None, 64, 64, 0.0, 0.1, True,
             -1, -1, False, None)  # fmt: skip
    pairs = 2 * 4 * 64 * 65 / 2
    assert old.contraction == new.contraction == {BF: 2 * pairs * 64}
    whole = Tensor((2, 64, 4, 32), BF)
    same = of("xformers_flash::flash_fwd", whole, whole, whole, None, None, None, 64, 64, 0.0, 0.1,
              True, -1, -1, False, None)  # fmt: skip
    assert same.contraction == old.contraction
    cached = of("xformers_flash::flash_fwd", q, q, q, starts, starts, Tensor((2,), "int32"), 64, 64,
                0.0, 0.1, True, -1, -1, False, None)  # fmt: skip
    assert "lengths" in (cached.unknown or "")
    none = of("xformers::efficient_attention_forward_cutlass", whole, whole, whole, None, None,
              None, None, 0.0, True, 0, None, None, None)  # fmt: skip
    assert none.contraction == {BF: 2 * 2 * 4 * 64 * 64 * 64}
    back = of("xformers::efficient_attention_backward_cutlass", *[whole] * 4, None, None, None, 64,
              64, None, Tensor((2, 4, 64)), whole, 0.0, 1, 2, 1, None, -1, None)  # fmt: skip
    assert back.contraction == {BF: 5 * 2 * pairs * 32}
