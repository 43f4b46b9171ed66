"""Bytes, precisions, nesting, the registry and the user's statements."""

from __future__ import annotations

import pytest

from timeroof.core.errors import UsageError
from timeroof.core.machine import is_resource
from timeroof.work import FREE, Call, Cost, Tensor, cost_of, count, own_costs
from timeroof.work.cost import amounts, unknown
from timeroof.work.counting import forget
from timeroof.work.registry import find_rule, formula, plain_name, registered

X = Tensor((8, 4), "fp32")


def test_broadcast_operands_are_read_once() -> None:
    row = Tensor((8, 4), "fp32", (0, 1))
    cost = count(Call.of("aten::add", X, row))
    assert cost.bytes_read == 4 * (32 + 4)
    assert cost.bytes_written == 4 * 32


def test_shapes_broadcast_too() -> None:
    cost = count(Call.of("aten::mul", X, Tensor((4,))))
    assert (cost.bytes_read, cost.bytes_written, cost.flops) == (4 * 36, 4 * 32, 32)


def test_the_same_tensor_twice_is_read_once() -> None:
    cost = count(Call.of("aten::mul", X, Tensor((8, 4), "fp32", None, 0)))
    assert cost.bytes_read == 4 * 32


def test_in_place_is_a_read_and_a_write() -> None:
    cost = count(Call.of("aten::relu_", X))
    assert (cost.bytes_read, cost.bytes_written) == (128, 128)


def test_in_place_keeps_the_format() -> None:
    cost = count(Call.of("aten::add_", Tensor((4,), "fp16"), Tensor((4,), "fp32")))
    assert cost.bytes_written == 8


@pytest.mark.parametrize(
    "op", ["aten::view", "aten::t", "aten::slice", "aten::expand", "aten::empty"]
)
def test_views_and_allocation_move_nothing(op: str) -> None:
    cost = count(Call.of(op, X, [4, 8]))
    assert cost.free
    assert cost.known
    assert cost.flops == cost.bytes == 0


def test_copies_have_no_flops_by_nature() -> None:
    cost = count(Call.of("aten::copy_", Tensor((8,), "fp16"), Tensor((8,), "fp32")))
    assert (cost.flops, cost.bytes_read, cost.bytes_written, cost.free) == (0, 32, 16, False)


def test_integer_arithmetic_is_not_floating_point() -> None:
    cost = count(Call.of("aten::add", Tensor((8,), "int64"), Tensor((8,), "int64")))
    assert (cost.flops, cost.bytes) == (0, 192)


def test_numbers_without_dimensions_do_not_widen() -> None:
    cost = count(Call.of("aten::mul", Tensor((8,), "bf16"), Tensor((), "fp64")))
    assert cost.bytes_written == 16
    assert cost.other == {"bf16": 8}


@pytest.mark.parametrize(
    ("op", "flops"),
    [("sigmoid", 4), ("tanh", 1), ("exp", 1), ("relu", 1), ("silu", 5), ("gelu", 5)],
)
def test_the_convention_for_activations(op: str, flops: int) -> None:
    assert count(Call.of(f"aten::{op}", X)).flops == 32 * flops


def test_the_convention_for_softmax() -> None:
    assert count(Call.of("aten::_softmax", X, -1, False)).flops == 5 * 32


def test_complex_products_are_four_real_ones() -> None:
    a = Tensor((2, 2), "complex64")
    assert count(Call.of("aten::mm", a, a)).contraction == {"fp32": 4 * 16}


def test_amounts_are_resources() -> None:
    half = Tensor((16, 16), "fp16")
    cost = count(Call.of("aten::addmm", Tensor((16,), "fp16"), half, half))
    found = amounts(cost, ["fp16-tensor"], link="nvlink")
    assert all(is_resource(k) or k == "contraction_flops" for k in found)
    assert found["flop/fp16-tensor"] == found["contraction_flops"] == 2 * 16**3
    assert found["flop/fp32"] == 256  # the bias: vector work runs in fp32
    assert amounts(cost)["flop/fp16"] == 2 * 16**3


def test_tf32_is_a_setting() -> None:
    cost = count(Call.of("aten::mm", X, Tensor((4, 8))))
    assert "flop/tf32-tensor" not in amounts(cost, True)
    assert amounts(cost, True, tf32=True)["flop/tf32-tensor"] == 512
    assert amounts(cost, ["fp16-tensor"], tf32=True)["flop/fp32"] == 512


def test_int8_and_fp8_units() -> None:
    a = Tensor((8, 8), "int8")
    assert amounts(count(Call.of("aten::_int_mm", a, a)), True)["flop/int8-tensor"] == 1024
    b = Tensor((8, 8), "fp8")
    cost = count(Call.of("aten::_scaled_mm", b, b, Tensor(()), Tensor(())))
    assert amounts(cost, True)["flop/fp8-tensor"] == 1024
    assert amounts(cost, ["fp16-tensor"])["flop/fp16-tensor"] == 1024


def test_composites_count_only_without_children() -> None:
    outer = count(Call.of("aten::linear", X, Tensor((16, 4)), None))
    inner = count(Call.of("aten::mm", X, Tensor((4, 16))))
    assert outer.composite
    assert outer.contraction == inner.contraction
    assert own_costs([None, 0], [outer, inner]) == [FREE, inner]
    assert own_costs([None, 0], [outer, FREE]) == [outer, FREE]
    lost = unknown("no formula")
    assert own_costs([None, 0], [outer, lost]) == [FREE, lost]


def test_duplicates_are_refused() -> None:
    with pytest.raises(UsageError, match="already has a formula"):
        formula("aten::mm")(lambda a: FREE)


def test_names_of_all_overloads_and_frameworks() -> None:
    for name in (
        "aten::add_.Tensor",
        "aten::add.out",
        "torch.ops.aten.add.Tensor",
        "aten.add.default",
    ):
        assert find_rule(name) is find_rule("aten::add")
    assert plain_name("aten::_foreach_add_.List") == "aten::_foreach_add_"
    spaces = {name.split("::")[0] for name in registered()}
    assert {"aten", "onednn", "jax", "tf", "xla"} <= spaces


def test_one_product_under_many_names() -> None:
    a, b = Tensor((8, 16)), Tensor((16, 4))
    same = [
        Call.of("aten::mm", a, b), Call.of("onednn::matmul", a, b), Call.of("tf::MatMul", a, b),
        Call.of("tf::MatMul", Tensor((16, 8)), b, True, False),
        Call.of("jax::dot_general", a, b, dimension_numbers=(((1,), (0,)), ((), ()))),
        Call.of("aten::einsum", "ik,kj->ij", [a, b]),
    ]  # fmt: skip
    assert {count(c).contraction_flops for c in same} == {2 * 8 * 16 * 4}
    assert {count(c).bytes for c in same} == {4 * (128 + 64 + 32)}


def test_one_convolution_under_many_names() -> None:
    x, w = Tensor((2, 8, 14, 14)), Tensor((16, 8, 3, 3))
    nhwc, hwio = Tensor((2, 14, 14, 8)), Tensor((3, 3, 8, 16))
    same = [
        Call.of("aten::conv2d", x, w, None, [2, 2], [0, 0], [1, 1], 1),
        Call.of("aten::cudnn_convolution", x, w, [0, 0], [2, 2], [1, 1], 1),
        Call.of("aten::mkldnn_convolution", x, w, None, [0, 0], [2, 2], [1, 1], 1),
        Call.of("aten::miopen_convolution", x, w, None, [0, 0], [2, 2], [1, 1], 1),
        Call.of("tf::Conv2D", nhwc, hwio, [1, 2, 2, 1], "VALID"),
        Call.of("jax::conv_general_dilated", x, w, [2, 2], [[0, 0], [0, 0]]),
        Call.of("jax::conv_general_dilated", nhwc, hwio, [2, 2], "VALID",
                dimension_numbers=("NHWC", "HWIO", "NHWC")),
    ]  # fmt: skip
    assert {count(c).contraction_flops for c in same} == {2 * 2 * 16 * 8 * 9 * 36}
    assert len({count(c).bytes for c in same}) == 1


def test_a_stated_cost_wins() -> None:
    call = Call.of("aten::mm", X, Tensor((4, 8)))
    derived = count(call)
    try:

        @cost_of("aten::mm", "mylib::op")
        def mine(call: Call) -> dict[str, object]:
            return {"flops": 7, "bytes": 5}

        assert (count(call).flops, count(call).bytes, count(call).origin) == (7, 5, "user")
        assert count(Call.of("mylib::op.default")).contraction == {"fp32": 7}
    finally:
        forget("aten::mm", "mylib::op")
    assert count(call) == derived


def test_a_stated_cost_may_fail_or_leave_things_out() -> None:
    try:

        @cost_of("mylib::broken")
        def broken(call: Call) -> dict[str, object]:
            raise ZeroDivisionError

        @cost_of("mylib::half")
        def half(call: Call) -> dict[str, object]:
            return {"bytes_read": 3, "bytes_written": 4}

        assert "ZeroDivisionError" in (count(Call("mylib::broken")).unknown or "")
        found = count(Call("mylib::half"))
        assert (found.bytes, found.flops) == (7, None)
        assert "no FLOPs" in (found.unknown or "")
    finally:
        forget()


def test_a_fallback_helps_where_there_is_no_formula() -> None:
    pytest.importorskip("torch")
    from timeroof.live.torch import derive

    found = count(Call.of("aten::igamma", X, X), derive)
    assert (found.flops, found.bytes, found.origin) == (32, 384, "modelled")
    partly = count(Call.of("aten::linalg_matrix_exp", Tensor((4, 4))), derive)
    assert (partly.flops, partly.bytes) == (None, 128)
    assert partly.unknown
    assert count(Call.of("nothing::here", X), derive).unknown == "no formula for nothing::here"


def test_collectives_are_bytes_on_a_link() -> None:
    x = Tensor((1024,), "bf16")
    ring = count(Call.of("collective::allreduce", x, x, group_size=8))
    assert ring.link_bytes == 2 * 7 / 8 * 2048
    assert amounts(ring, link="nvlink")["link/nvlink"] == ring.link_bytes
    gathered = count(Call.of("c10d::_allgather_base_", Tensor((8192,), "bf16"), x, group_size=8))
    assert gathered.link_bytes == 7 / 8 * 16384
    assert "group" in (count(Call.of("c10d::allreduce_", [x])).unknown or "")


def test_cost_properties_say_unknown() -> None:
    lost = unknown("why")
    assert (lost.flops, lost.bytes, lost.contraction_flops, lost.known) == (None, None, None, False)
    assert Cost(contraction={"fp32": 1}, other=None).flops is None


def test_sizes_that_no_program_can_have_are_unknown() -> None:
    side = 1 << 45
    found = count(Call.of("aten::mm", Tensor((side, 2)), Tensor((2, side))))
    assert found.unknown == "sizes that no program can have"
    assert (found.flops, found.bytes) == (None, None)
    assert count(Call.of("aten::mm", Tensor((1 << 20, 2)), Tensor((2, 1 << 20)))).known
