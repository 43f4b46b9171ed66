"""Counters of a study's case: amounts of one execution, through stand-ins and the real perf."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.counters.standin import WRITE_TABLE, calls, install, install_ncu, options
from tests.counters.test_region import fake_torch
from timeroof.core.errors import UsageError
from timeroof.counters import CollectOptions
from timeroof.study.counters import collect_case, count_executions

WORKER = [sys.executable, "-m", "timeroof.study.worker", "{}"]


def test_amounts_are_those_of_one_execution(tmp_path: Path) -> None:
    found = install_ncu(tmp_path / "bin", WRITE_TABLE + "write(table(('a', 'b', 'a', 'b')))\n")
    told = options(found, cache="keep")
    counts = collect_case("ncu", WORKER, executions=2, architecture="8.0", options=told)
    assert counts.amounts["byte/dram"] == 20
    assert counts.amounts["flop/fp32"] == 2 * (10 + 10 + 20)
    assert counts.amounts["flop/bf16-tensor"] == 20
    assert counts.launches == 2
    assert {counts.origins[w] for w in ("flops", "bytes/dram", "bytes/l2")} == {"measured"}
    assert any("caches kept" in note for note in counts.notes)
    (line,) = calls(found)
    assert line[-4:] == WORKER
    assert line[line.index("--profile-from-start") + 1] == "off"


def test_what_is_not_counted_is_unknown_and_never_nought(tmp_path: Path) -> None:
    listed = ["dram__bytes", "sm__sass_thread_inst_executed_op_fadd_pred_on", "gpu__time_duration"]
    found = install_ncu(tmp_path / "bin", WRITE_TABLE + "write(table())\n", listed=listed)
    counts = collect_case("ncu", WORKER, architecture="8.0", options=options(found))
    assert counts.amounts["byte/dram"] == 30
    assert counts.amounts.get("flop/fp32") is None


def test_perf_counts_the_difference(tmp_path: Path) -> None:
    body = """
if args == ["--version"]:
    sys.exit(print("perf version 6.1.1"))
if value("-o") is None:
    print("1;;" + value("-e") + ";1;100.00;;", file=sys.stderr)
    sys.exit(0)
times = int(os.environ["TIMEROOF_REPETITIONS"])
with open(value("-o"), "w") as out:
    for name in value("-e").split(","):
        out.write(f"{1000 + 300 * times};;{name};99;100.00;;\\n")
"""
    found = install(tmp_path / "bin", "perf", body)
    told = options(found, rounds=1)
    counts = collect_case("perf", WORKER, executions=3, architecture="Zen", options=told)
    assert counts.amounts["flop/fp32"] == 100
    assert counts.amounts["fault"] == 100
    assert counts.origins["flops"] == "inferred"
    assert counts.launches is None


def test_a_case_needs_an_execution() -> None:
    with pytest.raises(UsageError, match="executions is 0"):
        collect_case("perf", WORKER, executions=0)


def test_the_worker_does_it_as_often_as_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setitem(sys.modules, "torch", fake_torch(said))
    monkeypatch.setenv("TIMEROOF_REPETITIONS", "2")
    count_executions(lambda: said.append("run"), 3)
    assert said == ["wait", "start", "push timeroof", *["run"] * 6, "wait", "pop", "stop"]


REAL = """
from timeroof.study.counters import count_executions
kept = []
count_executions(lambda: kept.append(bytearray(b"x") * (8 << 20)), 2)
"""


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_the_real_perf() -> None:
    try:
        counts = collect_case(
            "perf", [sys.executable, "-c", REAL], executions=2, options=CollectOptions(rounds=1)
        )
    except UsageError as error:
        pytest.skip(str(error))
    faults = counts.amounts["fault"]
    # 8 MiB: 2048 pages of 4 KiB, fewer where pages are larger, or unknown where noise hid them.
    assert faults is None or 0 <= faults < 2048 * 1.5
    assert counts.amounts.get("flop/fp32", None) is None or counts.amounts["flop/fp32"] >= 0
