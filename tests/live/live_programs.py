"""Small PyTorch programs run by `timeroof run` in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MACHINE = """
schema = "timeroof.machine/1"
name = "toy-cpu"
title = "Toy CPU"
kind = "cpu"
launching = "synchronous"
[[ceilings]]
resource = "flop/fp32"
rate = 1e11
origin = "user"
source = "a round number"
[[ceilings]]
resource = "flop/fp64"
rate = 5e10
origin = "user"
source = "a round number"
[[ceilings]]
resource = "byte/dram"
rate = 2e10
origin = "user"
source = "a round number"
[[ceilings]]
resource = "fault"
rate = 4e6
origin = "user"
source = "a round number"
[[ceilings]]
resource = "launch"
rate = 5e6
origin = "user"
source = "a round number"
[[memory]]
level = "l3"
size_bytes = 33554432
source = "a round number"
"""


def python(folder: Path, *words: str) -> str:
    """What a program prints that is run by itself; it must end well."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


MODEL = """
import torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(8, 16), torch.randint(4, (8,))
def step():
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "toy.toml").write_text(MACHINE)
    return tmp_path


def command(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "timeroof", "run", "--machine", "toy.toml", *words]


def run(folder: Path, *words: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "160"}
    return subprocess.run(
        command(folder, *words), check=False, capture_output=True, text=True, cwd=folder,
        env=environment, timeout=timeout,
    )  # fmt: skip


def report(folder: Path, text: str, *words: str, code: int = 0, timeout: float = 300) -> dict:
    (folder / "train.py").write_text(text)
    done = run(folder, "--json", "report.json", *words, "train.py", timeout=timeout)
    assert done.returncode == code, done.stderr
    found = json.loads((folder / "report.json").read_text())
    found["stderr"], found["stdout"] = done.stderr, done.stdout
    return found


def check_account(found: dict) -> None:
    """The parts of the step sum to it."""
    totals = found["totals"]
    parts = sum(k["time_s"] for k in found["kernels"]) + sum(totals["idle_by_cause"].values())
    parts += totals["unexplained_s"] or 0.0
    assert parts == pytest.approx(totals["wall_s"], rel=1e-9)
    assert totals["steps"]["unprofiled_s"] in (None, totals["wall_s"])
