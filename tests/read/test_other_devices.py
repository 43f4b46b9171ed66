"""Timelines of other vendors' tools in Chrome's format: which events are work of a device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import timeroof
from tests.kineto_events import event
from timeroof.core.report import Report


def named(what: str, pid: object, name: str, tid: object = 0) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def ran(
    name: str, pid: object, tid: object, ts: object, dur: object, **args: Any
) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def read(folder: Path, document: object) -> Report:
    path = folder / "trace.json"
    path.write_text(json.dumps(document))
    return timeroof.load(path)


def classes_us(report: Report) -> dict[str, float]:
    return {name: pytest.approx(s * 1e6) for name, s in report.totals.by_class.items() if s}


def test_tasks_of_an_ascend_npu(tmp_path: Path) -> None:
    """`torch_npu`: texts for times, tasks without a category, collectives in their own process."""
    report = read(tmp_path, [
        named("process_name", 4, "Ascend Hardware"), named("process_name", 5, "Communication"),
        event("cpu_op", "aten::mm", 100, 50, pid=2),
        event("async_npu", "torch_to_npu", 101, 0, pid=2),
        ran("aclnnMatmul", 3, 9, "110.000", 20, Mode="node"),
        ran("aclnnMatmul_MatMulV3", 4, 2, "200.250", 40.5, **{"Task Type": "AI_CORE"}),
        ran("hcom_allReduce__1", 5, 1, "250.000", 100),
        ran("EVENT_WAIT", 4, 2, "250.000", 50, **{"Task Type": "EVENT_WAIT"}),
        ran("MEMCPY_ASYNC", 4, 3, "360", 10, **{"Task Type": "MEMCPY_ASYNC"}),
        # What the viewer derives.
        ran("Computing", 6, 0, "200.250", 40.5), ran("Communication", 6, 1, "250", 100),
    ])  # fmt: skip
    assert report.totals.wall_s == pytest.approx(169.75e-6)
    expected = {"unknown": 40.5, "communication": 100.0, "copy": 10.0, "idle.unknown": 19.25}
    assert expected == classes_us(report)


def test_a_timeline_of_rocprof_has_its_gpu_s_queues_and_copies(tmp_path: Path) -> None:
    report = read(tmp_path, {"traceEvents": [
        named("process_name", "6", "GPU0"), named("process_name", "2", "CPU HIP API"),
        named("process_name", "1", "COPY"),
        ran("hipLaunchKernel", "2", "1", "100", "5"),
        ran("Cijk_A.kd", "6", "0", "110", "50"), ran("CopyHostToDevice", "1", "0", "170", "20"),
    ]})  # fmt: skip
    assert classes_us(report) == {"unknown": 50.0, "copy": 20.0, "idle.unknown": 10.0}
    assert report.totals.wall_s == pytest.approx(80e-6)


def test_a_timeline_of_level_zero_has_kernels_and_copies(tmp_path: Path) -> None:
    work = (
        ("gemm_kernel[SIMD32]", 100, 50),
        ("zeCommandListAppendMemoryCopy(M2D)[64 bytes]", 170, 20),
    )
    events = [event("gpu_op", name, ts, dur, 1, 1) for name, ts, dur in work]
    calls = [event("cpu_op", "zeCommandListAppendLaunchKernel", 90, 5, 9, 2)]
    report = read(tmp_path, {"traceEvents": [*calls, *events]})
    kinds = dict(report.rows.select("kind", "time_s").iter_rows())
    assert kinds == {"kernel": pytest.approx(50e-6), "copy": pytest.approx(20e-6)}


def test_what_a_viewer_derives_from_streams_is_not_read_twice(tmp_path: Path) -> None:
    """A GPU's "XLA Ops" are its streams once more; a TPU has nothing else."""
    events = [
        named("process_name", 1, "/device:GPU:0"), named("process_name", 3, "/device:TPU:0"),
        named("thread_name", 1, "Stream #13(Compute)", 13), named("thread_name", 1, "XLA Ops", 21),
        named("thread_name", 3, "XLA Ops", 3), named("thread_name", 3, "Steps", 1),
        ran("gemm_fusion_dot_3", 1, 13, 1000, 100), ran("gemm_fusion_dot.3", 1, 21, 1000, 100),
        ran("fusion.7", 3, 3, 1000, 100), ran("0", 3, 1, 1000, 100), ran("nameless", 3, 77, 1000, 9),
    ]  # fmt: skip
    rows = read(tmp_path, {"displayTimeUnit": "ns", "traceEvents": events}).rows
    assert sorted(rows["name"]) == ["fusion.7", "gemm_fusion_dot_3"]


def test_a_timeline_of_tensorflow_1_has_one_device(tmp_path: Path) -> None:
    """A process per stream, one of all streams, one of copies, and the host's ops of the device."""
    gpu = "/device:GPU:0"
    report = read(tmp_path, {"traceEvents": [
        named("process_name", 1, f"/job:localhost/replica:0/task:0{gpu} Compute"),
        named("process_name", 3, f"{gpu}/stream:all Compute"),
        named("process_name", 5, f"{gpu}/stream:22 Compute"),
        named("process_name", 7, f"{gpu}/memcpy Compute"),
        ran("MatMul", 1, 0, 100, 5), ran("MatMul", 3, 0, 110, 50), ran("MatMul", 5, 0, 110, 50),
        ran("Relu", 3, 0, 170, 20), ran("Relu", 5, 0, 170, 20), ran("MEMCPYHtoD", 7, 0, 100, 5),
    ]})  # fmt: skip
    assert classes_us(report) == {"unknown": 70.0, "copy": 5.0, "idle.unknown": 15.0}
    assert report.rows.select("name", "stream").rows() == [
        ("MatMul", "stream:22"), ("Relu", "stream:22"), ("MEMCPYHtoD", "memcpy"),
    ]  # fmt: skip


def test_a_tpu_s_loops_hold_the_ops_that_they_run(tmp_path: Path) -> None:
    report = read(tmp_path, {"displayTimeUnit": "ns", "traceEvents": [
        named("process_name", 3, "/device:TPU:0"), named("thread_name", 3, "XLA Ops", 3),
        ran("while.1", 3, 3, 1000, 100), ran("fusion.7", 3, 3, 1010, 40),
        ran("all-gather.2", 3, 3, 1060, 30),
    ]})  # fmt: skip
    assert classes_us(report) == {"unknown": 70.0, "communication": 30.0}
    times = dict(report.rows.select("name", pl.col("time_s") * 1e6).iter_rows())
    assert times == pytest.approx({"while.1": 30.0, "fusion.7": 40.0, "all-gather.2": 30.0})
