"""Sparse tensors are counted by what they hold; checked against numbers worked out by hand."""

from __future__ import annotations

from timeroof.work import Call, Tensor, count

INDICES, VALUES = Tensor((2, 50), "int64"), Tensor((50,))
HELD = (INDICES, VALUES)
DENSE = Tensor((20, 8))


def test_a_product_costs_two_flops_a_value_and_column() -> None:
    found = count(Call("sparse::addmm", (Tensor((30, 8)), HELD, DENSE, 0, 1), (Tensor((30, 8)),)))
    assert found.contraction == {"fp32": 2 * 50 * 8}
    assert found.other == {}
    # Indices, values and the 20 rows that 50 values can name; 30 rows are written.
    assert found.bytes_read == 2 * 50 * 8 + 50 * 4 + 20 * 8 * 4
    assert found.bytes_written == 30 * 8 * 4


def test_a_product_that_adds_reads_what_it_adds_to() -> None:
    bias = Tensor((30, 8))
    found = count(Call("sparse::addmm", (bias, HELD, DENSE, 1, 1), (bias,)))
    assert found.other == {"fp32": 30 * 8}
    assert found.bytes_read == 2 * 50 * 8 + 50 * 4 + 20 * 8 * 4 + 30 * 8 * 4


def test_adding_to_a_dense_tensor_touches_what_is_held() -> None:
    held = (Tensor((1, 10), "int64"), Tensor((10, 16)))
    table = Tensor((1000, 16))
    found = count(Call("sparse::add", (table, held, -0.1, table), (table,)))
    assert found.other == {"fp32": 2 * 160}
    assert found.bytes_read == 10 * 8 + 2 * 160 * 4
    assert found.bytes_written == 160 * 4


def test_coalescing_adds_what_repeats() -> None:
    given = (Tensor((1, 12), "int64"), Tensor((12, 4)))
    made = (Tensor((1, 9), "int64"), Tensor((9, 4)))
    found = count(Call("sparse::_coalesce", (given,), made))
    assert found.other == {"fp32": 3 * 4}
    assert found.bytes_written == 9 * 8 + 9 * 4 * 4


def test_what_two_sparse_operands_share_is_unknown() -> None:
    found = count(Call("sparse::mm", (HELD, HELD)))
    assert found.unknown is not None
    assert found.flops is None


def test_contents_that_nobody_looked_into_are_unknown() -> None:
    assert count(Call("sparse::addmm", (DENSE, (None, None), DENSE))).unknown is not None
