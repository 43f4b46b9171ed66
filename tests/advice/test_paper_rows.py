"""Findings on published measurements: the paper's passes, and DeepCAM's phases."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from timeroof.advice import advise
from timeroof.api.reports import analyze, load, machine, save
from timeroof.core.profile import LABEL, Profile, Source
from timeroof.core.report import Finding, Report
from timeroof.model.judge import RoofPair
from timeroof.model.whatif.project import project
from timeroof.study.factors.published import paper_report


@pytest.fixture(scope="module")
def paper() -> Report:
    return paper_report()


def part(paper: Report, *conditions: pl.Expr, compulsory: bool = True) -> list[Finding]:
    """Findings of some of the paper's rows, without their compulsory bytes if wanted."""
    rows = paper.profile.kernels.filter(conditions)
    assert rows.height
    if not compulsory:
        rows = rows.drop("label.compulsory_bytes")
    report = analyze(paper.profile.with_kernels(rows), paper.machine, pair=RoofPair())
    return advise(report)


def label(name: str, value: str) -> pl.Expr:
    return pl.col(f"{LABEL}{name}") == value


def test_the_label_is_input_weights_and_output_once(paper: Report) -> None:
    rows = paper.profile.kernels.filter(
        *FORWARD, *BASE, label("precision", "FP32"), label("framework", "TF1")
    )
    # 16 images of 112x112x64, 64 filters of 3x3x64, 16 outputs of 56x56x64, four bytes each.
    by_hand = 4 * (16 * 112 * 112 * 64 + 64 * 64 * 9 + 16 * 56 * 56 * 64)
    assert rows["label.compulsory_bytes"].item() == str(by_hand)
    half = paper.profile.kernels.filter(
        *FORWARD, *BASE, label("precision", "FP16"), label("framework", "PT")
    )
    by_hand = 2 * (16 * 112 * 112 * 64 + 64 * 64 * 9 + 16 * 55 * 55 * 64)
    assert half["label.compulsory_bytes"].item() == str(by_hand)
    others = paper.profile.kernels.filter(
        (pl.col("op") != "conv2d") | (pl.col("phase") != "forward")
    )
    assert others["label.compulsory_bytes"].null_count() == others.height


def test_a_saved_paper_run_tells_of_the_traffic(paper: Report, tmp_path: Path) -> None:
    save(paper, tmp_path / "paper.troof")
    findings = advise(load(tmp_path / "paper.troof"))
    traffic = next(f for f in findings if f.code == "TR202")
    named = paper.profile.kernels.filter(pl.col("id").is_in(traffic.kernels))
    assert set(named["phase"]) == {"forward"}
    tensorflow_fp32 = named.filter(label("precision", "FP32"), ~label("framework", "PT"))
    assert tensorflow_fp32.height > 0
    assert "TR101" in [f.code for f in findings]


@pytest.mark.parametrize("framework", ["TF1", "TF2"])
@pytest.mark.parametrize("precision", ["FP32", "FP16"])
@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_lstm_in_tensorflow_is_launching(
    paper: Report, framework: str, precision: str, phase: str
) -> None:
    findings = part(
        paper,
        pl.col("op") == "lstm",
        label("framework", framework),
        label("precision", precision),
        pl.col("phase") == phase,
    )
    assert findings[0].code == "TR101"
    assert findings[0].evidence["launch_bound_s"] > 0.85 * findings[0].evidence["time_s"]
    assert "keras" in str(findings[0].action)


BASE = [label("batch", "16"), label("filters", "64"), label("kernel", "3"), label("stride", "2")]
FORWARD = [pl.col("op") == "conv2d", pl.col("phase") == "forward"]


@pytest.mark.parametrize("framework", ["TF1", "TF2"])
def test_the_fp32_convolution_of_tensorflow_moves_too_much(paper: Report, framework: str) -> None:
    own = [label("framework", framework), label("precision", "FP32")]
    findings = part(paper, *FORWARD, *own, *BASE)
    assert findings[0].code == "TR202"
    assert findings[0].evidence["ratio"] > 5
    everywhere = part(paper, *FORWARD, *own)
    assert "TR202" in [f.code for f in everywhere]


def test_the_other_frameworks_tell_the_compulsory_traffic(paper: Report) -> None:
    findings = part(paper, *FORWARD, *BASE, label("precision", "FP32"), compulsory=False)
    assert findings[0].code == "TR202"
    named = paper.profile.kernels.filter(pl.col("id").is_in(findings[0].kernels))
    assert set(named["label.framework"]) == {"TF1", "TF2"}
    assert findings[0].evidence["ratio"] == pytest.approx(4.7, abs=0.1)


def test_the_fp32_convolution_of_pytorch_does_not(paper: Report) -> None:
    own = [label("framework", "PT"), label("precision", "FP32")]
    assert "TR202" not in [f.code for f in part(paper, *FORWARD, *own, *BASE)]


def test_the_fp16_convolution_of_pytorch_misses_the_matrix_units(paper: Report) -> None:
    own = [label("framework", "PT"), label("precision", "FP16"), label("stride", "1")]
    findings = part(paper, *FORWARD, *own)
    assert findings[0].code == "TR301"
    # TensorFlow takes 254 µs for it: the limit must leave room for that gain.
    assert findings[0].gain_s is not None
    assert findings[0].gain_s >= 1248e-6 - 254e-6
    hit = [label("framework", "PT"), label("precision", "FP16"), label("stride", "2")]
    assert "TR301" not in [f.code for f in part(paper, *FORWARD, *hit)]


def test_what_if_on_the_same_machine_is_what_was_measured(paper: Report) -> None:
    assert paper.machine is not None
    got = project(paper.profile, paper.machine, machine("v100-paper"))
    assert got.table["predicted_s"].to_list() == paper.profile.kernels["time_s"].to_list()
    assert got.table["low_s"].to_list() == paper.profile.kernels["time_s"].to_list()
    assert got.table["high_s"].to_list() == paper.profile.kernels["time_s"].to_list()


PHASES = {"fw": "forward", "bw": "backward", "opt": "optimizer"}


def deepcam(path: Path, framework: str, variant: str) -> Report:
    """DeepCAM's phases as rows: kernels without FLOPs apart from the others."""
    table = pl.read_csv(path).filter(
        pl.col("framework") == framework, pl.col("variant") == variant, pl.col("phase") != "fwbw"
    )
    rows = []
    for r in table.iter_rows(named=True):
        zero = {"name": f"kernels without FLOPs, {r['phase']}", "byte/dram": None}
        zero |= {"time_s": r["zero_ai_time_s"], "launches": float(r["zero_ai_launches"])}
        rest = {"name": f"kernels, {r['phase']}", "byte/dram": r["hbm_bytes"]}
        rest |= {"time_s": r["time_s"] - r["zero_ai_time_s"]}
        rest |= {"launches": float(r["launches"] - r["zero_ai_launches"])}
        rest |= {"flop/fp32": r["total_flop"] - r["tc_flop"], "flop/fp16-tensor": r["tc_flop"]}
        zero |= {"flop/fp32": 0.0, "flop/fp16-tensor": 0.0}
        rows += [{**row, "phase": PHASES[r["phase"]]} for row in (rest, zero)]
    return analyze(Profile.of(rows, Source(tool="ncu")), machine("v100-paper"))


def test_deepcam_has_an_optimizer_of_2709_launches(shared_data: Path) -> None:
    report = deepcam(shared_data / "paper" / "deepcam_phases.csv", "PyTorch", "fp32-O1-Adam")
    finding = next(f for f in advise(report) if f.code == "TR103")
    assert finding.evidence["launches"] == 2709
    assert finding.gain_s == pytest.approx(16.987e-3 - 5.28178e9 / 828.8e9)


def test_deepcam_has_a_share_without_flops(shared_data: Path) -> None:
    path = shared_data / "paper" / "deepcam_phases.csv"
    finding = next(
        f for f in advise(deepcam(path, "TF1.15", "fp16-batch2-amp")) if f.code == "TR201"
    )
    assert finding.evidence["launches"] == 1831 + 306
    assert finding.gain_s == pytest.approx(0.05958 + 0.04064)


def test_fused_lamb_is_not_accused(shared_data: Path) -> None:
    report = deepcam(shared_data / "paper" / "deepcam_phases.csv", "PyTorch", "fp32-O1-LAMB")
    assert "TR103" not in [f.code for f in advise(report)]
