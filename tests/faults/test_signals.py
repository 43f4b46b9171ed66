"""Signals to every command at random moments: nothing of it runs on, nothing of it stays behind.

`make faults` tries each signal at more moments (TIMEROOF_FAULTS).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.started import Started, write_trace
from tests.live.live_programs import MACHINE, MODEL

TIMES = int(os.environ.get("TIMEROOF_FAULTS", "1"))
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL)
# Words by what is disturbed; `big.json` takes seconds to read.
COMMANDS = {
    "read ranks": ["read", "ranks", "--html", "page.html"],
    "read": ["read", "big.json", "--html", "page.html"],
    "report": ["report", "big.json", "-o", "report.csv"],
    "explain": ["explain", "big.json"],
    "compare": ["compare", "big.json", "other.json", "--html", "compare.html"],
    "whatif": ["whatif", "big.json", "--machine", "a100-sxm4-80gb", "--html", "whatif.html"],
    "check": ["check", "big.json", "--baseline", "other.json"],
    "paper": ["paper", "--out", "paper"],
    "machine": ["machine", "--quick", "--fresh"],
    "study": ["study", "elementwise", "--set", "elements=16,64,256", "--pass", "forward",
              "--machine", "toy.toml", "--quick", "--fresh", "--out", "study"],
    "study compiled": ["study", "elementwise", "--set", "elements=64", "--variant", "compiled",
                       "--machine", "toy.toml", "--quick", "--fresh", "--out", "compiled"],
    "run": ["run", "--machine", "toy.toml", "sleep.py"],
}  # fmt: skip
# Moments after the start, in seconds: while Python loads, in the middle, near the end.
LATEST_S = {"study": 6.0, "study compiled": 12.0, "machine": 4.0, "read ranks": 5.0}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    big = write_trace(folder / "big.json", 20_000)
    shutil.copy(big, folder / "other.json")
    (folder / "ranks").mkdir()
    for rank in range(4):
        (folder / "ranks" / f"rank{rank}.json").symlink_to(big)
    (folder / "toy.toml").write_text(MACHINE)
    (folder / "sleep.py").write_text("import time\ntime.sleep(60)\n")
    return folder


@pytest.mark.long
@pytest.mark.parametrize("number", SIGNALS, ids=lambda n: n.name)
@pytest.mark.parametrize("what", COMMANDS)
def test_nothing_runs_on_after_a_signal(inputs: Path, what: str, number: signal.Signals) -> None:
    for turn in range(TIMES):
        chance = random.Random(f"{what} {number} {turn} {time.time_ns()}")
        wait_s = chance.uniform(0.1, LATEST_S.get(what, 2.5))
        check_disturbed(inputs, what, number, wait_s)


def check_disturbed(inputs: Path, what: str, number: signal.Signals, wait_s: float) -> None:
    home = inputs / f"home-{time.time_ns()}"
    started = Started.of(
        inputs, *COMMANDS[what], workers=what == "read ranks", TIMEROOF_HOME=str(home)
    )
    try:
        time.sleep(wait_s)
        ended = started.process.poll() is not None
        started.process.send_signal(number)
        left = started.gone_after()
        said = (inputs / "said").read_text("utf-8", "replace")
        assert not left, (wait_s, left, said)
        assert what == "run" or "Traceback" not in said, said
        if not ended and number != signal.SIGKILL:
            assert started.process.wait(9) in (128 + number, -number), (wait_s, said)
        if number != signal.SIGKILL:
            assert not started.left_behind(), wait_s
            assert not [p.name for p in inputs.iterdir() if p.name.startswith(".")]
    finally:
        started.end()


@pytest.mark.parametrize("number", SIGNALS, ids=lambda n: n.name)
def test_nothing_runs_on_after_a_signal_to_a_program(inputs: Path, number: signal.Signals) -> None:
    check_disturbed(inputs, "run", number, 1.0)


TRAINING = (
    MODEL
    + "import time\nfor i in range(4000):\n    step(); print(i, flush=True)\n    time.sleep(0.01)\n"
)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
@pytest.mark.parametrize("group", [False, True], ids=["process", "group"])
def test_a_program_that_a_signal_ends_leaves_a_partial_report(
    tmp_path: Path, number: signal.Signals, group: bool
) -> None:
    (tmp_path / "toy.toml").write_text(MACHINE)
    (tmp_path / "train.py").write_text(TRAINING)
    words = ("run", "--machine", "toy.toml", "--json", "report.json", "train.py")
    started = Started.of(tmp_path, *words)
    try:
        _reached(tmp_path / "said", b"\n40\n")
        if group:  # as a terminal that closes does, and the shell once more
            os.killpg(started.process.pid, number)
            time.sleep(0.3)
            if number == signal.SIGHUP:
                started.process.send_signal(number)
        else:
            started.process.send_signal(number)
        assert started.process.wait(120) == -number
        report = json.loads((tmp_path / "report.json").read_text())
        assert report["kernels"]
        assert any(note["code"] == "partial" for note in report["notes"]), report["notes"]
        # What torch keeps there itself is the program's.
        assert not [name for name in started.left_behind() if "inductor" not in name]
    finally:
        started.end()


def _reached(path: Path, words: bytes) -> None:
    end = time.monotonic() + 120
    while words not in path.read_bytes():
        assert time.monotonic() < end, path.read_text()
        time.sleep(0.05)


IGNORED = """
import os, signal, sys
from timeroof.cli.main import main
code = main(["read", "rows.csv"])
os.kill(os.getpid(), signal.SIGHUP)
sys.exit(code)
"""


def test_a_signal_that_was_ignored_from_the_start_stays_ignored(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("name,time_s\nk,1\n")
    done = subprocess.run(
        ["nohup", sys.executable, "-c", IGNORED], cwd=tmp_path, check=False, timeout=60
    )
    assert done.returncode == 0
