"""Formulas of HLO instructions: text and sizes that give the instruction's own numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

import timeroof
from tests.hlo_messages import computation, contracted, instruction, parameter, shape, tuple_of
from tests.read import test_xplane as made
from tests.read.test_xplane_hlo import metadata, program as dot_program
from tests.work.hlo.test_by_hand import TE, custom, program
from timeroof.work.counting import count
from timeroof.work.families.hlo import instruction_call
from timeroof.work.hlo.cost import Program
from timeroof.work.hlo.formulas import formulas_of
from timeroof.work.recorded import named_call
from timeroof.work.traced import evaluated, is_traced


def told(found: Program, name: str) -> dict[str, str]:
    """Formulas by what they tell; each gives the cost's number."""
    one = found.instructions[name]
    cost, formulas = found.cost(one), formulas_of(found, one)
    for formula in formulas:
        known = getattr(cost, formula.what)
        value = known[formula.dtype] if isinstance(known, dict) else known
        assert evaluated(formula.text, dict(formula.sizes)) == value, formula
    call = named_call(instruction_call(cost, formulas=formulas))
    again = count(call)
    assert (again.flops, again.bytes) == (cost.flops, cost.bytes)
    if cost.contraction:
        assert all(is_traced(v) for v in (again.contraction or {}).values())
    return {formula.what: formula.text for formula in formulas}


def test_a_product_is_told_by_its_roles() -> None:
    found = program(
        computation(
            1, 3, parameter(1, 0, shape(4, 8)), parameter(2, 1, shape(8, 16)),
            instruction(3, "dot.1", "dot", shape(4, 16), (1, 2), contracted(1, 0)),
        )
    )  # fmt: skip
    assert told(found, "dot.1") == {
        "contraction": "2·M·N·K",
        "bytes_read": "4·M·K + 4·K·N",
        "bytes_written": "4·M·N",
    }


def test_a_fusion_is_told_by_its_product_and_its_elements() -> None:
    inner = computation(
        2, 14, parameter(10, 0, shape(4, 8)), parameter(11, 1, shape(8, 16)),
        instruction(12, "dot.2", "dot", shape(4, 16), (10, 11), contracted(1, 0)),
        instruction(13, "tanh.1", "tanh", shape(4, 16), (12,)),
        instruction(14, "add.1", "add", shape(4, 16), (13, 12)),
    )  # fmt: skip
    outer = computation(
        1, 3, parameter(1, 0, shape(4, 8)), parameter(2, 1, shape(8, 16)),
        instruction(3, "fusion.1", "fusion", shape(4, 16), (1, 2), called=(2,)),
    )  # fmt: skip
    found = told(program(outer, inner), "fusion.1")
    assert found["contraction"] == "2·M·N·K"
    assert found["other"] == "elements" or found["other"].endswith("·elements")
    assert found["bytes_read"] == "4·in0_0·in0_1 + 4·in1_0·in1_1"


def test_attention_of_a_library_is_told_by_its_sizes() -> None:
    q = shape(2, 64, 4, 32)
    result = tuple_of(q, shape(2, 4, 64, 1))
    found = custom("te_fused_attn_forward_ffi", TE % 0, q, q, q, result=result)
    assert "batch·heads" in told(found, "call.1")["contraction"]


@pytest.mark.parametrize("saved", [False, True])
def test_why_of_a_row_shows_formula_and_sizes(tmp_path: Path, saved: bool) -> None:
    stats = {"hlo_op": "dot.1", "hlo_module": "jit_f"}
    events = [made.event(1, at, 1000, **stats) for at in (0, 2000)]
    device = made.plane("/device:GPU:0", ["gemm"], [made.line("Stream #7", 5, events)])
    (tmp_path / "x").write_bytes(device + metadata("jit_f(7)", dot_program()))
    report = timeroof.load(tmp_path / "x")
    if saved:
        report.save(tmp_path / "x.troof")
        report = timeroof.load(tmp_path / "x.troof")
    lines = {line.name: line for line in report.why(0).lines}
    assert lines["contraction_flops"].formula == "2·M·N·K·calls"
    assert lines["contraction_flops"].sizes == {"M": 4, "N": 16, "K": 8, "calls": 2}
    assert lines["byte/dram"].formula == "(4·M·K + 4·K·N + 4·M·N)·calls"
    assert "compiled program (HLO)" in str(lines["byte/dram"].source)
