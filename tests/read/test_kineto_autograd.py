"""Ops and autograd's nodes complete one another's records; kernels tell and borrow sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kineto_events import ENGINE, MAIN, event, kernel, launch, op
from tests.read.test_kineto_rows import MM, read, row
from tests.work.reasons import why_unknown
from timeroof.core.profile import Profile
from timeroof.work.recorded import with_recorded_work

CAT = {"Input Dims": [[], []], "Input type": ["TensorList", "Scalar"]}
CAT_KERNEL = "void at::native::CatArrayBatchedCopy<float, unsigned int, 2, 64, 64>(float*)"
NODE = "torch::autograd::CppNode<SplitLookupFunction_sgd_Op>"
LOOKUP = "fbgemm::split_embedding_codegen_lookup_sgd_function"


def counted(profile: Profile) -> Profile:
    return with_recorded_work(profile, None)


def forward_and_node(
    node: str = "CatBackward0", sequence: Any = 7, node_sequence: Any = 7, **node_args: Any
) -> list[dict[str, Any]]:
    shape = node_args or {"Input Dims": [[16, 416]], "Input type": ["float"]}
    return [
        op("aten::cat", 10, 10, **CAT, **{"Sequence number": sequence}),
        launch(1, 12),
        kernel(CAT_KERNEL, 20, 5, 1),
        op(f"autograd::engine::evaluate_function: {node}", 100, 20, ENGINE,
           **{"Sequence number": node_sequence}),
        op(node, 102, 10, ENGINE, **shape, **{"Sequence number": node_sequence}),
        launch(2, 104, tid=ENGINE),
        kernel("other", 110, 3, 2),
    ]  # fmt: skip


def test_an_op_learns_its_result_from_its_gradient(tmp_path: Path) -> None:
    found = row(counted(read(tmp_path, forward_and_node())), op="aten::cat")
    assert json.loads(found["label.output_dims"]) == [[16, 416]]
    assert found["byte/dram"] == 2 * 4 * 16 * 416
    assert found["origin.flops"] == "counted"
    assert why_unknown(found) is None


@pytest.mark.parametrize(
    "events",
    [
        forward_and_node("TBackward0"),  # another op's node
        forward_and_node(node_sequence=8),  # another call's
        forward_and_node(sequence="x"),
        forward_and_node(**{"Input Dims": [[2], [2]], "Input type": ["float", "float"]}),
        forward_and_node(**{"Input Dims": [[2]], "Input type": [""]}),
        forward_and_node(**{"Input Dims": "[[", "Input type": 5}),
        [  # the same number on two threads
            *forward_and_node(),
            op("aten::cat", 30, 5, 77, **CAT, **{"Sequence number": 7}),
        ],
    ],
)
def test_what_belongs_to_no_one_stays_unknown(tmp_path: Path, events: list[dict[str, Any]]) -> None:
    found = row(counted(read(tmp_path, events)), name=CAT_KERNEL)
    assert found.get("label.output_dims") is None
    assert found["byte/dram"] is None
    assert "not recorded" in (why_unknown(found) or "")


def test_a_graph_that_is_walked_twice(tmp_path: Path) -> None:
    """retain_graph: two nodes of one op, and of one lookup."""
    again = [{**e, "ts": e["ts"] + 300} for e in forward_and_node()[4:5]]
    found = row(counted(read(tmp_path, [*forward_and_node(), *again])), op="aten::cat")
    assert found["byte/dram"] == 2 * 4 * 16 * 416
    both = counted(read(tmp_path, lookups((3, 10), nodes=(5, 5)))).kernels
    assert both.filter(both["name"] == "backward_kernel")["flop/fp32"].sum() == 2 * 10 * 4 * 3


def test_strange_gradients_are_no_sizes(tmp_path: Path) -> None:
    for dims in ([["s0"]], [[-3]], [[[1]]], [None]):
        events = forward_and_node(**{"Input Dims": dims, "Input type": ["float"]})
        found = row(counted(read(tmp_path, events)), name=CAT_KERNEL)
        assert found["byte/dram"] is None


def test_complete_records_stay_as_they_are(tmp_path: Path) -> None:
    numbered = {"Sequence number": 7}
    events = [
        op("aten::mm", 10, 10, **MM, **numbered),
        launch(1, 12),
        kernel("gemm", 20, 5, 1),
        op("MmBackward0", 100, 9, ENGINE, **numbered,
           **{"Input Dims": [[4, 2]], "Input type": ["float"]}),
    ]  # fmt: skip
    assert "label.output_dims" not in read(tmp_path, events).kernels.columns


def lookup(width: int = 4, rows: int = 50, indices: int = 10, bags: int = 6) -> dict[str, Any]:
    types = ["float"] * 4 + ["int", "long int", "int", "Scalar", "Scalar", "long int", "Scalar",
                            "long int", "long int", "Scalar", "", "", "int"]  # fmt: skip
    dims = [[0], [rows * width], [0], [0, 0], [2], [2], [3], [], [], [3], [], [indices],
            [bags + 1], [], [], [], [0]]  # fmt: skip
    return {"Input Dims": dims, "Input type": types}


def lookups(*places: tuple[int, int], nodes: tuple[int, ...] = (5,)) -> list[dict[str, Any]]:
    """Lookups (start, indices) between ops with numbers 5, 6, …, and nodes with numbers."""
    events = [
        op("aten::t", 10 * i, 2, **MM, **{"Sequence number": 5 + i}) for i in range(4)
    ]  # fmt: skip
    for place, (start, indices) in enumerate(places):
        events += [
            op(LOOKUP, start, 4, **lookup(indices=indices)),
            launch(place, start + 1, 1),
            kernel("forward_kernel", 60 + 10 * place, 5, place),
        ]
    for place, number in enumerate(nodes):
        start = 200 + 20 * place
        events += [
            op(NODE, start, 10, ENGINE,
               **{"Input Dims": [[3, 8]], "Input type": ["float"], "Sequence number": number}),
            launch(50 + place, start + 2, tid=ENGINE),
            kernel("backward_kernel", start + 5, 5, 50 + place),
        ]  # fmt: skip
    return events


def test_a_lookup_and_its_node_tell_one_another(tmp_path: Path) -> None:
    found = counted(read(tmp_path, lookups((3, 10))))
    forward, back = row(found, name="forward_kernel"), row(found, name="backward_kernel")
    assert forward["flop/fp32"] == 10 * 4
    # Width 4 from the gradient; 10 rows read, updated by SGD and written.
    assert back["flop/fp32"] == 10 * 4 * (1 + 2)
    index_bytes = 8 * 10 + 8 * 7
    assert back["byte/dram"] == 4 * 3 * 8 + index_bytes + 2 * 4 * 10 * 4


def test_each_node_finds_its_own_lookup(tmp_path: Path) -> None:
    """One lookup before number 6, one after it; nodes come in the other order."""
    found = counted(read(tmp_path, lookups((3, 10), (13, 20), nodes=(6, 5))))
    rows = found.kernels.filter(found.kernels["name"] == "backward_kernel").sort("flop/fp32")
    assert rows["flop/fp32"].to_list() == [10 * 4 * 3, 20 * 4 * 3]


@pytest.mark.parametrize(
    ("places", "nodes"),
    [
        (((3, 10), (4, 20)), (5,)),  # two lookups in one gap
        (((3, 10),), (6,)),  # a node of a later op
        (((3, 10),), ()),
        ((), (5,)),
    ],
)
def test_lookups_that_cannot_be_told_apart(
    tmp_path: Path, places: tuple[tuple[int, int], ...], nodes: tuple[int, ...]
) -> None:
    found = counted(read(tmp_path, [*lookups(*places, nodes=nodes), launch(99, 400, tid=MAIN)]))
    names = ["forward_kernel", "backward_kernel"]
    rows = found.kernels.filter(found.kernels["name"].is_in(names))
    assert rows.height
    if "byte/dram" in rows.columns:
        assert rows["byte/dram"].null_count() == rows.height


FIRST = "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256_cga1x1x1_swiGlu"
SECOND = "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256_cga1x1x1"


def experts(first_grid: Any, second_grid: Any) -> list[dict[str, Any]]:
    record = {"Input Dims": [[12, 256], [12, 4]], "Input type": ["c10::BFloat16"] * 2}
    return [
        op("vllm::moe_forward", 10, 30, **record),
        launch(1, 12),
        launch(2, 15),
        launch(3, 18),
        kernel(FIRST, 20, 50, 1, grid=first_grid),
        kernel(SECOND, 80, 30, 2, grid=second_grid),
        kernel("unheard_of", 120, 5, 3, grid=(9, 9, 9)),
    ]


def test_experts_by_their_kernels_each_on_its_own(tmp_path: Path) -> None:
    found = counted(read(tmp_path, experts((2, 5, 1), (2, 5, 1))))
    first, second = row(found, name=FIRST), row(found, name=SECOND)
    assert first["contraction_flops"] == 2 * 24 * 256 * 256
    assert second["contraction_flops"] == 2 * 24 * 256 * 128
    assert first["origin.flops"] == first["origin.bytes/dram"] == "inferred"
    other = row(found, name="unheard_of")
    assert other["byte/dram"] is None


@pytest.mark.parametrize("grid", ["x", [], [1], [2, 5, "y"], {}, None, [10**30, 5, 1]])
def test_strange_grids_leave_experts_unknown(tmp_path: Path, grid: Any) -> None:
    events = experts((2, 5, 1), (2, 5, 1))
    events[4]["args"]["grid"] = grid
    found = counted(read(tmp_path, events))
    assert row(found, name=FIRST)["byte/dram"] is None


def test_all_kernels_of_an_unknown_op_are_unknown(tmp_path: Path) -> None:
    """Also those that stand for no call: 0 would say that they are known to do nothing."""
    record = {"Input Dims": [[4, 4]], "Input type": ["float"]}
    events = [
        op("mylib::mystery", 10, 30, **record),
        launch(1, 12),
        launch(2, 15),
        kernel("long", 20, 50, 1),
        kernel("short", 80, 3, 2),
        op("aten::relu", 100, 10, **record),
        launch(3, 102),
        kernel("relu", 120, 3, 3),
    ]
    found = counted(read(tmp_path, events))
    for name in ("long", "short"):
        assert row(found, name=name)["byte/dram"] is None
        assert row(found, name=name)["flop/fp32"] is None
    assert row(found, name="relu")["byte/dram"] == 2 * 4 * 16


def test_a_format_from_the_kernels_name_is_inferred(tmp_path: Path) -> None:
    record = {"Input Dims": [[[4, 4], [4, 4]], []], "Input type": ["TensorList", "Scalar"]}
    events = [op("aten::cat", 10, 30, **record), launch(1, 12), kernel(CAT_KERNEL, 20, 5, 1)]
    found = row(counted(read(tmp_path, events)), name=CAT_KERNEL)
    assert found["byte/dram"] == 2 * 4 * 32
    assert found["origin.flops"] == found["origin.bytes/dram"] == "inferred"


def products(*unlinked_us: float) -> list[dict[str, Any]]:
    """Two products of one name and grid, 30 and 75 us, and kernels that no launch explains."""
    long = {**MM, "Input Dims": [[4, 80], [80, 2]]}
    events = []
    for place, (record, time_us) in enumerate([(MM, 30), (MM, 30), (long, 75)]):
        start = 1000 * place
        events += [
            op("aten::mm", start, 20, **record),
            launch(place, start + 2),
            kernel("gemm", start + 30, time_us, place),
        ]
    return events + [
        kernel("gemm", 10_000 + 1000 * i, time_us, 90 + i) for i, time_us in enumerate(unlinked_us)
    ]


@pytest.mark.parametrize(
    ("time_us", "shape"),
    [(29, [[4, 8], [8, 2]]), (36, [[4, 8], [8, 2]]), (74, [[4, 80], [80, 2]]),
     (80, [[4, 80], [80, 2]]), (400, None), (11, None), (0, None)],
)  # fmt: skip
def test_products_lend_to_products_that_take_as_long(
    tmp_path: Path, time_us: float, shape: list[list[int]] | None
) -> None:
    found = read(tmp_path, products(time_us)).kernels
    borrowed = found.filter(found["label.link"].is_in(["inferred", "none"]))
    assert borrowed["shape"].to_list() == [shape]


def test_a_layout_change_stands_for_no_convolution(tmp_path: Path) -> None:
    events = [
        op("aten::miopen_convolution", 0, 20, **MM),
        launch(1, 2),
        launch(2, 5),
        kernel("transpose_CNHW2NCHW_V2", 30, 50, 1),
        kernel("gemm", 90, 5, 2),
        op("aten::copy_", 200, 20, **MM),
        launch(3, 202),
        kernel("transpose_alone", 230, 50, 3),
        event("user_annotation", "step", 0, 300),
    ]
    found = read(tmp_path, events)
    calls = {n: row(found, name=n)["label.op_calls"] for n in found.kernels["name"]}
    assert calls == {"transpose_CNHW2NCHW_V2": "0", "gemm": "1", "transpose_alone": "1"}
