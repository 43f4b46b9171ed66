"""`timeroof run --counters` as a user types it: the program twice, one report, nothing lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import texts
from tests.counters.standin import WRITE_TABLE, calls, install, install_ncu
from tests.live.pretended import MACHINE, MODEL, install_pretence

pytest.importorskip("torch")

LOOP = "import sys\nfor number in range(8): print('loss', number, sys.argv[1:], step())\n"
GPU = "import pretend\n" + MODEL + LOOP
# Runs the program as ncu does, then answers; the program's arguments follow ours.
RUN_AND_WRITE = (
    WRITE_TABLE
    + f"""
import subprocess
line = args[args.index({sys.executable!r}):]
done = subprocess.run(line)
write(table())
sys.exit(done.returncode)
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "a folder – ü"
    place.mkdir()
    (place / "toy.toml").write_text(MACHINE)
    return place


def started(folder: Path, *words: str, path: Path | None = None) -> subprocess.Popen[str]:
    found = f"{path}{os.pathsep}{os.environ['PATH']}" if path else os.environ["PATH"]
    return subprocess.Popen(
        [sys.executable, "-m", "timeroof", "run", "--machine", "toy.toml", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
        env={**os.environ, "PATH": found, "OMP_NUM_THREADS": "1", "COLUMNS": "400"},
    )  # fmt: skip


def run(folder: Path, *words: str, path: Path | None = None) -> tuple[int, str, str]:
    process = started(folder, *words, path=path)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.mark.slow
def test_ncu_counts_the_same_steps_and_is_joined(folder: Path) -> None:
    """A module with `-m`, a folder with spaces, and a Ctrl-C-free life."""
    install_pretence(folder, ["a", "b", "a"])
    (folder / "train ü.py").write_text(GPU)
    found = install_ncu(folder / "bin", RUN_AND_WRITE)
    code, out, err = run(
        folder, "--json", "report.json", "--warmup", "3", "--counters", "ncu",
        "--counter-folder", "kept files",
        "train ü.py", "--counters", "x y", path=found,
    )  # fmt: skip
    assert code == 0, err
    # Printed once, by the clean run; the second run's is kept in the folder.
    assert out.count("loss") == 8
    assert "loss 7 ['--counters', 'x y']" in out
    printed = (folder / "kept files" / "output" / "program.out").read_text()
    # The step of the mark itself is not printed: the program is ended in it.
    assert printed.count("loss") == 3
    assert "loss 2 ['--counters', 'x y']" in printed
    # First a trace for times, then the counted step, with our marks around it.
    marks = (folder / "marks.log").read_text().split("\n")
    assert marks[:5] == ["trace", "start", "push timeroof", "pop", "stop"]
    (line,) = calls(found)
    assert line[line.index("--profile-from-start") + 1] == "off"
    assert line[line.index("--cache-control") + 1] == "all"
    report = json.loads((folder / "report.json").read_text())
    rows = {r["name"]: r for r in report["kernels"]}
    assert set(rows) == {"a", "b"}
    # Times of the trace, amounts of the counters: ten of every metric per launch.
    assert rows["a"]["time_s"] == pytest.approx(100e-6)
    assert rows["a"]["bytes"]["dram"] == 20
    assert rows["a"]["flops"]["fp32"] == 2 * (10 + 10 + 20)
    assert rows["a"]["origin"]["bytes/dram"] == rows["a"]["origin"]["flops"] == "measured"
    assert report["totals"]["steps"]["count"] == 8
    assert any("100 % of the time) are measured by Nsight Compute" in n for n in texts(report))
    assert any("times from a run with torch's profiler" in n for n in texts(report))
    assert "ncu will run the program once" in err


@pytest.mark.slow
def test_rocprofv3_and_a_module(folder: Path) -> None:
    install_pretence(folder, ["a", "b"])
    (folder / "package").mkdir()
    (folder / "package" / "train.py").write_text(GPU)
    body = """
if args == ["--version"]:
    sys.exit(print("version: 1.0.0"))
if args == ["--list-avail"]:
    sys.exit("no agent")
note()
os.makedirs(value("-d"))
head = ("Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Id,"
        "Kernel_Name,Workgroup_Size,LDS_Block_Size,Scratch_Size,VGPR_Count,SGPR_Count,"
        "Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp")
with open(value("-d") + "/timeroof_1_counter_collection.csv", "w") as out:
    print(head, file=out)
    for number, kernel in enumerate("ab", 1):
        for metric in args[args.index("--pmc") + 1 : args.index("--kernel-trace")]:
            print(f'{number},{number},"Agent 1",1,5,5,64,1,"{kernel}",64,0,0,8,16,'
                  f'"{metric}",2,{1000 * number},{1000 * number + 500}', file=out)
"""
    found = install(folder / "bin", "rocprofv3", body)
    code, out, err = run(
        folder, "--json", "-", "--counters", "rocprofv3", "--counter-chip", "gfx942",
        "-m", "package.train", "--steps", "9", path=found,
    )  # fmt: skip
    assert code == 0, err
    assert "loss 7 ['--steps', '9']" in out
    line = calls(found)[0]
    assert "--selected-regions" in line
    report = json.loads(out.splitlines()[-1])
    rows = {r["name"]: r for r in report["kernels"]}
    assert rows["a"]["flops"]["fp16-tensor"] == 2 * 512
    assert rows["a"]["time_s"] == pytest.approx(50e-6)
    assert any("measured by rocprofv3" in n for n in texts(report))


@pytest.mark.slow
def test_no_permission_costs_only_the_counters(folder: Path) -> None:
    install_pretence(folder, ["a"])
    (folder / "train.py").write_text(GPU)
    body = "open(report, 'w').write('==ERROR== ERR_NVGPUCTRPERM - no')\nsys.exit(1)\n"
    found = install_ncu(folder / "bin", body)
    code, out, err = run(
        folder, "--json", "report.json", "--counters", "ncu", "train.py", path=found
    )
    assert code == 2
    assert out.count("loss") == 8
    said = [line for line in err.splitlines() if "no counters" in line]
    assert len(said) == 1
    assert "NVreg_RestrictProfilingToAdminUsers=0" in said[0]
    assert "Traceback" not in err
    report = json.loads((folder / "report.json").read_text())
    assert any(n.startswith("No counters: ncu may not read") for n in texts(report))
    assert report["totals"]["steps"]["count"] == 8
    assert report["kernels"]


PERF = """
if args == ["--version"]:
    sys.exit(print("perf version 6.1.1"))
if value("-o") is None:
    print("1;;" + value("-e") + ";1;100.00;;", file=sys.stderr)
    sys.exit(0)
note()
times = int(os.environ["TIMEROOF_REPETITIONS"])
"""


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
@pytest.mark.slow
def test_a_signal_in_the_counted_run_keeps_the_report(
    folder: Path, number: int, exit_code: int
) -> None:
    (folder / "train.py").write_text(MODEL + LOOP)
    hang = (
        PERF + "open(os.path.join(here, 'hangs'), 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    found = install(folder / "bin", "perf", hang)
    process = started(folder, "--json", "r.json", "--counters", "perf", "train.py", path=found)
    end_s = time.monotonic() + 100
    while not (found / "hangs").exists() and time.monotonic() < end_s:
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    time.sleep(0.2)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == exit_code, err
    assert out.count("loss") == 8
    assert "Traceback" not in err
    # Nothing is left behind.
    with pytest.raises(ProcessLookupError):
        os.kill(int((found / "hangs").read_text()), 0)
    report = json.loads((folder / "r.json").read_text())
    assert report["kernels"]
    if number == signal.SIGINT:
        assert any("stopped before anything was counted" in n for n in texts(report))


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
@pytest.mark.slow
def test_the_real_perf(folder: Path) -> None:
    """Steps of a real program; where the machine counts nothing, it says so."""
    text = MODEL + "kept = []\ndef more(): kept.append(torch.ones(1 << 20)); return step()\n"
    (folder / "train.py").write_text(text + LOOP.replace("step()", "more()"))
    code, out, err = run(folder, "--json", "r.json", "--counters", "perf", "train.py")
    notes = texts(json.loads((folder / "r.json").read_text()))
    assert out.count("loss") == 8
    if "perf_event_paranoid" in err:
        assert code == 2
        return
    assert code == 0, err
    assert "perf will run the program" in err
    assert any("perf counted 3 steps of a second run" in n for n in notes)


def test_what_is_missing_or_too_old_is_refused_before_the_program_runs(folder: Path) -> None:
    (folder / "train.py").write_text("raise SystemExit('ran')\n")
    code, _, err = run(folder, "--counters", "rocprofv3", "train.py")
    assert (code, err.count("\n")) == (2, 1)
    assert "rocprofv3 is not on PATH; install ROCm" in err
    found = install_ncu(folder / "bin", "", version="2019.1.0")
    code, _, err = run(folder, "--counters", "ncu", "train.py", path=found)
    assert (code, err.count("\n")) == (2, 1)
    assert "ncu 2019.1.0 is too old; install 2020.2 or newer" in err
