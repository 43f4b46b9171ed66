"""Every example runs as a user would run it, and prints a finite loss per step."""

import math
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from timeroof_recorder.schedule import Pass, Schedule

pytest.importorskip("torch")

# Whole programs, seconds each.
pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = ["resnet50", "gpt2", "lstm_lm", "lstm_loop", "unet", "dlrm"]
VARIANTS = [("resnet50", "--channels-last"), ("unet", "--interpolate")]
LINE = re.compile(r"^step (\d+) loss (\S+) time (\S+) s$")


def run(script: str, *options: str) -> list[re.Match[str]]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{script}.py"), *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    lines = [LINE.match(line) for line in done.stdout.splitlines()]
    assert all(lines), done.stdout
    return [line for line in lines if line]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_small_example_trains_two_steps(script: str) -> None:
    lines = run(script, "--steps", "2", "--small", "--threads", "1", "--batch", "2")
    assert [line[1] for line in lines] == ["0", "1"]
    assert all(math.isfinite(float(line[2])) for line in lines)


@pytest.mark.parametrize(("script", "option"), VARIANTS)
def test_a_variant_runs(script: str, option: str) -> None:
    assert len(run(script, "--steps", "1", "--small", option)) == 1


@pytest.mark.long
def test_the_same_seed_gives_the_same_losses() -> None:
    first, second = (run("gpt2", "--steps", "2", "--small", "--seed", "3") for _ in range(2))
    assert [line[2] for line in first] == [line[2] for line in second]


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_default_steps_give_clean_timed_and_described_ones(script: str) -> None:
    text = (EXAMPLES / f"{script}.py").read_text()
    found = re.search(r'"--steps", type=int, default=(\d+)', text)
    assert found
    plan = Schedule(warmup=1, steps=20)
    seen = Counter(plan.next() for _ in range(int(found[1]) - 1))
    assert seen[Pass.CLEAN] >= 3
    assert seen[Pass.TIMED] >= 2
    assert seen[Pass.DESCRIBED] >= 1


def test_the_readme_names_every_example() -> None:
    text = (EXAMPLES / "README.md").read_text()
    assert {p.stem for p in EXAMPLES.glob("*.py")} == set(SCRIPTS)
    assert all(f"`{script}.py`" in text for script in SCRIPTS)
