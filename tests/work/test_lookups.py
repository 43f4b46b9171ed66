"""FBGEMM's lookups, forward and backward, by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from timeroof.work import Call, Tensor, count
from timeroof.work.call import Arg, Unrecorded
from timeroof.work.parts import part_of

NO = Unrecorded("value not recorded")
NODE = "torch::autograd::CppNode<SplitLookupFunction_{}_Op>"
FORWARD = "fbgemm::split_embedding_codegen_lookup_{}_function"


def split(
    rows: int, width: int, indices: int, bags: int, tables: int = 1, *, total: Arg = NO,
    row_state: bool = False, weights: Tensor | None = None,
) -> tuple[Arg, ...]:  # fmt: skip
    """The arguments in FBGEMM's order; the table lies in the second memory."""
    empty, long = Tensor((0,)), "int64"
    state = Tensor((rows if row_state else rows * width,))
    return (
        empty, Tensor((rows * width,)), empty, Tensor((0, 0)), Tensor((tables,), "int32"),
        Tensor((tables,), long), Tensor((tables + 1,), "int32"), total, NO,
        Tensor((tables + 1,), long), NO, Tensor((indices,), long), Tensor((bags + 1,), long), NO,
        weights, NO, Tensor((0,), "int32"), NO, NO, NO, empty, state, Tensor((tables,), "int32"),
        Tensor((tables,), long), NO, NO, NO,
    )  # fmt: skip


# 10 indices over 6 bags (2 tables of 3 samples), rows of 4 values, 50 rows in all.
ROWS, WIDTH, INDICES, BAGS, TABLES = 50, 4, 10, 6, 2
INDEX_BYTES = 8 * INDICES + 8 * (BAGS + 1)
OUT = Tensor((3, 2 * WIDTH))


def test_forward_by_hand() -> None:
    values = split(ROWS, WIDTH, INDICES, BAGS, TABLES)
    found = count(Call(FORWARD.format("adagrad"), values, (OUT,)))
    assert found.flops == INDICES * WIDTH
    assert found.bytes_read == 4 * INDICES * WIDTH + INDEX_BYTES
    assert found.bytes_written == 4 * BAGS * WIDTH == OUT.size_bytes
    assert found.origin == "modelled"


def test_a_recorded_width_or_row_states_or_the_result_tell_the_same() -> None:
    by_value = split(ROWS, WIDTH, INDICES, BAGS, TABLES, total=2 * WIDTH)
    by_state = split(ROWS, WIDTH, INDICES, BAGS, TABLES, row_state=True)
    by_result = split(ROWS, WIDTH, INDICES, BAGS, TABLES)
    found = [
        count(Call(FORWARD.format("adagrad"), by_value)),
        count(Call(FORWARD.format("rowwise_adagrad"), by_state)),
        count(Call(FORWARD.format("sgd"), by_result, (OUT,))),
    ]
    assert len({(c.flops, c.bytes) for c in found}) == 1
    assert "width" in (count(Call(FORWARD.format("adagrad"), by_result)).unknown or "")


@pytest.mark.parametrize(
    ("kind", "flops", "row_flops", "state"),
    [("sgd", 2, 0, 0), ("adagrad", 5, 0, WIDTH), ("rowwise_adagrad", 4, 4, 1),
     ("adam", 13, 0, 2 * WIDTH)],
)  # fmt: skip
def test_backward_by_hand(kind: str, flops: int, row_flops: int, state: int) -> None:
    values = split(ROWS, WIDTH, INDICES, BAGS, TABLES, row_state=kind.startswith("row"))
    found = count(Call(NODE.format(kind), (OUT, *values)))
    updated = INDICES  # rows, all different
    assert found.flops == INDICES * WIDTH + updated * (flops * WIDTH + row_flops)
    row_bytes = 4 * updated * (WIDTH + state)
    assert found.bytes_read == OUT.size_bytes + INDEX_BYTES + row_bytes
    assert found.bytes_written == row_bytes


def test_no_more_rows_than_the_table_has() -> None:
    values = split(3, WIDTH, 100, BAGS, TABLES)
    found = count(Call(NODE.format("sgd"), (OUT, *values)))
    assert found.bytes_written == 4 * 3 * WIDTH
    assert found.flops == 100 * WIDTH + 3 * WIDTH * 2


def test_a_weight_per_index_multiplies_and_is_read() -> None:
    weighted = split(ROWS, WIDTH, INDICES, BAGS, TABLES, weights=Tensor((INDICES,)))
    plain = split(ROWS, WIDTH, INDICES, BAGS, TABLES)
    both = [count(Call(FORWARD.format("sgd"), v, (OUT,))) for v in (weighted, plain)]
    assert both[0].flops == 2 * both[1].flops
    assert both[0].bytes == both[1].bytes + 4 * INDICES


def dense(total: Arg = NO) -> tuple[Arg, ...]:
    long = "int64"
    return (
        Tensor((ROWS * WIDTH,)), Tensor((TABLES,), long), Tensor((TABLES + 1,), "int32"), total, NO,
        Tensor((TABLES + 1,), long), NO, Tensor((INDICES,), long), Tensor((BAGS + 1,), long),
        NO, None, NO, NO,
    )  # fmt: skip


def test_dense_gradients_are_a_whole_table() -> None:
    op = "fbgemm::dense_embedding_codegen_lookup_function"
    forward = count(Call(op, dense(2 * WIDTH)))
    assert forward == count(Call(op, dense(), (OUT,)))
    back = count(Call(NODE.format("Dense"), (OUT, *dense())))
    assert back.flops == forward.flops == INDICES * WIDTH
    assert back.bytes_read == OUT.size_bytes + INDEX_BYTES
    assert back.bytes_written == 4 * ROWS * WIDTH


@pytest.mark.parametrize("kind", ["sgd", "adagrad", "rowwise_adagrad", "adam", "Dense"])
def test_a_node_alone_is_unknown_with_a_reason(kind: str) -> None:
    for inputs in ((), (OUT,), (OUT, NO), (Unrecorded("symbolic size 's0'"), *dense())):
        found = count(Call(NODE.format(kind), inputs))
        assert found.unknown
        assert found.flops is None
        assert found.bytes is None


argument = st.one_of(
    st.none(), st.integers(-3, 3), st.just(NO),
    st.builds(Tensor, st.tuples(st.integers(-2, 5)), st.sampled_from(["fp32", "int64", "odd"])),
)  # fmt: skip


@given(st.sampled_from(["sgd", "rowwise_adagrad", "Dense"]), st.lists(argument, max_size=24))
def test_malformed_lookups_are_counted_or_unknown(kind: str, inputs: list[Arg]) -> None:
    for call in (Call(NODE.format(kind), tuple(inputs)), Call(FORWARD.format(kind), tuple(inputs))):
        found = count(call)
        assert found.unknown or (found.flops >= 0 and found.bytes >= 0)


# Newer versions launch from ops of their own; versions differ in the numbers between tensors.


@pytest.mark.parametrize("numbers", [(8,), (8, False)], ids=["older", "newer"])
def test_the_op_that_launches_the_update_counts_like_the_node(numbers: tuple[object, ...]) -> None:
    """Two tables of 100 rows of 8, three bags each, ten indices."""
    tables = (Tensor((1600,)), Tensor((0,)), Tensor((0, 0)), Tensor((2,), "int32"),
              Tensor((2,), "int64"), Tensor((3,), "int32"))  # fmt: skip
    indices, offsets = Tensor((10,), "int64"), Tensor((7,), "int64")
    found = count(Call.of(
        "fbgemm::split_embedding_backward_codegen_rowwise_adagrad_unweighted_exact_cuda",
        Tensor((3, 16)), *tables, *numbers, Tensor((3,), "int64"), 9, indices, offsets, 0,
    ))  # fmt: skip
    assert found.flops == 10 * 8 + 4 * 80 + 4 * 10
    assert found.bytes == 4 * 48 + 80 + 56 + 2 * (4 * 80 + 4 * 10)
    forward = count(Call.of(
        "fbgemm::split_embedding_codegen_forward_unweighted_cuda", *tables, 16, 8, indices,
        offsets, 0, Tensor((0,), "int32"), 0, False,
    ))  # fmt: skip
    assert (forward.flops, forward.bytes) == (80, 4 * 80 + 80 + 56 + 4 * 48)


@pytest.mark.parametrize(
    ("kernel", "moved"),
    [
        ("void linearize_index_kernel<long>(at::Accessor)", 80 + 56 + 80 + 40),
        ("void cub::DeviceRadixSortOnesweepKernel<cub::Policy800, false>(long)", 2 * (80 + 40)),
        ("void cub::DeviceRadixSortHistogramKernel<cub::Policy800, false>(int*)", 80),
        ("void cub::DeviceRadixSortDownsweepKernel<cub::Policy700, false>(int*)", 2 * (80 + 40)),
        ("void rocprim::ROCPRIM_400000_NS::detail::onesweep_iteration_kernel<int>(int)", 240),
        ("void rocprim::ROCPRIM_400000_NS::detail::onesweep_histograms_kernel<int>(int)", 80),
    ],
)
def test_what_prepares_an_update_has_its_own_bytes(kernel: str, moved: float) -> None:
    node = Call.of(
        "fbgemm::split_embedding_backward_codegen_sgd_unweighted_exact_cuda",
        Tensor((3, 16)), Tensor((1600,)), Tensor((0,)), Tensor((0, 0)), Tensor((2,), "int32"),
        Tensor((2,), "int64"), Tensor((3,), "int32"), 8, Tensor((3,), "int64"), 9,
        Tensor((10,), "int64"), Tensor((7,), "int64"),
    )  # fmt: skip
    part = part_of(node, kernel)
    assert part is not None
    assert (count(part).bytes, count(part).flops) == (moved, 0)
    assert part_of(Call.of("aten::sort", Tensor((10,))), kernel) is None
    assert part_of(node, "void cub::DeviceScanKernel<cub::AgentScanPolicy>(int)") is None
