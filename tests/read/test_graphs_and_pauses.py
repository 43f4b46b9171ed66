"""Whose a gap is beside replayed graphs, and pauses that no step can give back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import timeroof
from tests.kineto_events import document, event, kernel, launch
from timeroof.core.report import Report


def load(folder: Path, events: list[dict[str, Any]], **top: Any) -> Report:
    path = folder / "trace.json"
    path.write_text(json.dumps(document(events, **top)))
    return timeroof.load(path)


def graph(correlation: int, ts: float) -> dict[str, Any]:
    return launch(correlation, ts, name="cudaGraphLaunch")


def test_a_gap_before_the_first_recorded_kernel_of_a_graph_is_unknown(tmp_path: Path) -> None:
    # The graph is queued long before the device runs dry; its first kernels are not in the trace.
    events = [launch(1, 0), kernel("a", 10, 90, 1), graph(2, 20), kernel("b", 600, 10, 2)]
    causes = load(tmp_path, events).totals.idle_by_cause
    assert causes == {"unknown": pytest.approx(500e-6)}


def test_a_gap_after_a_graph_without_kernels_is_unknown(tmp_path: Path) -> None:
    events = [launch(1, 0), kernel("a", 10, 90, 1), graph(7, 20), launch(2, 30)]
    events.append(kernel("b", 600, 10, 2))
    causes = load(tmp_path, events).totals.idle_by_cause
    assert causes == {"unknown": pytest.approx(500e-6)}


def test_the_same_gap_without_a_graph_is_the_device_s(tmp_path: Path) -> None:
    events = [launch(1, 0), kernel("a", 10, 90, 1), launch(2, 30), kernel("b", 600, 10, 2)]
    causes = load(tmp_path, events).totals.idle_by_cause
    assert causes == {"device": pytest.approx(500e-6)}


def test_a_pause_before_a_step_is_not_recoverable(tmp_path: Path) -> None:
    mm = {"Input Dims": [[512, 512], [512, 512]], "Input type": ["float", "float"]}
    events = [
        launch(1, 0), kernel("warm", 10, 100, 1),
        # Half a second of loading a checkpoint, then one step.
        event("user_annotation", "ProfilerStep#1", 500_000, 1000),
        event("cpu_op", "aten::mm", 500_010, 50, **mm), launch(2, 500_020),
        kernel("ampere_sgemm_128x64_nn", 500_100, 400, 2),
    ]  # fmt: skip
    device = [{"id": 0, "name": "NVIDIA A100-SXM4-40GB"}]
    report = load(tmp_path, events, deviceProperties=device)
    totals = report.totals
    assert totals.steps is not None
    assert totals.steps.pause_s == pytest.approx(0.499890)
    assert totals.wall_s == pytest.approx(0.500490)
    assert totals.ladder.measured_s == pytest.approx(600e-6)
    assert totals.recoverable_s is not None
    assert totals.recoverable_s < 600e-6
    # The pause is in the run's idle time, in no row and in no finding.
    assert sum(totals.idle_by_cause.values()) == pytest.approx(0.499990)
    assert sum(totals.steps.pause_by_cause.values()) == pytest.approx(0.499890)
    product = report.rows.filter(report.rows["op"] == "aten::mm").row(0, named=True)
    assert product["idle_before_s"] == pytest.approx(100e-6)
    assert product["gap_s"] < 500e-6
    assert all((f.gain_s or 0.0) <= 600e-6 for f in report.findings)


def test_a_program_that_replays_graphs_is_not_told_to_use_them(tmp_path: Path) -> None:
    def advice(first: dict[str, Any], second: dict[str, Any]) -> str:
        mm = {"Input Dims": [[8, 8], [8, 8]], "Input type": ["float", "float"]}
        events = [event("cpu_op", "aten::mm", 0, 5, **mm), first, kernel("a", 10, 200, 1), second]
        events += [kernel("b", 1010, 200, 2), event("cpu_op", "aten::mm", 995, 20, **mm)]
        device = [{"id": 0, "name": "NVIDIA A100-SXM4-40GB"}]
        report = load(tmp_path, events, deviceProperties=device)
        return next(f.action for f in report.findings if f.code == "TR104")

    assert "CUDA graphs" in advice(launch(1, 1), launch(2, 1000))
    replayed = advice(graph(1, 1), graph(2, 1000))
    assert "CUDA graphs" not in replayed
    assert "replayed already" in replayed
