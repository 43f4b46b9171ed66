"""Copies by the names that profilers give them: which way they go, and what that moves."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import timeroof
from tests.kineto_events import document, event, launch, op
from timeroof.read.events import copy_bytes

SIZE = 4096.0


@pytest.mark.parametrize(
    ("name", "link", "dram"),
    [
        ("Memcpy HtoD (Pageable -> Device)", SIZE, SIZE),
        ("[CUDA memcpy Device-to-Host]", SIZE, SIZE),
        ("CopyHostToDevice", SIZE, SIZE),
        ("device_to_host", SIZE, SIZE),
        # Level Zero: M is the host's memory.
        ("zeCommandListAppendMemoryCopy(M2D)", SIZE, SIZE),
        ("MemcpyD2H", SIZE, SIZE),
        ("[CUDA memcpy HtoA]", SIZE, SIZE),
        ("Memcpy DtoD (Device -> Device)", 0.0, 2 * SIZE),
        ("CopyDeviceToDevice", 0.0, 2 * SIZE),
        ("Memcpy PtoP (Device -> Device)", 0.0, SIZE),
        ("FillBuffer", 0.0, SIZE),
        # Nobody knows, and unknown is not 0.
        ("Memcpy HtoH (Pageable -> Pinned)", None, None),
        ("Copy", None, None),
    ],
)
def test_names_tell_the_way(name: str, link: float | None, dram: float | None) -> None:
    table = pl.DataFrame({"name": [name], "size": [SIZE]})
    moved = table.select(*(e.alias(c) for e, c in zip(copy_bytes(pl.col("size"), pl.col("name")), "ld", strict=True)))  # fmt: skip
    assert moved.row(0) == (link, dram)


@pytest.mark.parametrize(
    ("name", "limiter"), [("CopyHostToDevice", "link/pcie"), ("Copy", "unknown")]
)
def test_a_copy_of_roctracer_is_bound_by_its_link(tmp_path: Path, name: str, limiter: str) -> None:
    # HIP says the size at the call.
    call = launch(1, 0, name="hipMemcpyWithStream")
    call["args"]["size"] = 10**7
    copy = event("gpu_memcpy", name, 10, 500, 3, 2, device=2, stream=3, correlation=1)
    events = [op("aten::copy_", 0, 20), call, copy]
    device = [{"id": 2, "name": "AMD Instinct MI300X"}]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(document(events, deviceProperties=device)))
    row = timeroof.load(path).rows.row(0, named=True)
    assert row["limiter"] == limiter
    assert row["link/pcie"] == (10**7 if limiter != "unknown" else None)


def test_what_a_viewer_derives_from_streams_is_not_read_twice(tmp_path: Path) -> None:
    """A GPU's "XLA Ops" are its streams once more; a TPU has nothing else."""

    def named(what: str, pid: int, tid: int, name: str) -> dict[str, object]:
        return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}

    def ran(name: str, pid: int, tid: int) -> dict[str, object]:
        return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": 1000, "dur": 100, "args": {}}

    events = [
        named("process_name", 1, 0, "/device:GPU:0"),
        named("thread_name", 1, 13, "Stream #13(Compute)"),
        named("thread_name", 1, 21, "XLA Ops"),
        named("process_name", 3, 0, "/device:TPU:0"),
        named("thread_name", 3, 3, "XLA Ops"),
        ran("gemm_fusion_dot_3", 1, 13), ran("gemm_fusion_dot.3", 1, 21), ran("fusion.7", 3, 3),
    ]  # fmt: skip
    path = tmp_path / "t.trace.json"
    path.write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": events}))
    rows = timeroof.load(path).rows
    assert sorted(rows["name"]) == ["fusion.7", "gemm_fusion_dot_3"]
