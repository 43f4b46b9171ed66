"""From a file to a judged report: calls counted, names read, the machine found."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import timeroof
from tests.recorded_data import looked_at
from timeroof.api.reports import analyze, load, machine
from timeroof.core.profile import Profile, Source
from timeroof.work.recorded import RecordedCall, call_from_kineto, with_recorded_work

GEMMS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")
SGEMM = "ampere_sgemm_128x64_tn"
TF32 = "ampere_s1688gemm_128x128_ldg8_f2f_tn"


Row = tuple[dict[str, object], RecordedCall]


def recorded(
    name: str,
    op: str,
    dims: list[list[int]],
    *,
    times: float | None = None,
    has_children: bool = False,
    **more: object,
) -> Row:
    call = call_from_kineto(op, {"Input Dims": dims, "Input type": ["float"] * len(dims)})
    row = {"name": name, "time_s": 1e-3, "op": op, "calls": 2, **more}
    return row, RecordedCall(call, times, has_children=has_children)


def rows_of(*rows: Row) -> list[dict[str, object]]:
    table = pl.DataFrame([{"id": i, **row} for i, (row, _) in enumerate(rows)])
    calls = {i: call for i, (_, call) in enumerate(rows)}
    counted = with_recorded_work(
        Profile.of(table, Source(tool="t"), calls=calls), machine("a100-sxm4-40gb")
    )
    return counted.kernels.sort("id").to_dicts()


def test_the_kernels_name_decides_the_unit() -> None:
    plain, tensor = rows_of(
        recorded(SGEMM, "aten::mm", [[64, 32], [32, 16]]),
        recorded(TF32, "aten::mm", [[64, 32], [32, 16]]),
    )
    flops = 2 * 2 * 64 * 32 * 16
    assert plain["flop/fp32"] == flops
    assert plain["flop/tf32-tensor"] == 0
    assert tensor["flop/tf32-tensor"] == flops
    assert plain["byte/dram"] == 2 * 4 * (64 * 32 + 32 * 16 + 64 * 16)
    assert plain["origin.flops"] == "counted"
    assert plain["origin.bytes/dram"] == "counted"
    assert plain["short_name"] != SGEMM


def test_of_several_kernels_of_one_call_one_has_the_counted_work() -> None:
    main, helper = rows_of(
        recorded(SGEMM, "aten::mm", [[64, 32], [32, 16]], times=2),
        recorded("splitKreduce_kernel", "aten::mm", [[64, 32], [32, 16]], times=0),
    )
    assert main["flop/fp32"] == 2 * 2 * 64 * 32 * 16
    # What the other one does, nobody recorded: not nothing, for it takes time.
    assert helper["flop/fp32"] is None
    assert helper["byte/dram"] is None


def test_measured_amounts_are_never_replaced() -> None:
    (row,) = rows_of(recorded(SGEMM, "aten::mm", [[64, 32], [32, 16]], **{"byte/dram": 7.0}))
    assert row["byte/dram"] == 7.0


def test_unknown_stays_unknown() -> None:
    odd, view = rows_of(
        recorded("k", "mylib::odd", [[64, 32]]), recorded("k2", "aten::view", [[64, 32]])
    )
    assert odd["flop/fp32"] is None
    assert odd["byte/dram"] is None
    assert view["flop/fp32"] is None


def test_a_composite_op_owes_nothing_when_its_children_are_rows() -> None:
    outer, inner = rows_of(
        recorded("aten::linear", "aten::linear", [[4, 8], [16, 8]], kind="op", has_children=True),
        recorded("aten::mm", "aten::mm", [[4, 8], [8, 16]], kind="op"),
    )
    assert outer["flop/fp32"] == 0
    assert inner["flop/fp32"] == 2 * 2 * 4 * 8 * 16


def test_rows_without_calls_only_get_names(shared_data: Path) -> None:
    report = load(shared_data / "ncu" / "v100_deepcam_pytorch_fp32-O0-Adam" / "fw", "v100-paper")
    rows = report.rows
    assert rows["calls"].sum() == 633
    assert (rows["short_name"] != rows["name"]).mean() > 0.9
    assert report.totals.flops["fp32"] == 1_184_589_546_751


def test_the_h100_qwen_trace(shared_data: Path) -> None:
    report = load(shared_data / "kineto" / "h100_qwen1.5_0.5b_chat.json.gz")
    assert report.machine is not None
    assert report.machine.name == "h100-sxm"
    rows = report.rows.filter(pl.col("kind") == "kernel")
    assert rows["calls"].sum() == 1465
    assert rows["time_s"].sum() == pytest.approx(45_432.7e-6, rel=1e-5)
    linked = rows.filter(pl.col("op").is_in(GEMMS) & (pl.col("label.link") == "launch"))
    assert linked["contraction_flops"].sum() == pytest.approx(5514.537e9, rel=1e-6)
    assert report.totals.known_time_share == pytest.approx(1.0)
    assert rows["above_roof"].null_count() == rows.height


def test_every_readable_trace_can_be_judged(shared_data: Path) -> None:
    for path in looked_at("kineto/*.json.gz"):
        report = load(path)
        assert sum(report.totals.by_limiter.values()) == pytest.approx(
            report.profile.kernels["time_s"].sum()
        )
        assert report.to_json().startswith(b'{"schema":"timeroof.report/2"')


def test_a_device_that_the_catalogue_lacks_is_compared_with_one_like_it_and_a_note_says_so() -> (
    None
):
    kernels = pl.DataFrame({"name": ["k"], "time_s": [1e-3], "byte/dram": [1e6]})
    report = analyze(Profile.of(kernels, Source(tool="test"), device="NVIDIA H100"))
    assert report.machine is not None
    assert report.machine.name == "h100-sxm"
    assert "inferred-machine" in {note.code for note in report.notes}
    unlike = analyze(Profile.of(kernels, Source(tool="test"), device="Acme 7"))
    assert unlike.machine is None
    assert "unknown-device" in {note.code for note in unlike.notes}


def test_a_report_prints_the_first_lines_of_its_summary() -> None:
    rows = [{"name": "gemm", "time_s": 1.2e-3, "flop/bf16-tensor": 5.5e11, "byte/dram": 2.1e8}]
    profile = timeroof.Profile.of(rows, timeroof.Source(tool="by hand"))
    report = timeroof.analyze(profile, timeroof.machine("h100-sxm"))
    title, time, sentence = str(report).splitlines()
    assert title.startswith("by hand · NVIDIA H100")
    assert time.startswith("1.20 ms kernel time · 46 %")
    assert sentence.startswith("Compute-bound kernels take 100 %")
    assert repr(report) == "<timeroof.Report of 'by hand'; rows: 1, findings: 1>"
