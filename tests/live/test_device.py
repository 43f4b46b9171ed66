"""GPU programs: recorded traces as if the steps of a running program had left them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.recorded_data import DATA
from timeroof.api.live import report_of, with_compiled
from timeroof.api.reports import load
from timeroof.live.recording import CleanStep, CompiledKernel, KernelArgument, LoopOp, Recording

KINETO = DATA / "kineto"


def recorded(*names: str) -> Recording:
    paths = [KINETO / name for name in names]
    for path in paths:
        if not path.exists():
            pytest.skip(f"{path.name} is not here")
    steps = [CleanStep(20_000_000 + i, 0) for i in range(5)]
    return Recording(
        clean=steps,
        frameworks=[("torch", "2.9")],
        uses_gpu=True,
        steps_seen=12,
        rank=3,
        device_traces=paths,
    )


def test_device_kernels_are_those_of_the_file() -> None:
    recording = recorded("h100_bert_small_infer.json.gz")
    live = report_of(recording)
    read = load(recording.device_traces[0])
    assert live.machine is not None
    assert live.machine.name == read.machine.name  # type: ignore[union-attr]
    ours, theirs = live.profile.kernels, read.profile.kernels
    assert ours["name"].to_list() == theirs["name"].to_list()
    assert ours["time_s"].sum() == pytest.approx(theirs["time_s"].sum())
    assert live.totals.known_time_share == read.totals.known_time_share
    assert set(ours["rank"].to_list()) == {3}
    assert live.profile.steps is not None
    assert live.profile.steps.unprofiled_s == pytest.approx(0.020, rel=1e-3)
    assert live.profile.source.tool == "timeroof run"
    totals = live.totals
    assert totals.wall_s == live.profile.steps.unprofiled_s
    assert totals.kernel_s == pytest.approx(read.totals.kernel_s)
    assert "profiler" not in totals.idle_by_cause
    parts = (totals.kernel_s, totals.idle_s, totals.unexplained_s)
    assert sum(part or 0.0 for part in parts) == pytest.approx(totals.wall_s)


def test_a_partial_run_says_so() -> None:
    recording = recorded("h100_bert_small_infer.json.gz")
    recording.partial = "it raised ValueError"
    assert any("Partial" in note for note in report_of(recording).notes)


def test_a_named_machine_wins() -> None:
    live = report_of(recorded("h100_bert_small_infer.json.gz"), "a100-sxm4-80gb")
    assert live.machine is not None
    assert live.machine.name == "a100-sxm4-80gb"


def test_a_trace_without_kernels_is_no_device_run() -> None:
    recording = recorded("a100_cpu_ops_only_no_gpu.json.gz")
    report = report_of(recording, "v100-paper")
    assert len(report.profile) == 0


def test_triton_kernels_get_the_amounts_of_their_code() -> None:
    report = load(recorded("mi300x_torch_compile_triton.json.gz").device_traces[0])
    name = next(n for n in report.profile.kernels["name"].to_list() if n.startswith("triton_"))
    kernel = CompiledKernel(
        name=name,
        ops=("aten::add", "aten::relu"),
        work=((LoopOp("aten::add", "torch.float32", 2), 1000),),
        products=(),
        arguments=(KernelArgument(4000, 0, 4000), KernelArgument(0, 4000, 4000)),
        module="layer",
        source=None,
        phase="forward",
    )
    rows = with_compiled(report.profile, [kernel], None).kernels.filter(pl.col("name") == name)
    calls = rows["calls"].sum()
    assert rows["flop/fp32"].sum() == 1000 * calls
    assert rows["byte/dram"].sum() == 8000 * calls
    assert set(rows["op"].to_list()) == {"aten::add + aten::relu"}
    # Two kernels of one name: nobody knows which one it was.
    same = with_compiled(report.profile, [kernel, kernel], None)
    assert same.kernels.equals(report.profile.kernels)


def test_a_step_is_saved_as_a_trace_that_files_can_have(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from timeroof_recorder.torch.timing import DevicePass, device_activities

    assert device_activities() == set() or torch.cuda.is_available()

    device = DevicePass()
    assert device.start(set()) is False
    assert device.start(device_activities(), on_cpu=True)
    torch.ones(8, 8) @ torch.ones(8, 8)
    path = tmp_path / "trace.json"
    assert device.stop(str(path))
    found = load(path)
    assert "aten::mm" in found.profile.kernels["name"].to_list()
