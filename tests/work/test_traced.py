"""Formulas that say themselves: text and number from one definition."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
from hypothesis import given, strategies as st

from timeroof.work.call import Call, Tensor
from timeroof.work.counting import count
from timeroof.work.recorded import named_call
from timeroof.work.traced import called, evaluated, is_traced, real, size, written

SIZES = st.integers(1, 300)


@given(SIZES, SIZES, SIZES)
def test_an_expression_and_its_text_have_one_value(a: int, b: int, c: int) -> None:
    x, y, z = size("x", a), size("y", b), size("z", c)
    for value in (
        2 * x * y * z, x + y * z - 3, (x + y) * (z - 1), -(-x * y // 8), x * y // 7 + z,
        real(x) * 0.5 + y, (x - y) * z, max(x, y) * z, 3 - x, 10 * x / z, (x + 1) % z,
    ):  # fmt: skip
        text, sizes = written(value)
        assert math.isclose(evaluated(text, sizes), value, rel_tol=1e-12, abs_tol=1e-12), text


def test_sums_leave_out_nothing_and_products_fold_their_constants() -> None:
    m, n = size("m", 2), size("n", 3)
    assert written(0 + 2 * (4 * m) * n + 0 * m).text == "8·m·n"
    assert written(1 * (m - m) + n).text == "n"
    assert written((m + n) * 2).text == "2·(m + n)"


def test_a_long_formula_is_told_by_its_parts_and_stays_true() -> None:
    total = sum(size(f"a_rather_long_name_{i}", i) * size(f"b{i}", 7) for i in range(1, 90))
    text, sizes = written(total)
    assert len(text) < 200
    assert evaluated(text, sizes) == total


def test_names_that_follow_from_sizes_stand_for_them() -> None:
    assert written(2 * called("P", size("H", 9) - 2)) == ("2·P", {"P": 7})
    assert not is_traced(called("P", 7))


def test_copies_and_pickles_are_plain_numbers() -> None:
    value = size("n", 4) * 2
    assert type(pickle.loads(pickle.dumps(value))) is int
    assert type(copy.deepcopy(value)) is int


def test_counting_with_names_leaves_no_trace_in_the_cache() -> None:
    call = Call.of("aten::mm", Tensor((5, 6)), Tensor((6, 7)))
    named = count(named_call(call))
    plain = count(call)
    assert named.flops == plain.flops == 420
    assert is_traced(named.flops)
    assert not is_traced(plain.flops)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (Call.of("aten::addmm", Tensor((4,)), Tensor((8, 16)), Tensor((16, 4))), "2·M·N·K"),
        (Call.of("aten::bmm", Tensor((2, 8, 16)), Tensor((2, 16, 4))), "2·B·M·N·K"),
        (Call.of("aten::linear", Tensor((8, 16)), Tensor((4, 16))), "2·M·N·K"),
        (
            Call.of("aten::conv2d", Tensor((1, 3, 9, 9)), Tensor((5, 3, 3, 3)), None, 1, 0, 1, 1),
            "2·N·P·Q·K·Cg·R·S",
        ),
        (
            # A batch of one and 2-D weights: no names fit, places do.
            Call.of("aten::linear", Tensor((2, 8, 16)), Tensor((4, 16))),
            "2·x0·x1·N·x2",
        ),
    ],
)
def test_formulas_name_their_sizes(call: Call, text: str) -> None:
    contraction = count(named_call(call)).contraction
    assert contraction is not None
    assert written(contraction["fp32"]).text == text
