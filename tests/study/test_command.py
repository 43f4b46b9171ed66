"""`timeroof study` from the outside: killed, stopped, resumed, and read by others."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from tests.conftest import make_machine
from timeroof.core.machine import Ceiling, MemoryLevel, machine_toml
from timeroof.probe import measure as kept_measurements
from timeroof.probe.measure import current_fingerprint
from timeroof.probe.sampling import Measurement

pytest.importorskip("torch")

# Whole programs, seconds each.
pytestmark = pytest.mark.slow
SIZES = [str(1 << p) for p in range(4, 12)]
TINY = ["elementwise", "--set", f"elements={','.join(SIZES)}", "--pass", "forward", "--quick"]


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that was measured before, so that no test measures this one."""
    monkeypatch.setenv("TIMEROOF_HOME", str(tmp_path / "home"))
    ceilings = [
        Ceiling(resource=r, rate=v, origin="measured", scope=s)
        for r, v in (("flop/fp32", 1e13), ("byte/dram", 1e12), ("byte/l1", 1e13), ("fault", 1e9))
        for s in ("all", "core")
    ]
    machine = make_machine(
        name="here",
        ceilings=[*ceilings, Ceiling(resource="launch", rate=1e9, origin="measured")],
        memory=[
            MemoryLevel(level="l3", size_bytes=1 << 21),
            MemoryLevel(level="dram", size_bytes=1 << 34),
        ],
        launching="synchronous",
    )
    kept_measurements.save(
        Measurement(machine=machine, quick=True, fingerprint=current_fingerprint())
    )


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "timeroof", "study", *words]


def study(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), capture_output=True, text=True, check=False)


def rows(path: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(path) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return file.execute("SELECT params, status FROM cases").fetchall()


def is_whole(path: Path) -> bool:
    found = rows(path)
    sizes = sorted(json.loads(p)["elements"] for p, _ in found)
    return sizes == sorted(map(int, SIZES)) and {s for _, s in found} == {"done"}


@pytest.mark.slow
@pytest.mark.long
def test_killed_again_and_again_every_case_is_there_once(measured: None, tmp_path: Path) -> None:
    db = tmp_path / "a.sqlite"
    pause = random.Random(7)
    words = [*TINY, "--db", str(db), "--resume", "--json", str(tmp_path / "a.json")]
    for _ in range(4):
        process = subprocess.Popen(
            command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(pause.uniform(1.0, 4.5))
        process.kill()
        process.wait()
        if db.exists():
            rows(db)
    done = study(*words)
    assert done.returncode == 0, done.stderr
    assert is_whole(db)


@pytest.mark.slow
def test_several_frameworks_lose_nothing_and_a_case_that_one_refuses_is_a_row(
    measured: None, tmp_path: Path
) -> None:
    pytest.importorskip("jax", reason="JAX is not installed")
    db = tmp_path / "a.sqlite"
    words = ["lstm", "softmax", "--framework", "torch,jax", "--pass", "forward", "--quick",
             "--set", "batch=2", "--set", "time_steps=2,4", "--set", "rows=8",
             "--db", str(db), "--resume", "--json", str(tmp_path / "a.json")]  # fmt: skip
    process = subprocess.Popen(
        command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    end = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < end and not (db.exists() and _count(db)):
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert (kept := _count(db)) > 0
    done = study(*words)
    assert done.returncode == 0, done.stderr
    assert f"{kept} of them from before" in done.stderr or kept == _count(db)
    with sqlite3.connect(db) as file:
        found = file.execute("SELECT framework, kernel, status, error FROM cases").fetchall()
    states = {(framework, kernel): status for framework, kernel, status, _ in found}
    assert states["torch", "lstm"] == states["jax", "lstm"] == states["torch", "softmax"] == "done"
    assert states["jax", "softmax"] == "unsupported"
    assert all(error for *_, status, error in found if status != "done")


def test_a_missing_framework_is_one_line_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from timeroof.cli.study import _installed
    from timeroof.core.errors import UsageError
    from timeroof.study import run

    monkeypatch.setattr(run, "version_of", {"torch": "2.13.0"}.get)
    assert _installed(["torch", "tensorflow"]) == ("torch",)
    (line,) = capsys.readouterr().err.splitlines()
    assert "tensorflow is not installed: the study goes on without it" in line
    with pytest.raises(UsageError, match="jax and tensorflow cannot be imported"):
        _installed(["jax", "tensorflow"])


@pytest.mark.slow
def test_stopped_by_sigterm_it_says_how_to_go_on(measured: None, tmp_path: Path) -> None:
    db = tmp_path / "a.sqlite"
    words = [*TINY, "--db", str(db), "--json", str(tmp_path / "a.json")]
    process = subprocess.Popen(command(*words), stderr=subprocess.PIPE, text=True)
    while not (db.exists() and _count(db)):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("the study was over before it could be stopped")
    assert process.returncode == 143
    assert "cases are kept in" in errors
    assert "--resume" in errors
    assert "Traceback" not in errors
    before = rows(db)
    refused = study(*words)
    assert refused.returncode == 2
    assert "--resume measures the rest" in refused.stderr
    assert rows(db) == before
    assert study(*words, "--resume").returncode == 0
    assert is_whole(db)


def _count(db: Path) -> int:
    try:
        with sqlite3.connect(db) as file:
            return int(file.execute("SELECT count(*) FROM cases").fetchone()[0])
    except sqlite3.Error:
        return 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_while_the_report_is_written_all_cases_are_kept(
    measured: None, tmp_path: Path, number: signal.Signals
) -> None:
    db = tmp_path / "a.sqlite"
    words = [*TINY, "--db", str(db)]
    assert study(*words, "--json", str(tmp_path / "a.json")).returncode == 0
    out = tmp_path / "out"
    words += ["--out", str(out), "--resume"]
    process = subprocess.Popen(command(*words), stderr=subprocess.PIPE, text=True)
    # The data is written before the page is drawn.
    while not (out / "rows.csv").exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("the page was there before it could be stopped")
    assert process.returncode == 128 + number
    assert f"all {len(SIZES)} cases are kept in" in errors
    assert "--resume writes the report" in errors
    assert study(*words).returncode == 0
    assert (out / "index.html").exists()


def test_a_pass_that_one_of_two_kernels_has_is_recorded_for_the_other(
    measured: None, tmp_path: Path
) -> None:
    db = tmp_path / "a.sqlite"
    words = ["elementwise", "adam", "--set", "elements=16", "--set", "op=add", "--set", "tensors=1",
             "--pass", "forward,optimizer", "--quick"]  # fmt: skip
    done = study(*words, "--db", str(db), "--json", str(tmp_path / "a.json"))
    assert done.returncode == 0, done.stderr
    assert "elementwise has no pass 'optimizer': it has calibrate, forward" in done.stderr
    assert "adam has no pass 'forward': it has optimizer" in done.stderr
    assert sorted({status for _, status in rows(db)}) == ["done", "unsupported"]


def test_outputs_and_the_fields_of_the_report(measured: None, tmp_path: Path) -> None:
    words = ["gemm", "--set", "m=8,16", "--pass", "forward", "--threads", "1,all", "--cache", "warm,cold",
             "--precision", "fp32,tf32", "--quick", "--db", str(tmp_path / "a.sqlite")]  # fmt: skip
    outputs = [
        "--json",
        "-",
        "--save",
        str(tmp_path / "a.troof"),
        "--html",
        str(tmp_path / "a.html"),
    ]
    done = study(*words, *outputs)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "timeroof.report/2"
    counts = 2 if len({1, os.cpu_count()}) == 2 else 1
    assert len(document["kernels"]) == 2 * 2 * counts
    row = document["kernels"][0]
    assert row["kind"] == "unit"
    assert row["op"] == "gemm"
    assert {"m", "n", "k", "cache", "threads", "precision", "pass", "variant"} <= set(row["labels"])
    assert row["origin"]["time"] == "measured"
    assert len(row["samples"]) >= 5
    assert "unsupported: gemm forward tf32" in done.stderr
    for name in ("a.troof", "a.html"):
        assert (tmp_path / name).stat().st_size > 0
    for kernel in document["kernels"]:
        if kernel["labels"]["cache"] == "cold":
            assert kernel["bytes"]["dram"] > 0
            assert 0 <= kernel["efficiency"] <= 1 or kernel["above_roof"]
    loaded = subprocess.run(
        [sys.executable, "-m", "timeroof", "read", str(tmp_path / "a.troof"), "--json", "-"],
        capture_output=True, check=False,
    )  # fmt: skip
    assert loaded.returncode == 0
    assert len(msgspec.json.decode(loaded.stdout)["kernels"]) == len(document["kernels"])


@pytest.mark.parametrize("resume", [False, True])
def test_with_a_machine_file_this_machine_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resume: bool
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("TIMEROOF_HOME", str(home))
    (tmp_path / "toy.toml").write_text(machine_toml(make_machine()))
    words = ["elementwise", "--set", "elements=16", "--set", "op=add", "--pass", "forward", "--quick",
             "--machine", str(tmp_path / "toy.toml"), "--db", str(tmp_path / "a.sqlite"),
             "--json", "-", *["--resume"] * resume]  # fmt: skip
    done = study(*words)
    assert done.returncode == 0, done.stderr
    assert "measuring this machine" not in done.stderr
    assert json.loads(done.stdout)["machine"]["name"] == make_machine().name
    assert not (home / "measured").exists()


@pytest.mark.slow
def test_fresh_keeps_the_old_store(measured: None, tmp_path: Path) -> None:
    words = ["elementwise", "--set", "elements=16,32", "--pass", "forward", "--quick", "--json",
             str(tmp_path / "a.json"), "--db", str(tmp_path / "a.sqlite")]  # fmt: skip
    assert study(*words).returncode == 0
    again = study(*words, "--fresh")
    assert again.returncode == 0, again.stderr
    assert "the old store is kept as" in again.stderr
    assert len(rows(tmp_path / "a.1.sqlite")) == len(rows(tmp_path / "a.sqlite")) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "no kernel is called 'nothing'"),
        ([], "no kernel is named"),
        (["lstm", "--set", "filters=3"], "lstm has no parameter 'filters'; use batch, time_steps"),
        (["lstm", "--set", "batch"], "--set 'batch' does not name a parameter and its values"),
        (["--factor", "all", "--set", "batch=1"], "--set batch needs a kernel that has it"),
        (["lstm", "--batch", "1,8"], "write --set batch=1,8"),
        (["conv2d", "lstm", "--time-steps=1,8"], "write --set time_steps=1,8"),
        (["lstm", "--batch"], "write --set batch=…"),
        (["lstm", "--set", "batch=0"], "batch cannot be '0'"),
        (["lstm", "--precision", "fp17"], "no precision is called 'fp17'"),
        (["lstm", "--framework", "mxnet"], "no framework is called 'mxnet'"),
        (["lstm", "--factor", "weather"], "no factor is called 'weather'"),
        (["lstm", "--overlay", "nothing"], "no overlay is called 'nothing'"),
        (["adam", "--pass", "forward"], "adam has no pass 'forward'; adam has optimizer"),
        (["gemm", "--pass", "forward,optimizer"], "gemm has calibrate, forward, backward"),
        (["gemm", "conv2d", "--variant", "eager,foreach"], "gemm and conv2d have no variant"),
        (["conv2d", "--variant", "cell-loop"], "conv2d has no variant 'cell-loop'"),
        (["conv2d", "--precision", "fp32,int8"], "conv2d has no precision 'int8'"),
        (["lstm", "--pass", ""], "--pass has no value"),
        (["lstm", "--set", "batch=,"], "--set batch has no value"),
        (["lstm", "--set", "time-steps= "], "--set time_steps has no value"),
        (["lstm", "--precision", ""], "--precision has no value"),
        (["lstm", "--cache", ","], "--cache has no value"),
        (["lstm", "--threads", ""], "--threads has no value"),
        (["lstm", "--threads", "99999"], "--threads cannot be '99999'; use numbers from 1 to"),
        (["lstm", "--threads", "9" * 5000], "--threads cannot be"),
        (["lstm", "--set", "batch=" + "9" * 15], "use whole numbers from 1 to 1099511627776"),
        (["lstm", "--device", "nowhere"], "use --device cpu"),
        (["gemm", "--set", "m=8", "--quick", "--db", "/proc/a.sqlite"], "the store cannot be used"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(
    measured: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    message: str,
) -> None:
    from timeroof.cli.main import main

    monkeypatch.chdir(tmp_path)
    if "/proc/a.sqlite" in words and not Path("/proc/self").exists():
        pytest.skip("there is no /proc to try")
    assert main(["study", *words, "--json", str(tmp_path / "a.json")]) == 2
    assert not list(tmp_path.glob("*.json"))
    assert not list(tmp_path.glob("*.sqlite"))
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("words", [["nothing"], ["lstm", "--filters", "3"]])
def test_the_message_goes_to_stderr(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    from timeroof.cli.main import main

    assert main(["study", *words]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1


def test_the_parameters_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    from timeroof.cli.main import main

    assert main(["study", "conv2d", "--set", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["conv2d", "batch=16,32,64"]
    assert any("layout=contiguous,channels_last" in line for line in lines)
