"""Signals that come to a program under `timeroof run`: its own answer to them stands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.live_programs import MODEL, folder, run

__all__ = ["folder"]

PRESS = "import os, signal, sys, time\ndef press(n=signal.SIGINT): os.kill(os.getpid(), n); time.sleep(9)\n"
ANSWERS = {
    "caught, then a code": "try: press()\nexcept KeyboardInterrupt: print('caught')\nsys.exit(47)\n",
    "caught, then an end": "try: press()\nexcept KeyboardInterrupt: print('caught')\n",
    "not caught": "press()\n",
    "own 130": "try: press()\nexcept KeyboardInterrupt: sys.exit(130)\n",
    "handler that exits": (
        "signal.signal(signal.SIGINT, lambda *_: sys.exit(5))\npress()\n"
    ),
    "handler that notes": (
        "seen = []\nsignal.signal(signal.SIGINT, lambda *_: seen.append(1))\n"
        "os.kill(os.getpid(), signal.SIGINT); print(seen)\n"
    ),
    "handler put back": (
        "before = signal.signal(signal.SIGINT, signal.SIG_IGN)\npress.__defaults__ = ()\n"
        "os.kill(os.getpid(), signal.SIGINT)\nsignal.signal(signal.SIGINT, before)\n"
        "assert before is signal.default_int_handler\n"
    ),
    "terminated": "press(signal.SIGTERM)\n",
    "handler of SIGTERM": (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\npress(signal.SIGTERM)\n"
    ),
    "handler of SIGTERM that notes": (
        "signal.signal(signal.SIGTERM, lambda *_: print('saving'))\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
    ),
    "asyncio": (
        "import asyncio\n"
        "async def main():\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT); await asyncio.sleep(9)\n"
        "    except asyncio.CancelledError: print('cancelled'); raise\n"
        "try: asyncio.run(main())\n"
        "except KeyboardInterrupt: sys.exit(3)\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_a_program_s_answer_to_a_signal_stands(folder: Path, name: str) -> None:
    (folder / "train.py").write_text(PRESS + ANSWERS[name])
    alone = subprocess.run(
        [sys.executable, "train.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    done = run(folder, "train.py")
    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout), done.stderr
    assert "timeroof: interrupted" not in done.stderr


@pytest.mark.slow
def test_an_interrupt_that_is_caught_between_steps_leaves_a_whole_report(folder: Path) -> None:
    text = (
        "import os, signal\n" + MODEL + "for i in range(20):\n"
        "    try:\n"
        "        step()\n"
        "        if i == 9: os.kill(os.getpid(), signal.SIGINT)\n"
        "    except KeyboardInterrupt: print('caught')\n"
        "raise SystemExit(47)\n"
    )
    (folder / "train.py").write_text(text)
    done = run(folder, "--json", "report.json", "train.py")
    assert done.returncode == 47, done.stderr
    assert done.stdout == "caught\n"
    found = json.loads((folder / "report.json").read_text())
    assert found["totals"]["steps"]["count"] >= 18
    assert not any("Partial" in str(note) for note in found["notes"])


LATE = """
import sys, threading, time
from pathlib import Path
from timeroof.live import running
wait = running._wait
running._wait = lambda child: (time.sleep(0.5), wait(child))[1]  # the child ends before
threading.Thread(target=lambda: time.sleep(60), daemon=True).start()
(folder := Path("records")).mkdir()
print(running.run_recorded([sys.executable, "-S", "-c", "raise SystemExit(3)"], folder).code)
"""


def test_a_caller_with_threads_sees_the_end_though_another_thread_got_the_signal(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATE], capture_output=True, text=True, check=False, timeout=60,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.strip() == "3", done.stderr
