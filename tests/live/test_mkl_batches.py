"""Batches of products: one line of MKL each, without sizes, in the order of their ops' ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeroof.live.torch.mkl_calls import (
    LEAST_PRODUCT,
    NOBODY,
    Caller,
    batched_format,
    callers_of,
    mkl_cost,
)
from timeroof.live.torch.recording import Described, MklCall, TensorSeen

Shape = tuple[int, ...]
ATTENTION = "aten::_scaled_dot_product_flash_attention_for_cpu"


def seen(shape: Shape, strides: Shape | None = None, dtype: str = "float") -> TensorSeen:
    step, steps = 1, []
    for size in reversed(shape):
        steps.append(step)
        step *= size
    return TensorSeen(shape, dtype, strides or tuple(reversed(steps)), 0, 0, 4, "cpu")


def op(name: str, *tensors: TensorSeen, out: TensorSeen | None = None) -> Described:
    return Described(name, None, 1, -1, 0, "", tensors, () if out is None else (out,))


def bmm(batch: int = 4, rows: int = 8, inner: int = 8, columns: int = 8, dtype: str = "float") -> Described:  # fmt: skip
    return op("aten::bmm", seen((batch, rows, inner), dtype=dtype),
              seen((batch, inner, columns), dtype=dtype))  # fmt: skip


def line(routine: str = "sgemm_batch", *sizes: int, flags: str = "NN") -> MklCall:
    return MklCall(routine, flags, sizes, 1000)


def test_every_batch_has_its_own_line() -> None:
    callers = [Caller(i, 10.0, bmm(), 4096.0) for i in (3, 5, 9)]
    assert callers_of([line(), line(flags="TN"), line()], callers) == [3, 5, 9]


def test_lines_come_in_the_order_of_ends_whatever_the_thread() -> None:
    callers = [Caller(1, 9.0, bmm(), 4096.0, end_ns=90), Caller(2, 9.0, bmm(), 4096.0, end_ns=50)]
    assert callers_of([line(), line()], callers) == [2, 1]


def test_lines_of_another_number_are_nobodys_but_for_where_landmarks_part_them() -> None:
    product = op("aten::mm", seen((6, 7)), seen((7, 5)))
    callers = [Caller(1, 9.0, bmm()), Caller(2, 9.0, product), Caller(3, 9.0, bmm())]
    lines = [line(), line("sgemm", 5, 6, 7), line(), line()]
    assert callers_of(lines, callers) == [1, 2, NOBODY, NOBODY]
    assert callers_of(lines[1:], callers[:2]) == [2, NOBODY, NOBODY]


def test_formats_are_told_apart() -> None:
    callers = [Caller(1, 9.0, bmm(dtype="double")), Caller(2, 9.0, bmm())]
    assert callers_of([line(), line("dgemm_batch")], callers) == [2, 1]


def test_a_batch_takes_no_line_of_attention_and_gives_none() -> None:
    callers = [Caller(1, 9e9, bmm(), 4096.0), Caller(2, 9e9, op(ATTENTION), 2048.0)]
    lines = [line(), line("sgemm", 8, 8, 8), line("sgemm", 8, 8, 8)]
    assert callers_of(lines, callers) == [1, 2, 2]


def test_a_batch_of_one_is_a_product_with_sizes() -> None:
    one = bmm(1, 6, 7, 50)
    assert batched_format(one) is None
    lines = [line(), line("sgemm", 50, 6, 7)]
    callers = [Caller(1, 9.0, bmm()), Caller(2, 9.0, one)]
    assert callers_of(lines, callers) == [1, 2]


LARGE, SQUARE = seen((4, 8, 8)), (4, 8, 8)


@pytest.mark.parametrize(
    ("described", "dtype"),
    [
        (bmm(), "fp32"),
        (bmm(dtype="double"), "fp64"),
        (bmm(dtype="c10::complex<float>"), "complex64"),
        (bmm(dtype="c10::BFloat16"), None),
        (bmm(dtype="long int"), None),
        (bmm(inner=6), None),  # 384 multiplications
        (bmm(rows=10, columns=5), "fp32"),  # 400
        (op("aten::bmm", LARGE, seen(SQUARE, (64, 1, 8))), "fp32"),
        (op("aten::bmm", LARGE, seen(SQUARE, (0, 8, 1))), "fp32"),
        (op("aten::bmm", LARGE, seen(SQUARE, (128, 16, 2))), None),
        (op("aten::bmm", LARGE, seen(SQUARE, (0, 0, 1))), None),
        (op("aten::bmm", LARGE, LARGE, out=LARGE), "fp32"),
        (op("aten::bmm", LARGE, LARGE, out=seen(SQUARE, (64, 1, 8))), None),
        (op("aten::baddbmm", LARGE, LARGE, LARGE), "fp32"),
        (op("aten::baddbmm", LARGE, LARGE), None),
        (op("aten::matmul", LARGE, LARGE), None),
        (op("aten::bmm"), None),
    ],
)
def test_which_ops_hand_a_whole_batch_to_mkl(described: Described, dtype: str | None) -> None:
    assert batched_format(described) == dtype


def test_the_line_of_a_batch_tells_no_cost() -> None:
    assert mkl_cost("sgemm_batch", ()) is None
    assert mkl_cost("sgemm_batch_strided", (8, 8, 8)) is None
    assert mkl_cost("sgemm", (8, 8, 8)) is not None


@given(st.lists(st.integers(1, 20), min_size=1, max_size=12), st.integers(0, 14))
def test_a_line_is_one_ops_or_nobodys(rows: list[int], lines: int) -> None:
    callers = [Caller(i, 9.0, bmm(rows=n)) for i, n in enumerate(rows)]
    able = [i for i, n in enumerate(rows) if n * 64 >= LEAST_PRODUCT]
    found = callers_of([line()] * lines, callers)
    if able:
        assert found == (able if len(able) == lines else [NOBODY] * lines)
