"""Primitives in place of their ops: time and work go together, and nothing is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from timeroof.live.torch.primitive_rows import (
    LEAST_REST,
    Below,
    Key,
    Part,
    Seen,
    parts_of,
    parts_of_rows,
    split_line,
    telling_ns,
    whole_parts,
)
from timeroof.work import Cost, count
from timeroof.work.cost import amounts
from timeroof.work.onednn import call_from_onednn

FORMATS = "src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 dst:f32::blocked:ab::f0"
MATMUL = Key("matmul", "brg_matmul", "undef", FORMATS, "64x16:16x32")
OTHER = Key("matmul", "brg_matmul", "undef", FORMATS, "64x16:16x64")
REORDER = Key("reorder", "jit:uni", "undef", "src:f32::blocked:ab::f0 dst:f32::blocked:ba::f0",
                "64x16")  # fmt: skip
AMOUNTS = ("flop/fp32", "byte/l1", "byte/dram", "contraction_flops", "fault")


def op(**more: Any) -> dict[str, Any]:
    line = {
        "id": 7, "kind": "op", "name": "aten::op", "op": "aten::op", "shape": [[64, 16], [16, 32]],
        "calls": 1.0, "launches": 1.0, "time_s": 1e-3, "timed_s": 2e-3, "samples": [1e-3, 1.2e-3],
        "origin.time": "measured", "flop/fp32": 65537.0, "byte/l1": 4000.0, "byte/dram": 1001.0,
        "contraction_flops": 65536.0, "fault": 3.0,
    }  # fmt: skip
    return line | more


def split(line: dict[str, Any], below: Below) -> list[dict[str, Any]]:
    return split_line(line, below, (), None, 100)


def total(rows: list[dict[str, Any]], name: str) -> float:
    return float(sum(row[name] or 0.0 for row in rows))


def test_an_op_that_is_nearly_all_one_primitive_becomes_it() -> None:
    line = op()
    (row,) = split(line, {MATMUL: Part(0.9, 1.0)})
    assert (row["id"], row["parent"], row["kind"]) == (7, None, "primitive")
    assert row["name"] == "onednn::matmul brg_matmul"
    assert row["origin.time"] == "measured"
    same = ("time_s", "timed_s", "samples", "launches", "calls", *AMOUNTS)
    assert {n: row[n] for n in same} == {n: line[n] for n in same}


@pytest.mark.parametrize(("share", "rows"), [(1.0, 1), (0.81, 1), (0.79, 2), (0.1, 2)])
def test_a_long_rest_beside_onednn_is_a_row_that_owes_nothing(share: float, rows: int) -> None:
    made = split(op(), {MATMUL: Part(share, 1.0)})
    assert len(made) == rows
    assert total(made, "time_s") == pytest.approx(1e-3)
    for name in (*AMOUNTS, "launches"):
        assert total(made, name) == op()[name]
    if rows == 2:
        rest, primitive = made
        assert (rest["id"], primitive["parent"], rest["byte/dram"]) == (7, 7, 0.0)
        assert rest["flop/fp32"] == 0.0
        assert primitive["origin.time"] == "modelled"


def test_the_longest_primitive_stands_for_its_op_in_the_timeline() -> None:
    made = split(op(contraction_flops=196608.0), {MATMUL: Part(0.3, 1.0), OTHER: Part(0.6, 1.0)})
    assert [row["id"] for row in made] == [100, 7]
    assert [row["launches"] for row in made] == [0.0, 1.0]
    assert [row["contraction_flops"] for row in made] == [65536.0, 131072.0]
    assert all(row["flop/fp32"].is_integer() for row in made)


def test_what_moves_data_has_time_and_no_flops() -> None:
    made = split(op(), {REORDER: Part(0.3, 1.0), MATMUL: Part(0.65, 1.0)})
    reorder, product = made
    assert (reorder["flop/fp32"], product["flop/fp32"]) == (0.0, 65537.0)
    # An op that is nothing but a change of layout keeps what it was counted with, once.
    (alone,) = split(op(), {REORDER: Part(0.9, 1.0)})
    assert alone["byte/dram"] == 1001.0


CONVOLUTION = "mb16_ic16oc32_ih32oh15kh3sh2dh0ph0_iw32ow15kw3sw2dw0pw0"


def gradients(dtype: str) -> tuple[Key, Key]:
    """The primitives of both gradients of a convolution with a bias."""
    tensors = " ".join(f"{t}:{dtype}::blocked:abcd::f0" for t in ("src", "wei", "bia", "dst"))
    without = tensors.replace(f"bia:{dtype}::blocked:abcd::f0 ", "")
    return (
        Key("convolution", "brgconv", "backward_data", without, CONVOLUTION),
        Key("convolution", "jit", "backward_weights", tensors, CONVOLUTION),
    )


@pytest.mark.parametrize("dtype", ["bf16", "f32", "f64"])
def test_the_bias_gradient_is_on_the_account_of_the_weights_gradient(dtype: str) -> None:
    keys = gradients(dtype)
    costs = [count(call_from_onednn(k, way, tensors, size)) for k, _, way, tensors, size in keys]
    each = 2 * 16 * 15 * 15 * 32 * 16 * 3 * 3
    sums = 16 * 32 * 15 * 15
    owed = {"contraction_flops": 2.0 * each, "fault": 3.0, "byte/dram": 1000.0}
    owed |= {"flop/bf16": 2.0 * each, "flop/fp32": float(sums)} if dtype == "bf16" else {}
    owed |= {"flop/fp32": 2.0 * each + sums} if dtype == "f32" else {}
    owed |= {"flop/fp64": 2.0 * each + sums, "flop/fp32": 0.0} if dtype == "f64" else {}
    data, weights = split(op(**owed), dict.fromkeys(keys, Part(0.5, 1.0)))
    assert (data["contraction_flops"], weights["contraction_flops"]) == (each, each)
    flops = {n for n in owed if n.startswith("flop/")}
    assert sum(data[n] for n in flops) == each
    assert sum(weights[n] for n in flops) == each + sums
    if dtype == "bf16":
        assert [row["flop/fp32"] for row in (data, weights)] == [0.0, sums]
    assert total([data, weights], "byte/dram") == 1000.0
    assert amounts(costs[0])["contraction_flops"] == each


def test_pages_are_not_given_to_what_moves_data_as_well() -> None:
    made = split(op(), {REORDER: Part(0.3, 1.0), MATMUL: Part(0.65, 1.0)})
    assert [row["fault"] for row in made] == [0.0, 3.0]


def test_calls_without_sizes_share_by_their_number() -> None:
    owed = {"flop/fp32": 9.0, "contraction_flops": 9.0, "byte/dram": None}
    unsized = Cost(contraction=None, other=None, unknown="sizes are not in the line")
    found = parts_of(owed, [unsized, unsized], [2.0, 1.0], ())
    assert found["contraction_flops"] == found["flop/fp32"] == [6.0, 3.0]
    assert found["byte/dram"] == [None, None]


def test_a_format_that_no_primitive_tells_follows_all_their_flops() -> None:
    # The op counts fp32, the library computes in bf16.
    narrow = [Cost(contraction={"bf16": 1.0}), Cost(contraction={"bf16": 3.0})]
    assert parts_of({"flop/fp32": 8.0}, narrow, [1.0, 1.0], ())["flop/fp32"] == [2.0, 6.0]


def test_primitives_that_no_clock_saw_leave_the_op_alone() -> None:
    assert split(op(), {MATMUL: Part(0.0, 1.0)}) == [op()]


keys = st.sampled_from([OTHER, MATMUL, REORDER])


@given(
    below=st.dictionaries(keys, st.builds(Part, st.floats(0, 1), st.integers(1, 9).map(float)), min_size=1),
    calls=st.integers(1, 9),
)  # fmt: skip
def test_no_row_has_work_without_time_and_nothing_is_lost(below: Below, calls: int) -> None:
    whole = max(1.0, sum(part.share for part in below.values()))
    below = {key: part._replace(share=part.share / whole) for key, part in below.items()}
    line = op(calls=float(calls))
    made = split(line, below)
    assert all(row["time_s"] > 0 for row in made)
    assert len({row["id"] for row in made}) == len(made)
    assert 7 in {row["id"] for row in made}
    assert {row.get("parent") for row in made} <= {None, 7}
    assert total(made, "time_s") == pytest.approx(line["time_s"])
    for name in ("flop/fp32", "contraction_flops", "fault", "launches"):
        assert total(made, name) == pytest.approx(line[name])
    rest = next(row for row in made if row["id"] == 7)
    if rest["kind"] == "op" and len(made) > 1:
        assert rest["time_s"] >= LEAST_REST * line["time_s"] * (1 - 1e-9)


@given(st.integers(0, 10**15), st.lists(st.floats(0.001, 1), min_size=1, max_size=9))
def test_parts_are_whole_and_sum(amount: int, weights: list[float]) -> None:
    parts = whole_parts(float(amount), [w / sum(weights) for w in weights])
    assert sum(p or 0.0 for p in parts) == pytest.approx(amount, rel=1e-12, abs=1e-9)
    assert all(p is not None and p.is_integer() and p >= 0 for p in parts)


def test_writing_a_line_is_not_the_rest_of_an_op() -> None:
    seen = [Seen(0, 0, MATMUL, 100.0), Seen(1, 1, MATMUL, 200.0), Seen(2, 2, MATMUL, 50.0)]
    seen.append(Seen(2, 2, OTHER, 50.0))
    self_ns = np.array([130, 1230, 400])
    # 30 ns and 1030 ns more than one primitive: the smaller is what a line costs.
    assert telling_ns(seen[:1] + seen[2:], self_ns) == 30.0
    assert telling_ns([], self_ns) == 0.0
    found = parts_of_rows(seen, {0: 0, 1: 1, 2: 2}, np.array([130, 230, 400]))
    assert found[0] == {MATMUL: Part(1.0, 1.0, 100.0, 100.0)}
    assert found[2] == {key: Part(50 / 340, 1.0, 50.0, 50.0) for key in (MATMUL, OTHER)}
    # A library that says more than its op took has all of it.
    assert parts_of_rows(seen[:1], {0: 0}, np.array([90]))[0][MATMUL].share == 1.0
