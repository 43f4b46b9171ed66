"""Files that were refused or misread: RPD databases, closed formats, old marks, copy streams."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import timeroof
from tests.read.test_kineto_rows import MM, document, event, kernel, launch
from tests.read.test_xplane import event as xla_event, line, plane
from timeroof.core.errors import InputError

TABLES = """
CREATE TABLE IF NOT EXISTS "rocpd_string" ("id" integer PRIMARY KEY, "string" varchar(4096));
CREATE TABLE IF NOT EXISTS "rocpd_op" ("id" integer PRIMARY KEY, "gpuId" integer,
  "queueId" integer, "sequenceId" integer, "start" integer, "end" integer,
  "description_id" integer, "opType_id" integer);
CREATE TABLE IF NOT EXISTS "rocpd_api" ("id" integer PRIMARY KEY, "pid" integer, "tid" integer,
  "start" integer, "end" integer, "apiName_id" integer, "args_id" integer);
CREATE TABLE IF NOT EXISTS "rocpd_api_ops" ("id" integer PRIMARY KEY, "api_id" integer,
  "op_id" integer);
CREATE TABLE IF NOT EXISTS "rocpd_copyapi" ("api_ptr_id" integer PRIMARY KEY, "size" integer);
CREATE TABLE IF NOT EXISTS "rocpd_kernelapi" ("api_ptr_id" integer PRIMARY KEY, "gridX" integer,
  "gridY" integer, "gridZ" integer, "workgroupX" integer, "workgroupY" integer,
  "workgroupZ" integer);
"""
TEXTS = (
    "", "KernelExecution", "CopyHostToDevice", "FillBuffer", "Barrier", "Cijk_gemm",
    "hipLaunchKernel", "hipMemcpyAsync",
)  # fmt: skip


def write_rpd(path: Path, *, kernels: bool = True) -> Path:
    number = {text: n for n, text in enumerate(TEXTS, 1)}
    ops = [
        (1, "CopyHostToDevice", "", 1_000, 3_000),
        (3, "FillBuffer", "", 4_000, 4_500),
        (5, "Barrier", "", 30_000, 90_000),
    ]
    ops += [(2, "KernelExecution", "Cijk_gemm", 5_000, 9_000)] if kernels else []
    ops += [(4, "KernelExecution", "Cijk_gemm", 20_000, 26_000)] if kernels else []
    with sqlite3.connect(path) as database:
        database.executescript(TABLES)
        database.executemany("INSERT INTO rocpd_string VALUES (?, ?)", enumerate(TEXTS, 1))
        for n, kind, name, start, end in ops:
            row = (n, 2, 0, n, start, end, number[name], number[kind])
            database.execute("INSERT INTO rocpd_op VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        for n, name, start in ((10, "hipMemcpyAsync", 500), (11, "hipLaunchKernel", 4_800)):
            row = (n, 1, 7, start, start + 100, number[name], 1)
            database.execute("INSERT INTO rocpd_api VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        database.execute("INSERT INTO rocpd_api VALUES (12, 1, 7, 15000, 15200, 7, 1)")
        links = [(1, 10, 1), (2, 11, 2), (3, 12, 4)]
        database.executemany("INSERT INTO rocpd_api_ops VALUES (?, ?, ?)", links)
        database.execute("INSERT INTO rocpd_copyapi VALUES (10, 4096)")
        database.execute("INSERT INTO rocpd_kernelapi VALUES (11, 64, 2, 1, 256, 1, 1)")
    return path


def test_an_rpd_database_gives_kernels_copies_and_idle_time(tmp_path: Path) -> None:
    report = timeroof.load(write_rpd(tmp_path / "trace.rpd"))
    times = dict(report.rows.group_by("kind").agg(pl.col("time_s").sum()).iter_rows())
    assert times == pytest.approx({"kernel": 10e-6, "copy": 2e-6, "memset": 0.5e-6})
    copy = report.rows.row(by_predicate=pl.col("kind") == "copy", named=True)
    assert (copy["link/pcie"], copy["byte/dram"]) == (4096, 4096)
    assert report.totals.wall_s == pytest.approx(25e-6)
    assert report.totals.kernel_s == pytest.approx(12.5e-6)
    # Both kernels were launched on an idle device: gaps of 0.5 and 11 µs. Nobody launched the fill.
    assert report.totals.idle_by_cause["launch-starved"] == pytest.approx(11.5e-6)
    assert report.profile.source.tool == "rocmProfileData"


def test_an_rpd_database_without_kernels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no kernel among its ops"):
        timeroof.load(write_rpd(tmp_path / "trace.rpd", kernels=False))


@pytest.mark.parametrize(
    ("name", "what", "advice"),
    [
        ("run.nsys-rep", "report of Nsight Systems", "nsys export --type sqlite"),
        ("run.qdrep", "report of Nsight Systems", "nsys export --type sqlite"),
        ("rank0.et", "Chakra execution trace", "chakra_jsonizer"),
    ],
)
def test_closed_formats_are_named_with_a_way_out(
    tmp_path: Path, name: str, what: str, advice: str
) -> None:
    (tmp_path / name).write_bytes(b"\x08\x96\x01\x00\xfe\x00\x02binary" * 20)
    with pytest.raises(InputError) as caught:
        timeroof.load(tmp_path / name)
    assert what in str(caught.value)
    assert advice in str(caught.value)


def test_marks_that_old_traces_call_operators_are_no_ops(tmp_path: Path) -> None:
    def old(name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
        return event("Operator", name, ts, dur, **args)

    events = [
        old("ProfilerStep#5", 0, 100),
        old("aten::mm", 10, 20, **MM),
        launch(1, 12),
        kernel("sgemm", 40, 5, 1),
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document(events)))
    report = timeroof.load(path)
    row = report.rows.row(0, named=True)
    assert (row["op"], row["label.outer_op"]) == ("aten::mm", "aten::mm")
    assert report.totals.steps is not None
    assert report.totals.steps.count == 1


@pytest.mark.parametrize("stream", ["Stream #22(MemcpyOther)", "Stream #3(MemcpyD2H,MemcpyOther)"])
def test_streams_that_only_copy_hold_copies(tmp_path: Path, stream: str) -> None:
    lines = [
        line("Stream #1(Compute)", 1000, [xla_event(1, 0, 5000)]),
        line(stream, 1000, [xla_event(2, 6000, 4000)]),
    ]
    space = plane("/device:GPU:0", ["gemm", "wave_copy_engine"], lines)
    path = tmp_path / "x.xplane.pb"
    path.write_bytes(space)
    rows = timeroof.load(path).rows
    assert dict(rows.select("name", "kind").iter_rows()) == {
        "gemm": "kernel",
        "wave_copy_engine": "copy",
    }
