"""Kernels that tell what their op's record does not: experts and prompts."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from timeroof.work import Call, Tensor, cost_of, count
from timeroof.work.call import Unrecorded
from timeroof.work.counting import Kernel, count_kernel, forget
from timeroof.work.families.experts import _chosen, _most_tiles

FIRST = "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_cga1x1x1_TN_transOut_swiGlu_dynBatch_sm100f"
SECOND = "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_cga1x1x1_TN_transOut_dynBatch_sm100f"
OP = "vllm::moe_forward"
# 12 tokens to 2 of 4 experts each: 24 rows, 4 + (24 - 4) // 16 = 5 tiles; 256 -> 2x128 -> 256.
CALL = Call(OP, (Tensor((12, 256), "bf16"), Tensor((12, 4), "bf16"), None))
LAUNCHED = ((FIRST, (2, 5, 1)), (SECOND, (2, 5, 1)))


def kernel(name: str, launched: object = LAUNCHED) -> Kernel:
    return Kernel(name, launched)  # type: ignore[arg-type]


def test_the_first_product_by_hand() -> None:
    found = count_kernel(CALL, kernel(FIRST))
    assert found is not None
    assert found.contraction == {"fp8": 2 * 24 * 256 * 256}
    weights = 4 * 256 * 256
    assert found.bytes_read == 12 * 256 * (1 + 1 / 32) + weights * (1 / 2 + 1 / 32)
    assert found.bytes_written == 24 * 128 * (1 + 1 / 32)
    assert found.other == {"fp8": 24 * (256 + 6 * 128)}
    assert found.origin == "inferred"


def test_the_second_product_by_hand() -> None:
    found = count_kernel(CALL, kernel(SECOND))
    assert found is not None
    assert found.contraction == {"fp8": 2 * 24 * 256 * 128}
    assert found.bytes_read == 24 * 128 * (1 + 1 / 32) + 4 * 256 * 128 * (1 / 2 + 1 / 32)
    assert found.bytes_written == 24 * 256 * 2


@pytest.mark.parametrize(
    ("name", "flops", "moved"),
    [
        ("void moe::dev::finalize::finalizeKernel<>", 2 * 24 * 256, 24 * 512 + 24 * 4 + 12 * 512),
        ("void tensorrt_llm::kernels::quantize_with_block_size<>", 4 * 12 * 256,
         12 * 256 * (2 + 1 + 1 / 32)),
        ("void moe::routingIndicesHistogramScoresKernel<>", 5 * 24, 12 * 4 * 2 + 24 * 4),
        ("void moe::routingIndicesHistogramKernel<>", 0, 24 * 4),
        ("void moe::routingIndicesOffsetsKernel<>", 0, 2 * 24 * 4),
    ],
)  # fmt: skip
def test_what_goes_on_around_the_products(name: str, flops: float, moved: float) -> None:
    found = count_kernel(CALL, kernel(name))
    assert found is not None
    assert (found.flops, found.bytes) == (flops, moved)


@pytest.mark.parametrize(
    ("call", "launched"),
    [
        (CALL, ()),
        (CALL, LAUNCHED[:1]),
        (CALL, ((FIRST, (2, 5, 1)), (SECOND, (3, 5, 1)))),  # not the tokens' width
        (CALL, ((FIRST, (2, 5, 1)), (SECOND, (2, 6, 1)))),  # not the same rows
        (CALL, ((FIRST, (2, 5, 2)), (SECOND, (2, 5, 2)))),  # split over the grid's depth
        (CALL, ((FIRST, (2, 99, 1)), (SECOND, (2, 99, 1)))),  # no whole number of experts
        (CALL, ((FIRST, ()), (SECOND, ()))),
        (CALL, ((SECOND, (2, 5, 1)), (SECOND + "x", (2, 5, 1)))),  # which is first?
        (CALL, ((FIRST.replace("cga1x1x1", "cga2x1x1"), (2, 5, 1)), LAUNCHED[1])),
        (Call(OP, ()), LAUNCHED),
        (Call(OP, (Unrecorded(), Unrecorded())), LAUNCHED),
        (Call(OP, (Tensor((11, 256), "bf16"), Tensor((12, 4), "bf16"))), LAUNCHED),
    ],
)
def test_what_does_not_fit_is_unknown_with_a_reason(call: Call, launched: object) -> None:
    found = count_kernel(call, kernel(FIRST, launched))
    assert found is not None
    assert found.unknown
    assert found.bytes is None


def test_other_kernels_of_the_op_are_unknown() -> None:
    found = count_kernel(CALL, kernel("some_other_kernel"))
    assert found is not None
    assert "no formula for its kernel some_other_kernel" in (found.unknown or "")


def test_ops_without_kernels_of_their_own_and_what_users_state() -> None:
    assert count_kernel(Call("aten::mm"), kernel(FIRST)) is None
    cost_of(OP)(lambda call: {"flops": 1, "bytes": 2})
    try:
        assert count_kernel(CALL, kernel(FIRST)) is None
        assert count(CALL).bytes == 2
    finally:
        forget(OP)


@given(st.integers(1, 300), st.integers(1, 64), st.integers(1, 8), st.sampled_from([8, 16, 64]))
def test_chosen_experts_are_found_or_doubted(tokens: int, experts: int, k: int, tile: int) -> None:
    k = min(k, experts)
    tiles = _most_tiles(tokens * k, experts, tile)
    fits = [n for n in range(1, experts + 1) if _most_tiles(tokens * n, experts, tile) == tiles]
    if fits == [k]:
        assert _chosen(tokens, experts, tile, (1, tiles, 1)) == k
    else:
        assert k in fits


PROMPT = "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext"
ATTENTION = "vllm::unified_attention_with_output"
QKV = Call(ATTENTION, (Tensor((300, 8, 64), "fp8"), Tensor((300, 2, 64), "bf16"),
                       Tensor((300, 2, 64), "bf16"), Tensor((300, 8, 64), "bf16")))  # fmt: skip


@pytest.mark.parametrize("sequences", [1, 3])
def test_prompts_by_hand(sequences: int) -> None:
    found = count_kernel(QKV, kernel(PROMPT, ((PROMPT, (2, 8, sequences)),)))
    assert found is not None
    length = 300 // sequences
    pairs = 8 * sequences * length * (length + 1) / 2
    assert found.contraction == {"fp8": 4 * 64 * pairs}
    assert found.bytes_read == 300 * 8 * 64 + 2 * 300 * 2 * 64  # the cache is fp8, too
    assert found.bytes_written == 300 * 8 * 64 * 2
    assert found.origin == "inferred"


@pytest.mark.parametrize(
    ("name", "grid", "words"),
    [
        (PROMPT.replace("Causal", "SlidingOrChunkedCausal"), (2, 8, 1), "window"),
        (PROMPT.replace("Context", "Generation"), (2, 8, 1), "lengths"),
        (PROMPT, (2, 4, 1), "lengths"),  # not its heads
        (PROMPT, (1, 8, 1), "lengths"),  # too few tiles for the tokens
        (PROMPT, (2, 8, 0), ""),
        (PROMPT, (2, 8), "lengths"),
    ],
)
def test_attention_that_tells_too_little(name: str, grid: tuple[int, ...], words: str) -> None:
    found = count_kernel(QKV, kernel(name, ((name, grid),)))
    assert found is not None
    assert found.unknown
    assert words in found.unknown
