"""TensorFlow's formulas against sizes worked out by hand."""

from __future__ import annotations

import pytest

from timeroof.work import Call, Tensor, count


def flops(op: str, *inputs: object) -> tuple[float | None, float | None]:
    found = count(Call.of(op, *inputs))
    assert found.unknown is None, found.unknown
    total = found.flops
    return found.contraction_flops, None if total is None else total - (
        found.contraction_flops or 0
    )


def test_products_of_batches_broadcast_and_turn() -> None:
    a, b = Tensor((2, 3, 4, 5)), Tensor((3, 6, 5))
    assert flops("tf::BatchMatMulV2", a, b, False, True) == (2 * 2 * 3 * 4 * 6 * 5, 0)
    assert flops("tf::BatchMatMulV3", Tensor((7, 5, 4)), Tensor((7, 5, 6)), True) == (
        2 * 7 * 4 * 6 * 5,
        0,
    )
    wrong = count(Call.of("tf::MatMul", Tensor((4, 5)), Tensor((4, 5))))
    assert wrong.unknown == "tf::MatMul: inner sizes 5 and 4 differ"


def test_fused_ops_count_what_runs_on_the_result() -> None:
    x, w = Tensor((4, 8)), Tensor((8, 16))
    assert flops("tf::_FusedMatMul", x, w, False, False, ("BiasAdd", "Relu")) == (
        2 * 4 * 8 * 16,
        2 * 4 * 16,
    )
    image, kernel = Tensor((2, 8, 8, 4)), Tensor((3, 3, 4, 16))
    fused = flops(
        "tf::_FusedConv2D", image, kernel, (1, 1, 1, 1), "VALID", "NHWC", None, ("BiasAdd",)
    )
    assert fused == (2 * 2 * 16 * 36 * 36, 2 * 16 * 36)
    odd = count(Call.of("tf::_FusedMatMul", x, w, False, False, ("Fancy",)))
    assert odd.unknown == "tf::_FusedMatMul: fused with Fancy"


@pytest.mark.parametrize("each", [1, 2])
def test_depthwise_convolutions_have_one_channel_per_filter(each: int) -> None:
    image, kernel, grad = (
        Tensor((2, 10, 10, 4)),
        Tensor((3, 3, 4, each)),
        Tensor((2, 8, 8, 4 * each)),
    )
    window = ((1, 1, 1, 1), "VALID", "NHWC")
    wanted = 2 * 2 * 64 * 9 * 4 * each
    assert flops("tf::DepthwiseConv2dNative", image, kernel, *window)[0] == wanted
    assert (
        flops("tf::DepthwiseConv2dNativeBackpropInput", (2, 10, 10, 4), kernel, grad, *window)[0]
        == wanted
    )
    assert (
        flops("tf::DepthwiseConv2dNativeBackpropFilter", image, (3, 3, 4, each), grad, *window)[0]
        == wanted
    )


def test_dilated_and_grouped_convolutions() -> None:
    image = Tensor((1, 9, 9, 8))
    dilated = flops(
        "tf::Conv2D", image, Tensor((3, 3, 8, 4)), (1, 1, 1, 1), "VALID", "NHWC", (1, 2, 2, 1)
    )
    assert dilated[0] == 2 * 4 * 8 * 9 * 25
    grouped = flops("tf::Conv2D", image, Tensor((3, 3, 2, 4)), (1, 1, 1, 1), "VALID", "NHWC")
    assert grouped[0] == 2 * 4 * 2 * 9 * 49
    padded = count(Call.of("tf::Conv2D", image, Tensor((3, 3, 8, 4)), (1, 1, 1, 1), "EXPLICIT"))
    assert padded.unknown == "tf::Conv2D: its padding is not recorded"


def test_einsum_multiplies_every_combination_of_labels() -> None:
    q, k = Tensor((2, 16, 4, 8)), Tensor((2, 16, 4, 8))
    assert flops("tf::Einsum", (q, k), "bqhd,bkhd->bhqk")[0] == 2 * 2 * 4 * 16 * 16 * 8
    assert flops("tf::Einsum", (q,), "bqhd->bhqd") == (0, 0)
    assert count(Call.of("tf::Einsum", (q, k), "...d,...d->...")).unknown is not None


def test_bookkeeping_is_free_and_moves_cost_bytes_only() -> None:
    assert count(Call.of("tf::Enter", Tensor((4, 4)))).free
    moved = count(Call("tf::Transpose", (Tensor((4, 8)),), (Tensor((8, 4)),)))
    assert (moved.flops, moved.bytes) == (0, 256)
    filled = count(Call("tf::Fill", (), (Tensor((8, 4)),)))
    assert (filled.bytes_read, filled.bytes_written) == (0, 128)
    assert count(Call("tf::Transpose", ())).unknown is not None


def test_reductions_pools_losses_and_updates() -> None:
    assert flops("tf::Sum", Tensor((4, 8))) == (0, 32)
    assert flops(
        "tf::SparseSoftmaxCrossEntropyWithLogits", Tensor((4, 8)), Tensor((4,), "int32")
    ) == (0, 256)
    pooled = count(
        Call("tf::MaxPool", (Tensor((1, 4, 4, 2)), (1, 2, 2, 1)), (Tensor((1, 2, 2, 2)),))
    )
    assert pooled.flops == 4 * 8
    assert flops("tf::ResourceApplyAdam", Tensor((8,))) == (0, 96)
    assert flops("tf::AddN", Tensor((8,)), Tensor((8,)), Tensor((8,))) == (0, 16)
    assert flops("tf::Less", Tensor((), "int32"), Tensor((), "int32")) == (0, 0)
    gathered = count(
        Call("tf::GatherV2", (Tensor((100, 8)), Tensor((3,), "int32")), (Tensor((3, 8)),))
    )
    assert gathered.bytes == 12 + 2 * 96
    of_variable = Call("tf::ResourceGather", (Tensor((3,), "int32"),), (Tensor((3, 8)),))
    assert count(of_variable).bytes == gathered.bytes
    assert count(Call.of("tf::Any", Tensor((4, 8), "bool"))).bytes_read == 32


@pytest.mark.parametrize("shape", [(2, 5, 5, 8), (2, 8, 5, 5)])
def test_a_bias_may_belong_to_the_second_dimension(shape: tuple[int, ...]) -> None:
    found = count(Call.of("tf::BiasAdd", Tensor(shape), Tensor((8,))))
    assert (found.flops, found.bytes_read) == (400, 4 * 408)
