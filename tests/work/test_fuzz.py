"""No call, however malformed, raises; what is not counted has a reason."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings, strategies as st

from timeroof.work import Call, Tensor, Unrecorded, count
from timeroof.work.cost import amounts
from timeroof.work.registry import registered

NAMES = sorted(registered())
DTYPES = [
    "fp32",
    "fp16",
    "bf16",
    "fp8",
    "int8",
    "int64",
    "bool",
    "complex64",
    "",
    "strange",
    "bits16",
]
sizes = st.one_of(st.integers(0, 6), st.sampled_from(["s0", -1, None, 2**40]))
tensors = st.builds(
    Tensor,
    st.lists(sizes, max_size=5).map(tuple),
    st.sampled_from(DTYPES),
    st.none() | st.lists(st.integers(0, 8), max_size=5).map(tuple),
)
plain = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 9), st.floats(), st.sampled_from(["same", "tanh", ""]),
    st.just(Unrecorded("value not recorded")),
)  # fmt: skip
arguments = st.one_of(tensors, plain, st.lists(tensors | plain, max_size=4).map(tuple))
calls = st.builds(
    Call,
    st.sampled_from(NAMES)
    | st.sampled_from(["mylib::op", "aten::_foreach_add_", "aten::add_.Tensor"]),
    st.lists(arguments, max_size=12).map(tuple),
)


@settings(max_examples=1500, deadline=None)
@given(calls)
@pytest.mark.slow
def test_counting_never_raises_and_never_lies(call: Call) -> None:
    cost = count(call)
    if not cost.known:
        assert cost.unknown
        return
    for value in (cost.flops, cost.contraction_flops, cost.bytes_read, cost.bytes_written):
        assert value is not None
        assert value >= 0
        assert math.isfinite(value)
    assert amounts(cost, True)["byte/dram"] == cost.bytes


@pytest.mark.parametrize("name", NAMES)
def test_every_formula_without_arguments(name: str) -> None:
    cost = count(Call(name))
    assert cost.known or cost.unknown


def test_lists_among_the_arguments_do_no_harm() -> None:
    call = Call("aten::sum", (Tensor((2, 3)), [0]))  # type: ignore[arg-type]
    assert count(call).bytes_written == 12


def test_zero_sized_tensors_have_zero_work_that_is_known() -> None:
    cost = count(Call("aten::mm", (Tensor((0, 3)), Tensor((3, 4)))))
    assert cost.known
    assert cost.flops == 0
    assert cost.bytes == 48


def test_unknown_ops_have_unknown_amounts() -> None:
    cost = count(Call("mylib::op", (Tensor((2, 2)),)))
    assert amounts(cost) == {"flop/fp32": None, "contraction_flops": None, "byte/dram": None}
