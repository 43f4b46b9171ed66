"""A trace of an inference engine: every row is counted, and `why` unfolds every number of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import timeroof
from tests.kineto_events import document, kernel, launch, op
from tests.model.test_why import calculated
from timeroof.core.report import Report

BF, F8, INT, LONG = "c10::BFloat16", "c10::Float8_e4m3fn", "int", "long int"
# Per op: sizes and formats of its arguments, values of those that are none.
CALLS: tuple[tuple[str, list[tuple[list[int], str, str]]], ...] = (
    ("aiter::gemm_a8w8_blockscale_ck",
     [([32, 256], F8, ""), ([64, 256], F8, ""), ([32, 2], "float", ""), ([1, 2], "float", ""),
      ([32, 64], BF, "")]),
    ("sgl_kernel::fp8_scaled_mm",
     [([32, 256], F8, ""), ([256, 64], F8, ""), ([32, 1], "float", ""), ([64, 1], "float", ""),
      ([], "Scalar", "15"), ([], "", "")]),
    ("_C::rms_norm_dynamic_per_token_quant",
     [([8, 256], F8, ""), ([8, 256], BF, ""), ([256], BF, ""), ([8, 1], "float", ""),
      ([], "Scalar", "1e-05"), ([], "", ""), ([8, 256], BF, "")]),
    ("aiter::rmsnorm2d_fwd_with_add_ck",
     [([8, 256], BF, "")] * 4 + [([256], BF, ""), ([], "Scalar", "1e-05")]),
    ("vllm::triton_per_token_group_quant_fp8", [([8, 250], BF, ""), ([], "Scalar", "128")]),
    ("sgl_kernel::silu_and_mul", [([8, 64], BF, ""), ([8, 128], BF, "")]),
    ("aiter::mha_varlen_fwd",
     [([128, 8, 32], BF, ""), ([128, 2, 32], BF, ""), ([128, 2, 32], BF, ""), ([3], INT, ""),
      ([3], INT, ""), ([], "Scalar", "64"), ([], "Scalar", "64"), ([], "Scalar", "0."),
      ([], "Scalar", "0.125"), ([], "Scalar", "False"), ([], "Scalar", "True"),
      ([], "Scalar", "16"), ([], "Scalar", "0")]),
    ("aiter::ck_moe_stage1",
     [([10, 16], F8, ""), ([8, 64, 16], F8, ""), ([8, 16, 32], F8, ""), ([40], INT, ""),
      ([8], INT, ""), ([1], INT, ""), ([10, 3, 32], BF, ""), ([], "Scalar", "3")]),
    ("aiter::fmoe_g1u1",
     [([10, 16], BF, ""), ([10, 16], F8, ""), ([8, 64, 16], F8, ""), ([8, 16, 32], F8, ""),
      ([40], INT, ""), ([40], "float", ""), ([8], INT, ""), ([1], INT, ""),
      ([], "Scalar", "3")]),
    ("_C::gptq_marlin_gemm",
     [([8, 256], BF, ""), ([], "", ""), ([16, 128], INT, ""), ([2, 64], BF, ""),
      ([], "Scalar", "8"), ([], "Scalar", "64"), ([], "Scalar", "256")]),
    ("sgl_kernel::apply_rope_pos_ids_cos_sin_cache",
     [([4, 64], BF, ""), ([4, 16], BF, ""), ([4, 64], BF, ""), ([4, 16], BF, ""),
      ([128, 32], "float", ""), ([4], LONG, "")]),
    ("fbgemm::split_embedding_backward_codegen_sgd_unweighted_exact_cuda",
     [([3, 16], "float", ""), ([1600], "float", ""), ([0], "float", ""), ([0, 0], "float", ""),
      ([2], INT, ""), ([2], LONG, ""), ([3], INT, ""), ([], "Scalar", "8"), ([3], LONG, ""),
      ([], "Scalar", "9"), ([10], LONG, ""), ([7], LONG, ""), ([], "Scalar", "0")]),
)  # fmt: skip
UNKNOWN = "aiter::pa_fwd_asm"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    events: list[dict[str, Any]] = []
    for i, (name, arguments) in enumerate((*CALLS, (UNKNOWN, [([4, 8, 64], BF, "")]))):
        shown = {
            "Input Dims": [a[0] for a in arguments],
            "Input type": [a[1] for a in arguments],
            "Concrete Inputs": [a[2] for a in arguments],
        }
        place = 100 * i
        events += [op(name, place, 50, **shown), launch(i + 1, place + 5)]
        events.append(kernel(f"kernel_{i}", place + 20, 60, i + 1))
    path: Path = tmp_path_factory.mktemp("engines") / "trace.json"
    device = [{"id": 0, "name": "AMD Instinct MI355X"}]
    path.write_text(json.dumps(document(events, deviceProperties=device)))
    return timeroof.load(path)


def test_every_op_is_counted(report: Report) -> None:
    known = {r["op"]: r["byte/dram"] for r in report.rows.iter_rows(named=True)}
    assert set(known) == {name for name, _ in CALLS} | {UNKNOWN}
    assert [name for name, moved in known.items() if not moved] == [UNKNOWN]


def test_every_number_is_unfolded(report: Report) -> None:
    formulas = 0
    for row in report.rows.iter_rows(named=True):
        for line in report.why(row["id"]).lines:
            if line.value is None:
                assert line.unknown
            elif line.formula is not None:
                value = calculated(line.formula, line.sizes)
                assert math.isclose(value, line.value, rel_tol=1e-9, abs_tol=1e-15), line
                formulas += line.name == "byte/dram" and bool(line.sizes)
    assert formulas == len(CALLS)


def test_what_hides_its_sizes_says_so(report: Report) -> None:
    row = next(r for r in report.rows.iter_rows(named=True) if r["op"] == UNKNOWN)
    assert row["limiter"] == "unknown"
    said = [line.unknown for line in report.why(row["id"]).lines if line.name == "byte/dram"]
    assert "cached contexts" in str(said)
