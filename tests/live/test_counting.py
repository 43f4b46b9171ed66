"""Counters for a live run: whatever the profiler does, the report stays and one sentence is said."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.counters.standin import WRITE_TABLE, calls, install, install_ncu
from timeroof.api import counting as counting_room
from timeroof.api.counting import Counting
from timeroof.api.reports import analyze, machine as find_machine
from timeroof.cli.counters import CounterTool, plan_counting, run_counted
from timeroof.core.errors import UsageError
from timeroof.core.profile import Profile, Source, Steps
from timeroof.core.report import Report
from timeroof.counters import CollectOptions
from timeroof.live.recording import Recording

GOOD = WRITE_TABLE + "write(table())\n"


def clean_report(names: tuple[str, ...] = ("a", "b")) -> Report:
    rows = [
        {"name": n, "kind": "kernel", "time_s": 1e-3, "calls": 2.0 if n == "a" else 1.0,
         "flop/fp32": 5.0, "byte/dram": 7.0, "origin.flops": "counted"}
        for n in names
    ]  # fmt: skip
    profile = Profile.of(rows, Source(tool="timeroof run"), steps=Steps(count=9, unprofiled_s=1e-3))
    return analyze(profile, find_machine("a100-sxm4-40gb"))


def recorded(**more: object) -> Recording:
    return Recording(**({"steps_seen": 9, "uses_gpu": True} | more))  # type: ignore[arg-type]


def plan(place: Path, tool: str = "ncu", chip: str = "8.0", **more: object) -> Counting:
    told = {"environment": {"PATH": str(place)}, "grace_s": 2.0} | more
    return Counting(
        tool=tool,
        command=(sys.executable, "train.py"),
        marker="auto",
        warmup=2,
        measured_steps=20,
        options=CollectOptions(**told),  # type: ignore[arg-type]
        architecture=chip,
    )


def counted(
    place: Path, capsys: pytest.CaptureFixture[str], report: Report | None = None, **more: object
) -> tuple[Report, int, str]:
    before = report or clean_report()
    after, code = run_counted(plan(place, **more), before, recorded(), 0, 2.0)  # type: ignore[arg-type]
    err = capsys.readouterr().err
    assert "Traceback" not in err
    return after, code, err


def test_amounts_are_counted_and_times_are_clean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = install_ncu(tmp_path / "bin", GOOD)
    report, code, err = counted(found, capsys)
    assert code == 0
    rows = {r["name"]: r for r in report.profile.kernels.to_dicts()}
    assert rows["a"]["byte/dram"] == 20
    assert rows["a"]["time_s"] == 1e-3
    assert rows["a"]["origin.flops"] == "measured"
    assert report.totals.steps.count == 9
    # The forecast comes first, from the kernels of the clean run.
    assert "passes over every kernel of 3" in err
    assert err.index("ncu will run") < err.index("Largest kernels")
    assert any("are measured by Nsight Compute" in note for note in report.notes)
    (line,) = calls(found)
    assert line[line.index("--profile-from-start") + 1] == "off"


HALF = WRITE_TABLE + "text = table()\nwrite(text[: int(len(text) * 0.6)])\n"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("open(report, 'w').write('==ERROR== ERR_NVGPUCTRPERM')\nsys.exit(1)", "run as root, or"),
        ("os.kill(os.getpid(), signal.SIGKILL)", r"ncu was killed (signal 9, often for want"),
        ("sys.exit('No space left on device')", "ncu found the disk full; make space"),
        ("open(report, 'w').write('==WARNING== No kernels were profiled.')", "saw no kernel to count"),
        ("sys.exit('RuntimeError: only in the second run')", "RuntimeError: only in the second run"),
        ("open(report, 'w').write('\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Value\"\\n\"0\"')",
         "left a report that cannot be used"),
        ("sys.exit(print('CUDA out of memory', file=sys.stderr) or 1)", "GPU's memory"),
    ],
)  # fmt: skip
def test_a_failure_costs_only_the_counters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str, said: str
) -> None:
    before = clean_report()
    report, code, err = counted(install_ncu(tmp_path / "bin", body + "\n"), capsys, before)
    assert code == 2
    (line,) = [text for text in err.splitlines() if text.startswith("timeroof: no counters: ")]
    assert said in line
    assert report.profile.kernels.equals(before.profile.kernels)
    assert any(n.startswith("No counters: ") for n in report.notes)


def test_half_a_report_is_used_as_far_as_it_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, code, _ = counted(install_ncu(tmp_path / "bin", HALF + "sys.exit(9)\n"), capsys)
    assert code == 0
    assert any("ended with code 9: only what was counted" in n for n in report.notes)
    assert report.profile.kernels["byte/dram"].to_list() != [7.0, 7.0]


def test_a_profiler_that_hangs_is_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = "signal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(600)\n"
    found = install_ncu(tmp_path / "bin", body)
    begin_s = time.monotonic()
    _, code, err = counted(found, capsys, timeout_s=1.0, grace_s=0.3)
    assert code == 2
    assert "stopped at its time limit" in err
    assert time.monotonic() - begin_s < 60


@pytest.mark.parametrize(
    ("body", "dram_bytes", "said"),
    [
        ("open(report, 'w')", 7.0, counting_room.STOPPED),
        (WRITE_TABLE + "write(table())", 20.0, "Counting was interrupted"),
    ],
    ids=["before anything was counted", "after a part"],
)
def test_ctrl_c_keeps_the_report_and_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str, dram_bytes: float, said: str
) -> None:
    found = install_ncu(tmp_path / "bin", body + "\ntime.sleep(600)\n")

    def press() -> None:
        end_s = time.monotonic() + 60
        while not calls(found) and time.monotonic() < end_s:
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    earlier = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=press)
    thread.start()
    try:
        report, code, _ = counted(found, capsys)
    finally:
        thread.join()
        signal.signal(signal.SIGINT, earlier)
    assert code == 0
    assert any(n.startswith(said) for n in report.notes)
    rows = {r["name"]: r for r in report.profile.kernels.to_dicts()}
    assert rows["a"]["byte/dram"] == dram_bytes
    from timeroof.cli.main import stop_if_pressed

    stop_if_pressed()  # it has been answered: `main` must not end with 130


def test_other_kernels_in_the_second_run_are_told_by_their_share(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = WRITE_TABLE + "write(table(('a', 'c', 'd', 'd')))\n"
    report, code, _ = counted(install_ncu(tmp_path / "bin", body), capsys)
    assert code == 0
    rows = {r["name"]: r for r in report.profile.kernels.to_dicts()}
    # One launch of a was counted where the clean run made two: its average stands for both.
    assert rows["a"]["byte/dram"] == 20
    assert (rows["b"]["byte/dram"], rows["b"]["origin.flops"]) == (7.0, "counted")
    told = " ".join(report.notes)
    assert "1 rows (50 % of the kernels' time) were not counted" in told
    assert "2 kernels of the counted run (75 % of its launches) are not in the clean run" in told
    assert "launched a different number of times" in told


def test_nothing_in_common(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = WRITE_TABLE + "write(table(('x',)))\n"
    report, code, _ = counted(install_ncu(tmp_path / "bin", body), capsys)
    assert code == 0
    assert report.profile.kernels["byte/dram"].to_list() == [7.0, 7.0]
    assert any("no counter is used" in n for n in report.notes)


@pytest.mark.parametrize(
    ("tool", "changes", "said"),
    [
        ("ncu", {"uses_gpu": False}, "the program used no GPU, and ncu counts the kernels of one"),
        ("perf", {"steps_seen": 2}, "made 2 steps, none after the warm-up"),
        ("perf", {"steps_seen": 3}, "perf needs two to subtract"),
    ],
)
def test_what_cannot_be_counted_is_not_tried(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    tool: str,
    changes: dict[str, object],
    said: str,
) -> None:
    told = plan(tmp_path, tool)
    _, code = run_counted(told, clean_report(), recorded(**changes), 0, 1.0)
    assert code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "partial"), [(3, "it exited with code 3"), (0, "it was terminated")]
)
def test_a_program_that_failed_is_not_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int, partial: str
) -> None:
    report, given = run_counted(
        plan(tmp_path), clean_report(), recorded(partial=partial), code, 1.0
    )
    assert given == code
    assert f"not counted: {partial}" in capsys.readouterr().err
    assert any("did not end well" in n for n in report.notes)


def test_a_full_disk_under_our_own_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "/tmp/x")

    monkeypatch.setattr(counting_room, "write_plan", full)
    _, code, err = counted(install_ncu(tmp_path / "bin", GOOD), capsys)
    assert code == 2
    assert "cannot be written (No space left on device); make space" in err


PERF = """
if args == ["--version"]:
    sys.exit(print("perf version 6.1.1"))
events = value("-e").split(",")
if value("-o") is None:
    print("1;;" + events[0] + ";1;100.00;;", file=sys.stderr)
    sys.exit(0)
note()
times = int(os.environ["TIMEROOF_REPETITIONS"])
with open(value("-o"), "w") as out:
    for name in events:
        out.write(f"{1000 + 300 * times};;{name};99;100.00;;\\n")
"""


def test_perf_counts_steps_by_subtraction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nine steps, two of them warm-up: three once and three twice; 300 events are 100 a step."""
    found = install(tmp_path / "bin", "perf", PERF)
    report, code, err = counted(found, capsys, tool="perf", chip="Zen")
    assert code == 0, err
    told = " ".join(report.notes)
    assert "perf counted 100 FLOP for one step" in told
    assert "perf counted 3 steps of a second run" in told
    assert "a run of 8 steps less those of one of 5" in told
    assert report.profile.kernels["flop/fp32"].to_list() == [5.0, 5.0]
    assert len(calls(found)) == 3 * 2


FEWER = """
import os, timeroof
for _ in range(3 if os.environ.get("TIMEROOF_COUNTED") else 9):
    timeroof.step()
"""


def test_fewer_steps_in_the_second_run_are_no_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "my files"
    place.mkdir()
    (place / "train.py").write_text(FEWER)
    body = PERF.replace("note()", "import subprocess\nsubprocess.run(args[args.index('--') + 1 :])")
    found = install(tmp_path / "bin", "perf", body)
    told = replace(plan(found, "perf", "Zen", rounds=1, working_folder=place), marker="manual")
    report, code = run_counted(told, clean_report(), recorded(), 0, 1.0)
    assert code == 2
    assert "made 3 steps where the clean one made 9" in capsys.readouterr().err
    assert report.profile.kernels["flop/fp32"].to_list() == [5.0, 5.0]


def test_a_region_that_is_never_reached_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("import timeroof\ntimeroof.step()\n")
    body = f"""
import subprocess
subprocess.run(args[args.index({sys.executable!r}) :])
open(report, "w").write("==WARNING== No kernels were profiled.")
"""
    found = install_ncu(tmp_path / "bin", body)
    told = replace(plan(found, working_folder=tmp_path), marker="manual")
    _, code = run_counted(told, clean_report(), recorded(), 0, 1.0)
    assert code == 2
    assert "made 1 steps and never came to the steps to count" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tool", "stand_in", "said"),
    [
        ("ncu", {"version": "2019.1.0"}, r"ncu 2019.1.0 is too old"),
        (
            "perf",
            "sys.exit('Access to performance monitoring is limited')",
            "perf_event_paranoid=1",
        ),
    ],
)
def test_what_can_be_known_before_is_refused_before(
    tmp_path: Path, tool: str, stand_in: str | dict[str, str], said: str
) -> None:
    from timeroof.counters import check_tool

    if isinstance(stand_in, dict):
        found = install_ncu(tmp_path / "bin", GOOD, **stand_in)  # type: ignore[arg-type]
    else:
        body = 'if args == ["--version"]:\n    sys.exit(print("perf version 6.1"))\n'
        found = install(tmp_path / "bin", tool, body + stand_in + "\n")
    told = CollectOptions(environment={"PATH": str(found)})
    with pytest.raises(UsageError, match=said):
        check_tool(tool, told)


def test_several_processes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="several processes"):
        plan_counting(CounterTool.PERF, (None, ["x"]), (1, 1, ""), None)


def test_options_are_refused_before_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = install_ncu(tmp_path / "bin", GOOD)
    monkeypatch.setenv("PATH", str(found))

    def told(**more: object) -> Counting | None:
        return plan_counting(
            CounterTool.NCU,
            (None, ["a b.py", "x"]),
            (2, 20, "auto"),
            None,
            **more,  # type: ignore[arg-type]
        )

    made = told(metrics_per_run=1, whole_machine=True)
    assert made is not None
    assert (made.options.metrics_per_run, made.options.system_wide) == (1, True)
    # Between them stand the options that this interpreter was started with.
    assert (made.command[0], *made.command[-2:]) == (sys.executable, "a b.py", "x")
    with pytest.raises(UsageError, match="no metric set for 'Fermi'"):
        told(chip="Fermi")
    (tmp_path / "old" / "reports").mkdir(parents=True)
    (tmp_path / "old" / "reports" / "x").touch()
    with pytest.raises(UsageError, match="holds counters of an earlier run"):
        told(folder=tmp_path / "old")
    assert plan_counting(None, (None, []), (1, 1, ""), None) is None
