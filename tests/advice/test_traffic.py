"""TR201 to TR207: memory traffic. Each fires, stays silent, and has a boundary."""

from __future__ import annotations

from typing import Any

import pytest

from tests.advice.cases import fine, found, only, own_gain_s, report_of
from tests.conftest import make_machine


def copy(time_s: float, **more: Any) -> dict[str, Any]:
    row = {"name": "copy", "op": "aten::copy_", "flop/fp32": 0.0, "launches": 1.0}
    return {**row, "time_s": time_s, "byte/dram": 5 * time_s, **more}


def test_copies_give_back_all_their_time() -> None:
    finding = only("TR201", report_of([fine(90.0), copy(10.0)]))
    assert finding.gain_s == pytest.approx(10.0)
    assert finding.evidence["bytes"] == pytest.approx(50.0)


@pytest.mark.parametrize(
    "row",
    [
        {"name": "reorder", "kind": "primitive", "op": None},
        {"name": "void nchwToNhwcKernel<float, float>", "op": "aten::cudnn_convolution"},
        {"name": "Memcpy HtoD", "kind": "copy", "op": None, "flop/fp32": None},
        {"name": "x", "op": "aten::contiguous"},
    ],
)
def test_what_counts_as_layout(row: dict[str, Any]) -> None:
    assert found("TR201", report_of([fine(90.0), copy(10.0, **row)]))


@pytest.mark.parametrize("op", ["aten::conv_transpose2d", "aten::mm", "aten::native_layer_norm"])
def test_what_does_not_count_as_layout(op: str) -> None:
    assert not found("TR201", report_of([fine(90.0), copy(10.0, name=op, op=op)]))


def test_few_copies_and_rows_with_arithmetic_are_silent() -> None:
    assert found("TR201", report_of([fine(94.9), copy(5.1)]))
    assert not found("TR201", report_of([fine(95.1), copy(4.9)]))
    assert not found("TR201", report_of([fine(90.0), copy(10.0, **{"flop/fp32": 1.0})]))
    assert not found("TR201", report_of([fine(90.0), copy(10.0, **{"flop/fp32": None})]))


@pytest.mark.parametrize(
    ("copied_s", "module", "gain_s"),
    [
        (6.1, "a", 6.1 + 10.0),  # a tenth of the op and more: its kernel is another without it
        (5.9, "a", 5.9),  # less than a tenth
        (6.1, "b", 6.1),  # another op's
    ],
)
def test_kernels_that_reorders_serve_may_change_too(
    copied_s: float, module: str, gain_s: float
) -> None:
    below = {"kind": "primitive", "op": "aten::conv", "launches": 0.0}
    # At the machine's 100 FLOP/s the bound is 44 of its 54 seconds.
    work = {"flop/fp32": 4400.0, "byte/dram": 1.0}
    kernel = fine(54.0, **below, name="onednn::convolution jit", module="a", **work)
    reorder = copy(copied_s, **below, name="onednn::reorder jit", module=module)
    finding = only("TR201", report_of([kernel, reorder]))
    assert own_gain_s(finding) == pytest.approx(gain_s)


def moved(factor: float, **more: Any) -> dict[str, Any]:
    row = {"name": "conv", "kind": "unit", "op": "conv2d", "time_s": 10.0, "flop/fp32": 100.0}
    return {**row, "byte/dram": 20.0 * factor, "label.compulsory_bytes": "20", **more}


def test_traffic_above_compulsory_gains_down_to_the_next_bound() -> None:
    finding = only("TR202", report_of([moved(4.0)]))
    assert finding.gain_s == pytest.approx(10.0 - 2.0)
    assert finding.evidence["ratio"] == pytest.approx(4.0)
    assert only("TR202", report_of([moved(4.0, **{"flop/fp32": 500.0})])).gain_s == pytest.approx(5)


@pytest.mark.parametrize(("factor", "fires"), [(2.0, True), (1.9, False)])
def test_the_boundary_of_traffic(factor: float, fires: bool) -> None:
    assert bool(found("TR202", report_of([moved(factor)]))) is fires


def test_traffic_that_takes_no_time_is_silent() -> None:
    assert not found("TR202", report_of([moved(4.0, time_s=30.0)]))
    assert not found("TR202", report_of([moved(4.0, **{"label.compulsory_bytes": None})]))


def test_the_same_case_elsewhere_tells_the_compulsory_traffic() -> None:
    def case(framework: str, factor: float, batch: str) -> dict[str, Any]:
        labels = {"label.framework": framework, "label.batch": batch}
        return moved(factor, name=framework, **labels, **{"label.compulsory_bytes": None})

    rows = [case("TF1", 4.0, "16"), case("PT", 1.0, "16")]
    assert only("TR202", report_of(rows)).kernels == [0]
    assert not found("TR202", report_of([case("TF1", 4.0, "16"), case("PT", 1.0, "32")]))


def chained(op: str, calls: float = 1.0, **more: Any) -> dict[str, Any]:
    row = {"name": op, "op": f"aten::{op}", "shape": "[[100], [100]]", "phase": "forward"}
    amounts = {"flop/fp32": 10.0, "byte/dram": 80.0 * calls}
    return {**row, **amounts, "time_s": 9.0 * calls, "calls": calls, **more}


def test_a_chain_fuses_to_one_kernel() -> None:
    finding = only("TR203", report_of([chained("mul"), chained("add"), chained("tanh")]))
    assert finding.gain_s == pytest.approx(27.0 - 8.0)
    assert finding.evidence["bytes_vanishing"] == pytest.approx(160.0)


def test_one_call_is_no_chain_and_two_are() -> None:
    assert not found("TR203", report_of([chained("mul")]))
    assert found("TR203", report_of([chained("mul"), chained("add")]))


def test_other_shapes_phases_and_modules_are_other_chains() -> None:
    for other in ({"shape": "[[50], [50]]"}, {"phase": "backward"}, {"module": "model.1"}):
        assert not found("TR203", report_of([chained("mul"), chained("add", **other)]))


def test_ops_that_are_not_elementwise_and_small_chains_are_silent() -> None:
    assert not found("TR203", report_of([chained("convolution_backward"), chained("mm")]))
    small = [chained("mul"), chained("add")]
    assert found("TR203", report_of([*small, fine(330.0)]))
    assert not found("TR203", report_of([*small, fine(350.0)]))
    assert not found("TR203", report_of([{**r, "shape": None} for r in small]))


def test_a_chain_in_a_cache_counts_by_the_bytes_that_it_touches() -> None:
    rows = [chained(op, **{"byte/dram": 0.0, "byte/l2": 80.0}) for op in ("mul", "add")]
    finding = only("TR203", report_of(rows))
    assert finding.gain_s == pytest.approx(18.0 - 2.0)
    assert finding.evidence["bytes"] == pytest.approx(160.0)


def test_near_the_roof_claims_no_seconds() -> None:
    finding = only("TR204", report_of([fine(10.0)]))
    assert finding.gain_s is None
    assert "cumulative_gain_s" not in finding.evidence
    slow = fine(10.0, **{"byte/dram": 79.0})
    assert not found("TR204", report_of([slow]))
    assert found("TR204", report_of([fine(10.0, **{"byte/dram": 81.0})]))
    rest = {"name": "mm", "time_s": 95.0, "flop/fp32": 9000.0, "byte/dram": 1.0}
    assert not found("TR204", report_of([fine(10.0), rest]))


def test_cache_resident_rows_are_named() -> None:
    row = {"name": "relu", "time_s": 1.0, "flop/fp32": 1.0, "byte/dram": 40.0}
    finding = only("TR205", report_of([row]))
    assert finding.gain_s is None
    assert finding.evidence["times_roof"] == pytest.approx(4.0)
    assert not found("TR205", report_of([{**row, "byte/dram": 60.0}]))
    assert not found("TR205", report_of([row, fine(20.0)]))
    assert not found("TR903", report_of([row]))


def fresh(faults: float, **more: Any) -> dict[str, Any]:
    row = {"name": "add", "op": "aten::sort", "time_s": 10.0, "flop/fp32": 1.0, "byte/dram": 20.0}
    return {**row, "fault": faults, **more}


def test_fresh_memory_gains_what_faults_hold() -> None:
    finding = only("TR206", report_of([fresh(12.0)]))
    assert finding.gain_s == pytest.approx(10.0 - 2.0)
    synchronous = make_machine(launching="synchronous")
    assert only("TR206", report_of([fresh(12.0)], synchronous)).gain_s == pytest.approx(7.9)


@pytest.mark.parametrize(("faults", "fires"), [(5.0, True), (4.9, False), (0.0, False)])
def test_the_boundary_of_fresh_memory(faults: float, fires: bool) -> None:
    assert bool(found("TR206", report_of([fresh(faults)]))) is fires


def slow(share: float, **more: Any) -> dict[str, Any]:
    row = {"name": "gather", "op": "aten::index", "time_s": 10.0, "flop/fp32": 1.0}
    return {**row, "byte/dram": 100.0 * share, "launches": 1.0, **more}


def test_low_bandwidth() -> None:
    assert only("TR207", report_of([slow(0.4)])).gain_s == pytest.approx(6.0)
    assert found("TR207", report_of([slow(0.49)]))
    assert not found("TR207", report_of([slow(0.51)]))
    assert not found("TR207", report_of([slow(0.4, op="aten::copy_")]))
    assert not found("TR207", report_of([slow(0.2, launches=25.0)]))
    assert not found("TR207", report_of([slow(0.4, fault=10.0)]))


def test_what_a_cache_could_hold_is_slow_only_if_memory_is_faster() -> None:
    at_memory_speed = slow(0.0, **{"byte/l2": 90.0})
    assert not found("TR207", report_of([at_memory_speed]))
    assert found("TR207", report_of([slow(0.0, **{"byte/l2": 40.0})]))
