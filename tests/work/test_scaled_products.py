"""Products and casts of inference libraries, with arguments as AITER, SGLang and vLLM have them."""

from __future__ import annotations

import pytest

from timeroof.work import Call, Cost, Tensor, count
from timeroof.work.call import Unrecorded

BF, F8 = "bf16", "fp8"
X, W = Tensor((32, 256), F8), Tensor((64, 256), F8)
SCALES = Tensor((32, 2)), Tensor((1, 2))
OUT = Tensor((32, 64), "fp16")
FLOPS = 2 * 32 * 64 * 256


def of(op: str, *values: object) -> Cost:
    return count(Call.of(op, *values))


@pytest.mark.parametrize(
    ("op", "values"),
    [
        ("aiter::gemm_a8w8_blockscale_ck", (X, W, *SCALES, OUT)),
        ("aiter::gemm_a8w8_bpreshuffle", (X, W, *SCALES, None, 15)),
        ("vllm::rocm_aiter_triton_gemm_a8w8_blockscale", (X, W, *SCALES, (128, 128))),
        ("sgl_kernel::fp8_blockwise_scaled_mm", (X, Tensor((256, 64), F8), *SCALES, 5)),
    ],
)
def test_eight_bit_products_by_hand(op: str, values: tuple[object, ...]) -> None:
    """Whichever side of the weight is summed over and wherever the result stands."""
    found = of(op, *values)
    assert found.unknown is None
    assert found.contraction == {F8: FLOPS}
    assert found.bytes_read == 32 * 256 + 64 * 256 + 4 * (64 + 2)
    assert found.bytes_written == 2 * 32 * 64


def test_a_result_that_is_not_recorded_is_said_to_be_taken_as_16_bits() -> None:
    told = of("aiter::gemm_a8w8_ck", X, W, *SCALES, Tensor((32, 64), "fp32"))
    assert (told.bytes_written, told.origin) == (4 * 32 * 64, "counted")
    taken = of("aiter::gemm_a8w8", X, W, *SCALES)
    assert (taken.bytes_written, taken.origin) == (2 * 32 * 64, "modelled")
    assert "16 bits" in taken.notes[0]


def test_numbers_of_four_bits_lie_two_to_a_byte() -> None:
    x, w = Tensor((32, 128), "uint8"), Tensor((64, 128), "uint8")
    scales = Tensor((32, 8), "uint8"), Tensor((64, 8), "uint8")
    asm = of("aiter::_gemm_a4w4_asm", x, w, *scales, Tensor((32, 64), BF))
    assert asm.contraction == {"fp4": FLOPS}
    assert asm.bytes == 96 * 128 + 96 * 8 + 2 * 32 * 64
    first = of("sgl_kernel::cutlass_scaled_fp4_mm", Tensor((32, 64), BF), x,
               Tensor((64, 128), "uint8"), *scales)  # fmt: skip
    assert first.contraction == {"fp4": FLOPS}


def test_plain_and_batched_products() -> None:
    x, w = Tensor((32, 256), BF), Tensor((64, 256), BF)
    skinny = of("_rocm_C::wvSplitK", w, Tensor((4, 256), BF), 304)
    assert skinny.contraction == {BF: 2 * 4 * 64 * 256}
    assert of("aiter::gemm_a16w16_atomic_", x, w, 15, OUT).bytes_written == 2 * 32 * 64
    many = of("aiter::batched_gemm_bf16", Tensor((3, 32, 256), BF), Tensor((3, 64, 256), BF),
              Tensor((3, 32, 64), BF))  # fmt: skip
    assert (many.contraction, many.bytes_written) == ({BF: 3 * FLOPS}, 3 * 2 * 32 * 64)
    misfit = of("aiter::gemm_a16w16", x, Tensor((64, 128), BF))
    assert "do not fit" in (misfit.unknown or "")


def test_packed_weights_under_16_bit_activations() -> None:
    x, out = Tensor((8, 256), BF), 2 * 8 * 64
    awq = of("_C::awq_gemm", x, Tensor((256, 8), "int32"), Tensor((2, 64), BF), None, 8)
    gptq = of("_C::gptq_gemm", x, Tensor((32, 64), "int32"), None, Tensor((2, 64), BF), None)
    marlin = of("_C::gptq_marlin_gemm", x, None, Tensor((16, 128), "int32"), Tensor((2, 64), BF),
                None, None, None, None, Tensor((4,), "int32"), 7, 8, 64, 256, True)  # fmt: skip
    for found in (awq, gptq, marlin):
        assert found.contraction == {BF: 2 * 8 * 64 * 256}
        assert found.bytes_written == out
    assert marlin.bytes_read == 2 * 8 * 256 + 4 * 16 * 128
    hidden = of("_C::marlin_gemm", x, None, Tensor((16, 128), "int32"), Unrecorded())
    assert "sides are not recorded" in (hidden.unknown or "")


def test_casts_and_normalisation_with_a_cast() -> None:
    x, narrow, scale = Tensor((8, 256), BF), Tensor((8, 256), F8), Tensor((8, 2))
    by_group = of("sgl_kernel::sgl_per_token_group_quant_fp8", x, narrow, scale, 128)
    by_row = of("aiter::dynamic_per_token_scaled_quant", narrow, x, scale)
    new = of("vllm::triton_per_token_group_quant_fp8", x, 128)
    assert [c.flops for c in (by_group, by_row, new)] == [4 * 2048] * 3
    assert [c.bytes for c in (by_group, by_row, new)] == [3 * 2048 + 64] * 3
    weight = Tensor((256,), BF)
    added = of("aiter::rmsnorm2d_fwd_with_add_ck", x, x, x, x, weight, 1e-5, 0)
    assert (added.flops, added.bytes) == (5 * 2048, 4 * 2 * 2048 + 512)
    cast = of("aiter::rmsnorm2d_fwd_with_dynamicquant_ck", narrow, x, Tensor((8, 1)), weight, 1e-5)
    assert (cast.flops, cast.bytes) == (8 * 2048, 3 * 2048 + 512 + 32)
    both = of("vllm::rocm_aiter_rmsnorm_with_add_fp8_group_quant", x, x, weight, 1e-5, 128)
    assert (both.flops, both.bytes) == (9 * 2048, 3 * 2 * 2048 + 512 + 2048 + 64)
    assert "group" in (of("vllm::triton_per_token_group_quant_fp8", x, Unrecorded()).unknown or "")


def test_gates_and_choices_of_every_library() -> None:
    gate = [of(f"{space}::gelu_tanh_and_mul", Tensor((4, 8), BF), Tensor((4, 16), BF))
            for space in ("_C", "sgl_kernel", "aiter")]  # fmt: skip
    assert [(g.flops, g.bytes) for g in gate] == [(6 * 32, 2 * 96)] * 3
    shares, ids, scores = Tensor((4, 2)), Tensor((4, 2), "int32"), Tensor((4, 16), BF)
    chosen = of("sgl_kernel::topk_softmax", shares, ids, scores, True)
    assert (chosen.flops, chosen.bytes) == (5 * 64, 2 * 64 + 64)
    biased = of("aiter::biased_grouped_topk_hip", scores, Tensor((16,), BF), shares, ids, 1, 1)
    assert (biased.flops, biased.bytes) == (6 * 64, 2 * 64 + 32 + 64)
    new = of("sgl_kernel::moe_fused_gate", scores, Tensor((16,), BF), 8, 4, 2, 0, 2.5, False)
    assert new == biased
