"""Nsight Compute's own percentages settle the limiter where a file has no amounts."""

from __future__ import annotations

from pathlib import Path

import pytest

import timeroof
from tests.read.test_ncu import write_long
from tests.recorded_data import DATA, needs_recorded_data
from timeroof.core.report import Report

TIME_NS = 100_000
PEAK = "avg.pct_of_peak_sustained_elapsed"
SM, MEMORY = f"sm__throughput.{PEAK}", f"gpu__compute_memory_throughput.{PEAK}"
DRAM, L2 = f"dram__throughput.{PEAK}", f"lts__throughput.{PEAK}"


def judged(folder: Path, percentages: dict[str, float], machine: str | None = None) -> Report:
    rows = [(0, "k", "gpu__time_duration.sum", "ns", TIME_NS)]
    rows += [(0, "k", metric, "%", share) for metric, share in percentages.items()]
    path = write_long(folder / "x.csv", rows)
    report = timeroof.load(path)
    return timeroof.analyze(report.profile, machine) if machine else report


@pytest.mark.parametrize("machine", [None, "h100-sxm"])
@pytest.mark.parametrize(
    ("percentages", "limiter", "busy"),
    [
        ({SM: 22.0, MEMORY: 89.0}, "pipe/memory", 0.89),
        ({SM: 71.0, MEMORY: 30.0}, "pipe/compute", 0.71),
        ({SM: 40.0, MEMORY: 59.0}, "latency", 0.59),
        ({SM: 22.0, DRAM: 30.0, L2: 80.0}, "pipe/memory", 0.80),
        # The names of sections, over the years.
        ({"Compute (SM) Throughput": 10.0, "Memory Throughput": 70.0}, "pipe/memory", 0.70),
        ({"SOL SM": 80.0, "SOL Memory": 20.0}, "pipe/compute", 0.80),
    ],
)
def test_the_busier_pipe_limits_and_neither_below_60_percent(
    tmp_path: Path, percentages: dict[str, float], limiter: str, busy: float, machine: str | None
) -> None:
    report = judged(tmp_path, percentages, machine)
    row = report.rows.row(0, named=True)
    assert row["limiter"] == limiter
    assert row["bound_s"] == pytest.approx(busy * TIME_NS * 1e-9)
    assert row["efficiency"] == pytest.approx(busy)
    assert row["origin.pipe/compute"] == "measured"
    # A percentage is no amount: nothing becomes known by it.
    assert report.totals.known_time_share == 0
    kind = limiter.removeprefix("pipe/")
    assert report.totals.by_limiter[kind] == pytest.approx(TIME_NS * 1e-9)


@pytest.mark.parametrize(
    ("percentages", "limiter"), [({SM: 70.0}, "unknown"), ({SM: 95.0}, "pipe/compute")]
)
def test_one_percentage_alone_must_explain_nearly_all_of_the_time(
    tmp_path: Path, percentages: dict[str, float], limiter: str
) -> None:
    assert judged(tmp_path, percentages).rows["limiter"].to_list() == [limiter]


def test_amounts_that_are_known_come_before_percentages(tmp_path: Path) -> None:
    letters = {"d": "fp64", "f": "fp32", "h": "fp16"}
    rows = [(0, "k", "gpu__time_duration.sum", "ns", TIME_NS), (0, "k", SM, "%", 90.0)]
    rows += [(0, "k", MEMORY, "%", 10.0), (0, "k", "dram__bytes.sum", "byte", 80_000_000)]
    rows += [
        (0, "k", f"sm__sass_thread_inst_executed_op_{a}{op}_pred_on.sum", "inst", 1000)
        for a in letters
        for op in ("add", "mul", "fma")
    ]
    rows += [(0, "k", "sm__inst_executed_pipe_tensor.sum", "inst", 0)]
    path = write_long(tmp_path / "x.csv", rows, capability="7.0")
    report = timeroof.analyze(timeroof.load(path).profile, "v100-sxm2")
    assert report.rows["limiter"].to_list() == ["byte/dram"]


def test_a_unit_tells_a_rate_from_a_percentage_of_the_same_name(tmp_path: Path) -> None:
    rows = [
        (0, "k", "Duration", "usecond", 100.0),
        (0, "k", "Memory Throughput", "Gbyte/second", 500.0),
        (0, "k", "Memory Throughput", "%", 64.0),
        (0, "k", "Compute (SM) Throughput", "%", 8.0),
    ]
    row = timeroof.load(write_long(tmp_path / "x.csv", rows)).rows.row(0, named=True)
    assert row["byte/dram"] == pytest.approx(500e9 * 1e-4)
    assert row["pipe/memory"] == pytest.approx(0.64e-4)


@needs_recorded_data
@pytest.mark.parametrize(
    ("file", "machine", "limiter"),
    [
        ("ncu/h800_cute_softmax_ui_transposed.csv", None, "pipe/memory"),
        ("ncu/rtx5070_gemm_print_units_base/gemm_naive.csv", None, "pipe/compute"),
        ("ncu/rtx5070_gemm_print_units_base/gemm_vectorized.csv", None, "pipe/compute"),
        # SM 22 %, and 607 of 672 GB/s of DRAM.
        ("ncu/rtx5070_gemm_print_units_base/saxpy.csv", "rtx-5070", "byte/dram"),
        ("ncu/rtx5090_deepseek_ocr_details/kernel_0003/ncu.details.csv", None, "pipe/memory"),
    ],
)
def test_recorded_files_with_percentages(file: str, machine: str | None, limiter: str) -> None:
    report = timeroof.load(DATA / file)
    report = timeroof.analyze(report.profile, machine) if machine else report
    assert report.rows["limiter"].unique().to_list() == [limiter]


@needs_recorded_data
def test_no_launch_with_both_percentages_is_without_a_limiter() -> None:
    seen = 0
    for path in sorted((DATA / "ncu").rglob("*")):
        if path.name not in ("ncu.details.csv", "a100_torch_square_console_details.txt"):
            continue
        rows = timeroof.load(path).rows
        both = rows.drop_nulls(["pipe/compute", "pipe/memory"])
        seen += both.height
        assert "unknown" not in both["limiter"].to_list(), path
    assert seen >= 20


@needs_recorded_data
def test_no_note_calls_flops_unknown_that_count_as_known() -> None:
    report = timeroof.load(DATA / "ncu/a100_attention_long/bert_torch_nsight.csv.gz")
    assert report.totals.known_time_share == 1.0
    assert not [n for n in report.notes if "FLOPs are unknown" in n]
