"""Files that broke readers once, and files of the same shapes: read, or refused in one sentence."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.recorded_data import DATA
from timeroof.cli.main import main
from timeroof.core import run_file
from timeroof.core.profile import Profile, Source
from timeroof.core.run_file import SavedRun, save_run
from timeroof.study.store import DamagedStoreError, Store

REPROS = Path(os.environ.get("TIMEROOF_TEST_REPROS") or DATA.parent / "notes" / "fuzz_repros")
RECORDED = sorted(REPROS.iterdir()) if REPROS.is_dir() else []
HUGE = 10**400
LONGEST = 1000


def outcome(capsys: pytest.CaptureFixture[str], *words: object) -> int:
    """The exit code of a command, whose words are a message or a summary, never a traceback."""
    code = main([str(word) for word in words])
    shown = capsys.readouterr().err
    assert code in (0, 2), shown
    assert "Traceback" not in shown
    assert "internal error" not in shown
    assert "panicked" not in shown
    if code:
        assert len(shown) < LONGEST
        assert shown.count("\n") == 1
    return code


@pytest.mark.parametrize("path", RECORDED, ids=lambda p: p.name)
@pytest.mark.parametrize("command", ["read", "explain"])
def test_files_that_broke_readers_are_read_or_refused(
    path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome(capsys, command, path) in (0, 2)


def _trace(**event: Any) -> bytes:
    whole = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "pid": 0, "tid": 7}
    op = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 1, "pid": 1, "tid": 1}
    return json.dumps({"traceEvents": [whole | event, op | event]}).encode()


def _deep(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


def _run(path: Path, **changed: pl.DataFrame) -> None:
    """A saved run with one of its tables replaced."""
    rows = [{"name": "k", "time_s": 1.0}, {"name": "l", "time_s": 2.0}]
    timeline = pl.DataFrame({"start_s": [0.0], "duration_s": [1.0], "kernel": [0]})
    profile = Profile.of(rows, Source(tool="x"), wall_s=4.0, kernel_s=3.0, timeline=timeline)
    save_run(SavedRun(profile, machine=None), path)
    with zipfile.ZipFile(path) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    for name, table in changed.items():
        held = io.BytesIO()
        table.write_parquet(held)
        parts[f"{name}.parquet"] = held.getvalue()
    with zipfile.ZipFile(path, "w") as new:
        for name, data in parts.items():
            new.writestr(name, data)


def _timeline(**columns: Any) -> Callable[[Path], None]:
    usual: dict[str, Any] = {"start_s": [0.0], "duration_s": [1.0], "kernel": [0]}
    kept = {k: v for k, v in (usual | columns).items() if v is not None}
    return lambda path: _run(path, timeline=pl.DataFrame(kept))


def _kernels(**columns: Any) -> Callable[[Path], None]:
    return lambda path: _run(path, kernels=pl.DataFrame({"name": ["k"], "time_s": [1.0]} | columns))


def _parquet(**columns: Any) -> Callable[[Path], None]:
    table = pl.DataFrame({"name": ["k"], "time_s": [1.0]} | columns)

    def write(path: Path) -> None:
        table.write_parquet(path)

    return write


def _generated(path: Path) -> None:
    """Texts that the database works out when it is asked."""
    with sqlite3.connect(path) as sql:
        kernel = (
            "start, end, deviceId, streamId, correlationId, globalPid, demangledName, shortName"
        )
        sql.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({kernel})")
        sql.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 0, 7, 1, 1, 1, 1)")
        value = "value TEXT GENERATED ALWAYS AS (hex(zeroblob(240000000))) VIRTUAL"
        sql.execute(f"CREATE TABLE StringIds (id INTEGER, {value})")
        sql.execute("INSERT INTO StringIds (id) VALUES (1)")
    sql.close()


def _et(**changes: Any) -> bytes:
    node = {"id": 2, "name": "aten::mm", "ctrl_deps": 1, "inputs": {"values": [], "shapes": [], "types": []},
            "outputs": {"values": [], "shapes": [], "types": []}, "attrs": []}  # fmt: skip
    return json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": [node]} | changes).encode()


def _rocprof(**changes: Any) -> bytes:
    record = {"dispatch_info": {"kernel_id": 1, "agent_id": {"handle": 1}, "queue_id": {"handle": 1}},
              "start_timestamp": 1, "end_timestamp": 2, "correlation_id": {"internal": 1}}  # fmt: skip
    tool = {"agents": [], "kernel_symbols": [{"kernel_id": 1, "formatted_kernel_name": "k"}],
            "buffer_records": {"kernel_dispatch": [record | changes]}}  # fmt: skip
    return json.dumps({"rocprofiler-sdk-tool": [tool]}).encode()


MADE: dict[str, bytes | Callable[[Path], None]] = {
    "huge ts": _trace(ts=HUGE),
    "huge dur": _trace(dur=HUGE),
    "huge pid": _trace(pid=HUGE, tid=HUGE),
    "huge correlation": _trace(args={"correlation": HUGE, "External id": HUGE}),
    "huge sizes": _trace(args={"Input Dims": [[HUGE, 2]], "Input type": ["float", 7]}),
    "deep sizes": _trace(args={"Input Dims": _deep(900)}),
    "huge collective": _trace(
        name="ncclKernel_AllReduce", args={"In msg nelems": HUGE, "Group size": HUGE, "dtype": "Float"}
    ),
    "odd types": _trace(ts=[1], dur={"a": 1}, name=None, args=[1]),
    "et huge id": _et(nodes=[{"id": HUGE, "name": "a", "inputs": [HUGE], "outputs": []}]),
    "et schema": _et(schema="a" * 5000),
    "et nodes": _et(nodes={"a": 1}),
    "rocprof huge start": _rocprof(start_timestamp=HUGE),
    "rocprof huge end": _rocprof(end_timestamp=HUGE),
    "rocprof no info": _rocprof(dispatch_info=None),
    "ncu without values": b'"ID","Kernel Name","Metric Name"\n"0","k","x"\n',
    "ncu without kernels": b'"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n"","","","",""\n',
    "nvprof without device": b'"Kernel","Invocations","Metric Name","Avg"\n"k",1,"flop_count_sp",x\n',
    "nvprof units": b'"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,q,,q,q,q,\n"GPU activities",1,x,y,z,z,z,"k"\n',
    "nvprof console": b"==1== NVPROF is profiling\n==1== Profiling result:\n Type  Time(%)  Time  Calls  Avg  Min  Max  Name\n GPU activities: 1%  x  y  z  z  z  k\n",
    "names of Rust": b"name,time_s\n_ZN" + b"9" * 500 + b"k,1\n_Z" + b"J" * 900 + b",1\n_R" + b"N" * 900 + b",2\n",
    "binary bytes": bytes(range(256)) * 20,
    "random text": b"\x9c,\x01\xfe,\x02\n\xff\x03,\xf0" * 60,
    "categories": _parquet(calls=pl.Series(["1"], dtype=pl.Categorical)),
    "durations": _parquet(op=[dt.timedelta(1)]),
    "one resource twice": _parquet(**{"flops_fp32": [1.0], "flop/fp32": [2.0]}),
    "lists for numbers": _parquet(calls=[[1.0]]),
    "structs for texts": _parquet(op=[{"a": 1}]),
    "bytes for texts": _parquet(op=[b"\xff\xfe"]),
    "no rows": lambda path: pl.DataFrame({"name": [], "time_s": []}).write_parquet(path),
    "dangling timeline": _timeline(kernel=[99]),
    "negative timeline": _timeline(duration_s=[-1.0]),
    "endless timeline": _timeline(start_s=[float("nan")]),
    "bytes in the timeline": _timeline(start_s=[b"x"]),
    "timeline without kernels": _timeline(kernel=None),
    "timeline without starts": _timeline(start_s=None),
    "timeline without a time": _timeline(duration_s=pl.Series([None], dtype=pl.Float64)),
    "sizes without a number": _kernels(shape=[[[2, None]]]),
    "samples without a number": lambda path: _run(
        path, samples=pl.DataFrame({"id": [0], "samples": [[1.0, None]]})
    ),
    "busier than its rows": _kernels(time_s=[1e-6]),
    "lists in its rows": _kernels(time_s=[[1.0]]),
    "rows that never end": _kernels(time_s=[float("inf")]),
    "texts worked out": _generated,
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_files_of_the_same_shapes_are_read_or_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, content = tmp_path / "file", MADE[name]
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        content(path)
    outputs = ("--html", tmp_path / "page.html", "--json", tmp_path / "out.json")
    assert outcome(capsys, "read", path, *outputs) in (0, 2)
    assert outcome(capsys, "explain", path) in (0, 2)


@pytest.mark.parametrize("name", ["binary bytes", "random text"])
def test_bytes_that_are_no_text_are_called_binary_and_not_quoted(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file"
    path.write_bytes(MADE[name])  # type: ignore[arg-type]
    assert main(["read", str(path)]) == 2
    shown = capsys.readouterr().err
    assert "is a binary file" in shown
    assert shown.isascii()


def _store(path: Path) -> sqlite3.Connection:
    with Store(path):
        pass
    return sqlite3.connect(path, isolation_level=None)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE cases RENAME COLUMN samples_s TO other",
        "ALTER TABLE cases RENAME COLUMN case_key TO other",
        "PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = CAST(x'E9' AS TEXT) || sql",
    ],
)
def test_a_store_of_another_shape_is_damaged(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "store.sqlite"
    sql = _store(path)
    sql.executescript(statement)
    sql.close()
    assert "is damaged" in (_trouble(path) or "")


def _trouble(path: Path) -> str | None:
    """What reading a store says."""
    try:
        with Store(path) as store:
            store.finished()
            store.read()
    except DamagedStoreError as error:
        return error.message
    return None


@pytest.mark.parametrize("path", [p for p in RECORDED if "store" in p.name], ids=lambda p: p.name)
def test_stores_that_broke_a_study_are_read_or_refused(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    assert len(_trouble(copy) or "") < LONGEST


def test_what_is_wrong_in_a_saved_run_is_said_of_its_own_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.troof"
    _run(path, kernels=pl.DataFrame({"name": ["k"], "time_s": [-1.0]}))
    assert main(["read", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"timeroof: {path}: ")


class PanicException(BaseException):
    """What Polars raises where its Rust panics, after Rust has written its stack to stderr."""


@pytest.mark.parametrize("command", ["read", "explain"])
def test_a_panic_within_a_saved_run_is_one_line(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def panics(*_: object) -> None:
        os.write(2, b"thread '<unnamed>' panicked\nstack backtrace:\n")
        raise PanicException("called unwrap on None")

    path = tmp_path / "run.troof"
    _run(path)
    monkeypatch.setattr(run_file, "_read", panics)
    assert main([command, str(path)]) == 2
    shown = capfd.readouterr().err
    assert "called unwrap on None" in shown
    assert shown.count("\n") == 1
