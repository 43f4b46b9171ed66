"""Files that were refused or misread: RPD databases, closed formats, old marks, copy streams."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import timeroof
from tests.kineto_events import document, event, kernel, launch
from tests.read.test_kineto_rows import MM
from tests.read.test_nsys_sqlite import write_export
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


def put_nsys(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """An nsys that is a script of ours, first on the path."""
    tool = folder / "bin" / "nsys"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")


def test_a_report_of_nsys_is_exported_by_nsys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "run.nsys-rep"
    report.write_bytes(b"\x00closed")
    exported = write_export(tmp_path / "made.sqlite")
    # nsys export --type sqlite --force-overwrite true --output TARGET REPORT
    put_nsys(tmp_path, monkeypatch, f'[ "$8" = "{report}" ] && cp "{exported}" "$7"')
    read, plain = timeroof.load(report), timeroof.load(exported)
    assert read.rows["time_s"].to_list() == plain.rows["time_s"].to_list()
    assert [file.name for file in read.profile.source.files] != ["report.sqlite"]


def test_a_report_that_nsys_refuses_is_refused_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "run.nsys-rep"
    report.write_bytes(b"\x00closed")
    put_nsys(tmp_path, monkeypatch, "echo 'made by a newer version' >&2; exit 1")
    with pytest.raises(InputError, match="made by a newer version"):
        timeroof.load(report)


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low]) if not rest else bytes([low | 0x80]) + varint(rest)


def part(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def chakra_node(node: int, name: str, kind: int, us: int, *, cpu: bool, parent: int = 0) -> bytes:
    """A node as Chakra's converter writes it."""
    attributes = [part(1, b"is_cpu_op") + part(27, int(cpu))]
    attributes += [] if cpu else [part(1, b"stream") + part(9, 7)]
    depends = part(4, varint(parent)) if parent else b""
    fixed = part(1, node) + part(2, name.encode()) + part(3, kind) + depends + part(7, us)
    return fixed + b"".join(part(10, attribute) for attribute in attributes)


def test_a_chakra_trace_in_protobuf_is_read(tmp_path: Path) -> None:
    messages = [
        part(1, b"0.0.4"),
        chakra_node(1, "aten::mm", 4, 12, cpu=True),
        chakra_node(2, "sgemm_128", 4, 300, cpu=False, parent=1),
        chakra_node(3, "sgemm_128", 4, 200, cpu=False, parent=1),
        chakra_node(4, "ncclDevKernel_AllReduce", 7, 1000, cpu=False),
        chakra_node(5, "Memcpy HtoD", 4, 9, cpu=False),
    ]
    whole = b"".join(varint(len(message)) + message for message in messages)
    path = tmp_path / "rank0.et"
    path.write_bytes(whole)
    report = timeroof.load(path)
    rows = {row["name"]: row for row in report.rows.iter_rows(named=True)}
    assert len(rows) == 3
    assert (rows["sgemm_128"]["op"], rows["sgemm_128"]["calls"]) == ("aten::mm", 2)
    assert rows["sgemm_128"]["time_s"] == pytest.approx(500e-6)
    assert rows["sgemm_128"]["stream"] == "7"
    assert rows["ncclDevKernel_AllReduce"]["kind"] == "collective"
    assert rows["Memcpy HtoD"]["kind"] == "copy"
    path.write_bytes(whole[:-5])
    with pytest.raises(InputError, match="cut or damaged"):
        timeroof.load(path)


def test_a_chakra_trace_without_durations_is_refused(tmp_path: Path) -> None:
    messages = [part(1, b"0.0.4"), chakra_node(1, "aten::mm", 4, 12, cpu=True)]
    path = tmp_path / "rank0.et"
    path.write_bytes(b"".join(varint(len(message)) + message for message in messages))
    with pytest.raises(InputError, match="without a device node"):
        timeroof.load(path)


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


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("run.pftrace", b"\n\x10\x00\x01packets", "Perfetto.*rocprofv3 --output-format json"),
        ("table.txt", b"Name    Self CPU %    Self CPU\naten::mm  1.00%\n", "export_chrome_trace"),
    ],
)
def test_what_is_no_trace_says_which_one_to_record(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        timeroof.load(path)
