"""The program that is run again: its steps are found, it is ended after them, its manners kept."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from timeroof.api.counting import Seen
from timeroof.live.running import program_command, recorded_environment
from timeroof_recorder.log import records, write_plan

# Steps that the program itself tells: torch is not needed.
LOOP = """
import os, sys, timeroof
for number in range(6):
    print("step", number, sys.argv[1:], flush=True)
    timeroof.step()
print("whole")
"""


def run(
    folder: Path, text: str, *, what: str = "count", repetitions: int = 1, module: str | None = None,
    **more: object,
) -> tuple[subprocess.CompletedProcess[str], Seen]:  # fmt: skip
    script = folder / "a program – ü.py"
    script.write_text(text)
    command = program_command(module, [*([] if module else [str(script)]), "x y", "--steps"])
    told = {
        "command": command[1:], "framework": "torch", "marker": "manual", "what": what,
        "first": 2, "steps": 2, "trace": "",
    } | more  # fmt: skip
    with TemporaryDirectory() as place:
        write_plan(place, {"counted": told})
        environment = {"TIMEROOF_REPETITIONS": str(repetitions), "PYTHONUTF8": "1"}
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=folder, timeout=100,
            env={**os.environ, **environment, **recorded_environment(Path(place))},
        )  # fmt: skip
        (file,) = Path(place).glob("*.rec")
        (told_record,) = [each for each in records(file.read_bytes()) if each[1] == "counted"]
    return done, Seen(*told_record[2:])  # type: ignore[arg-type]


def test_it_is_ended_after_the_steps(tmp_path: Path) -> None:
    done, seen = run(tmp_path, LOOP)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("step") == 4 + 4
    assert "['x y', '--steps']" in done.stdout
    assert "whole" not in done.stdout
    assert done.stderr == ""
    assert seen == Seen(steps=4, opened=True, closed=True)


@pytest.mark.parametrize(("repetitions", "steps"), [(1, 3), (2, 4)])
def test_repetitions_are_more_steps(tmp_path: Path, repetitions: int, steps: int) -> None:
    done, seen = run(tmp_path, LOOP, what="repeat", repetitions=repetitions, steps=1)
    assert done.returncode == 0
    assert (seen.steps, seen.closed) == (steps, True)


@pytest.mark.parametrize(("first", "opened"), [(5, True), (9, False)])
def test_too_few_steps_are_told(tmp_path: Path, first: int, opened: bool) -> None:
    done, seen = run(tmp_path, LOOP, first=first)
    assert done.returncode == 0
    assert "whole" in done.stdout
    assert seen == Seen(steps=6, opened=opened, closed=False)


def test_its_failures_are_its_own(tmp_path: Path) -> None:
    done, seen = run(
        tmp_path, LOOP.replace('print("step"', "number == 3 and sys.exit(7)\n    print('step'")
    )
    assert done.returncode == 7
    assert (seen.steps, seen.opened, seen.closed) == (3, True, False)
    done, _ = run(tmp_path, "raise ValueError('only now')\n")
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("ValueError: only now")


STUBBORN = LOOP.replace("    timeroof.step()", "    try: timeroof.step()\n    except: pass")


def test_a_program_that_catches_everything_goes_on(tmp_path: Path) -> None:
    """The region is closed all the same; where its end is what counts, it is ended."""
    done, seen = run(tmp_path, STUBBORN)
    assert (done.returncode, seen.closed, seen.steps) == (0, True, 4)
    assert "whole" in done.stdout
    done, seen = run(tmp_path, STUBBORN, what="repeat", steps=1)
    assert (done.returncode, seen.closed, seen.steps) == (0, True, 3)
    assert "whole" not in done.stdout


def test_a_module_and_files_that_have_names_of_ours(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    for name in ("msgspec.py", "polars.py", "timeroof.py"):
        (tmp_path / name).write_text("raise SystemExit('the wrong one')\n")
    text = LOOP.replace("import os, sys, timeroof", "import sys, timeroof_recorder as timeroof")
    (tmp_path / "package" / "__main__.py").write_text(text)
    done, seen = run(tmp_path, "", module="package")
    assert done.returncode == 0, done.stderr
    assert "step 3 ['x y', '--steps']" in done.stdout
    assert seen.closed


def test_in_the_counted_program_only_the_recorder_is_ours(tmp_path: Path) -> None:
    text = """
import sys
from timeroof_recorder import step
for _ in range(9):
    print([n for n in sys.modules if n.partition(".")[0] in ("timeroof", "msgspec", "polars")])
    step()
"""
    done, seen = run(tmp_path, text)
    assert done.stdout.splitlines() == ["[]"] * 4
    assert seen.closed


@pytest.mark.slow
def test_the_steps_of_torch_are_found_as_in_the_clean_run(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = """
import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(9):
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    print("step", number)
"""
    done, seen = run(
        tmp_path, text, marker="auto", what="trace", trace=str(tmp_path / "trace.json")
    )
    assert done.returncode == 0, done.stderr
    assert (seen.steps, seen.closed) == (4, True)
    # One step warmed the profiler up, one was recorded, and the trace can be read.
    from timeroof.read.load import read_files

    profile = read_files([tmp_path / "trace.json"])
    assert profile.steps is not None
    assert profile.steps.count == 1
    assert any(
        "addmm" in name
        for name in profile.kernels["op"].drop_nulls().to_list() + profile.kernels["name"].to_list()
    )
