"""TR301 to TR401 and TR901 to TR903. Each fires, stays silent, and has a boundary."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.advice.cases import ceiling, fine, found, machine_with, only, own_gain_s, report_of
from tests.conftest import make_machine
from timeroof.core.profile import Steps


def product(**more: Any) -> dict[str, Any]:
    row = {"name": "mm", "op": "aten::mm", "dtype": "fp16", "time_s": 10.0, "byte/dram": 10.0}
    return {**row, "flop/fp32": 800.0, "flop/fp16-tensor": 0.0, "contraction_flops": 800.0, **more}


def test_matrix_units_missed_by_sixteen_bit_data() -> None:
    finding = only("TR301", report_of([product()]))
    assert finding.gain_s == pytest.approx(10.0 - 4.0)
    assert finding.evidence["matrix_unit_share"] == 0.0
    assert "multiples of 8" in str(finding.action)


def test_half_of_the_work_on_matrix_units_is_the_boundary() -> None:
    def on_units(flops: float) -> bool:
        row = product(**{"flop/fp32": 800.0 - flops, "flop/fp16-tensor": flops})
        return bool(found("TR301", report_of([row])))

    assert on_units(399.0)
    assert not on_units(401.0)


def test_matrix_units_need_arithmetic_a_unit_and_a_contraction() -> None:
    assert not found("TR301", report_of([product(time_s=41.0)]))
    assert found("TR301", report_of([product(time_s=39.0)]))
    assert not found("TR301", report_of([product(dtype="bf16")]))
    assert not found("TR301", report_of([product(contraction_flops=0.0)]))
    assert not found("TR301", report_of([product(op="aten::mul", contraction_flops=None)]))
    emulated = machine_with(emulated={"flop/bf16-tensor": "flop/fp32"})
    assert not found("TR301", report_of([product(dtype="bf16")], emulated))


def test_tf32_left_off() -> None:
    machine = machine_with(ceiling("flop/tf32-tensor", 400.0))
    finding = only("TR301", report_of([product(dtype="fp32")], machine))
    assert "TF32" in finding.title
    assert finding.gain_s == pytest.approx(8.0)
    assert not found("TR301", report_of([product(dtype="fp32")]))


def test_autocast_that_leaves_a_part_out() -> None:
    half = product(name="half", **{"flop/fp32": 0.0, "flop/fp16-tensor": 800.0})
    finding = only("TR301", report_of([half, product(dtype="fp32")]))
    assert "Autocast" in finding.title
    assert finding.gain_s == pytest.approx(6.0)
    assert not found("TR303", report_of([half, product(dtype="fp32")]))
    units = [{**r, "kind": "unit"} for r in (half, product(dtype="fp32"))]
    assert not found("TR301", report_of(units))


def double(**more: Any) -> dict[str, Any]:
    row = {"name": "mm", "op": "aten::mm", "dtype": "float64", "time_s": 20.0, "byte/dram": 40.0}
    return {**row, "flop/fp64": 500.0, "contraction_flops": 500.0, **more}


def test_double_precision_gains_down_to_the_single_bound() -> None:
    machine = machine_with(ceiling("flop/fp64", 50.0))
    assert only("TR302", report_of([double()], machine)).gain_s == pytest.approx(15.0)
    memory = double(**{"byte/dram": 160.0})
    assert only("TR302", report_of([memory], machine)).gain_s == pytest.approx(12.0)


def test_double_is_told_by_flops_too_and_single_is_silent() -> None:
    assert found("TR302", report_of([double(dtype=None)]))
    assert not found("TR302", report_of([double(dtype="float32")]))
    assert found("TR302", report_of([double(time_s=6.1), fine(100.0)]))
    assert not found("TR302", report_of([double(time_s=5.9), fine(100.0)]))


def test_a_narrower_format_is_worth_trying() -> None:
    finding = only("TR303", report_of([product(dtype="fp32")]))
    assert finding.gain_s == pytest.approx(10.0 * (1 - 4.0 / 8.0))
    launch_limited = product(dtype="fp32", launches=90.0)
    assert not found("TR303", report_of([launch_limited]))
    vector = [c for c in make_machine().ceilings if "tensor" not in c.resource]
    emulated = make_machine(ceilings=vector, emulated={"flop/fp16-tensor": "flop/fp32"})
    assert not found("TR303", report_of([product(dtype="fp32")], emulated))
    assert not found("TR303", report_of([product(dtype="fp16")]))
    for times, fires in ((1.4, False), (1.6, True), (0.5, False)):
        slow = [
            msgspec.structs.replace(c, rate=100.0 * times) if "fp16" in c.resource else c
            for c in make_machine().ceilings
        ]
        hardly_faster = make_machine(ceilings=slow)
        assert bool(found("TR303", report_of([product(dtype="fp32")], hardly_faster))) is fires


def test_low_compute_efficiency() -> None:
    def row(efficiency: float, **more: Any) -> dict[str, Any]:
        return product(dtype="fp32", **{"flop/fp32": 1000.0 * efficiency}, **more)

    finding = only("TR304", report_of([row(0.4, shape="[[64, 129], [129, 64]]")]))
    assert finding.gain_s == pytest.approx(6.0)
    assert finding.evidence["odd_sides"] == [129]
    assert "Pad the sides that are not multiples of 8 (129)." in (finding.action or "")
    whole = only("TR304", report_of([row(0.4, shape="[[4096, 1024], [1024, 32768]]")]))
    assert "multiples" not in f"{whole.why} {whole.action}"
    assert found("TR304", report_of([row(0.49)]))
    assert not found("TR304", report_of([row(0.51)]))


def layer(phase: str, **more: Any) -> dict[str, Any]:
    row = {"op": "aten::addmm", "shape": "[[4, 8], [8, 8]]", "module": "model.0"}
    return product(name=f"{phase} mm", phase=phase, dtype="fp32", **{**row, **more})


def test_recomputation_is_the_forward_pass_again() -> None:
    finding = only("TR305", report_of([layer("forward"), layer("backward")]))
    assert own_gain_s(finding) == pytest.approx(10.0)
    assert finding.kernels == [1]


@pytest.mark.parametrize(
    "other", [{"module": "model.1"}, {"shape": "[[8, 4], [4, 8]]"}, {"op": "aten::mm"}]
)
def test_a_backward_pass_of_its_own_is_silent(other: dict[str, Any]) -> None:
    assert not found("TR305", report_of([layer("forward"), layer("backward", **other)]))


@pytest.mark.parametrize("op", ["aten::bmm", "tf::BatchMatMulV2", "jax::dot_general"])
def test_gradients_of_products_are_no_recomputation(op: str) -> None:
    """Attention's backward pass has products of the forward pass's sizes, but no softmax."""
    rows = [layer(phase, op=op) for phase in ("forward", "backward")]
    softmax = [layer(phase, op="aten::_softmax") for phase in ("forward", "backward")]
    assert not found("TR305", report_of([*rows, softmax[0]]))
    assert only("TR305", report_of([*rows, *softmax])).kernels[0] == 1


def test_little_recomputation_is_silent() -> None:
    for time_s, fires in ((4.0, True), (2.0, False)):
        rows = [layer("forward", time_s=96.0), layer("backward", time_s=time_s)]
        assert bool(found("TR305", report_of(rows))) is fires


def test_unbalanced_ranks() -> None:
    def ranks(slow_s: float) -> Any:
        rows = [fine(10.0, rank=0), fine(10.0, rank=1), fine(slow_s, rank=2)]
        rows.append({"name": "nccl", "kind": "collective", "time_s": 5.0, "rank": 0})
        return report_of(rows, wall_s=20.0)

    finding = only("TR401", ranks(13.0))
    assert finding.gain_s == pytest.approx(2.0)
    assert finding.evidence["rank"] == 2
    assert found("TR401", ranks(10.9))
    assert not found("TR401", ranks(10.6))
    assert not found("TR401", report_of([fine(10.0, rank=0)]))


def test_all_ranks_that_stand_out_are_named() -> None:
    """As the warning on ranks does; the longest first, the busiest alone where none stands out."""

    def computing(*seconds: float) -> Any:
        rows = [fine(s, rank=rank) for rank, s in enumerate(seconds)]
        return only("TR401", report_of(rows, wall_s=20.0))

    several = computing(10.0, 15.0, 10.0, 10.1, 16.0, 10.0, 9.9, 10.0)
    assert several.title.startswith("Ranks 4, 1 compute up to 41 % longer than the mean")
    assert "wait for them" in several.why
    assert several.evidence["slow_ranks"] == [4, 1]
    assert computing(10.0, 13.0, 13.0).title.startswith("Rank 1 computes")
    assert computing(*(10.0 + k for k in range(8))).evidence["slow_ranks"] == [7]


def test_gains_of_several_ranks_are_those_of_one() -> None:
    rows = [product(rank=r, name=f"mm{r}") for r in range(4)]
    assert only("TR301", report_of(rows, wall_s=10.0)).gain_s == pytest.approx(6.0)


def test_a_noisy_or_short_measurement() -> None:
    assert only("TR901", report_of([fine(1.0, time_spread=0.2)])).gain_s is None
    assert not found("TR901", report_of([fine(1.0, time_spread=0.19)]))
    assert not found("TR901", report_of([fine(1.0)]))
    assert not found("TR901", report_of([fine(1.0, time_spread=0.5), fine(4.1, time_spread=0.0)]))
    assert found("TR901", report_of([fine(1.0)], steps=Steps(count=2)))
    assert not found("TR901", report_of([fine(1.0)], steps=Steps(count=3)))


def test_unknown_work_is_said_aloud() -> None:
    unknown = {"name": "custom", "time_s": 1.0, "flop/fp32": None, "byte/dram": None}
    assert only("TR902", report_of([unknown, fine(8.9)])).evidence["unknown_share"] > 0.1
    assert not found("TR902", report_of([unknown, fine(9.1)]))
    assert "no known FLOPs and bytes" in only("TR902", report_of([unknown])).why
    partly = {**unknown, "byte/dram": 1.0}
    assert "but not both" in only("TR902", report_of([partly])).why
    assert "50 %" in only("TR902", report_of([partly, unknown])).why


def test_rows_above_the_roof_are_named_with_their_cause() -> None:
    fast = {"name": "mm", "op": "aten::mm", "time_s": 1.0, "flop/fp32": 200.0, "byte/dram": 1.0}
    finding = only("TR903", report_of([fast]))
    assert finding.evidence["seconds_by_cause"] == {"wrong ceiling": 1.0}
    assert not found("TR903", report_of([{**fast, "flop/fp32": 102.0}]))
    assert not found("TR903", report_of([fast, fine(100.0)]))
