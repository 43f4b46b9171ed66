"""A new framework is one file of instruments: the neutral session gives it everything else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.live.live_programs import MACHINE
from timeroof.api.live import report_of_run
from timeroof.api.reports import machine
from timeroof.core.report import Report
from timeroof.live.running import run_recorded

HERE = Path(__file__).parent / "toy_framework"
PROGRAM = f"""
import os, sys; os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, {str(HERE)!r})
import numpy as np
import toynp
N = 256
model = toynp.Model(N)
descent = toynp.Descent(model)
x = np.ones((64, N), np.float32)
for turn in range(64):
    y = model(x)
    toynp.transposed(y)
    large = np.ones((1024, 1024), np.float32)  # fresh pages in every step
    descent.step(np.full((N, N), 1e-6, np.float32))
    if turn % 8 == 7:
        for _ in range(6): model(x[:32])
    if turn == 30:
        child = os.fork()
        if not child: os._exit(0)
        os.waitpid(child, 0)
print("done")
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder = tmp_path_factory.mktemp("toy")
    (folder / "train.py").write_text(PROGRAM)
    (folder / "toy.toml").write_text(MACHINE)
    records = folder / "records"
    records.mkdir()
    plan = {"warmup": 2, "steps": 20, "frameworks": {"toynp": "toynp_instruments"}}
    ended = run_recorded([sys.executable, str(folder / "train.py")], records, plan)
    assert ended.code == 0
    kind = "training, 64x256"
    report, _ = report_of_run(records, machine(str(folder / "toy.toml")), step_kind=kind)
    return report


def test_what_marks_a_step_and_its_kinds(made: Report) -> None:
    steps = made.profile.steps
    assert steps is not None
    assert (steps.count, steps.mark) == (64, "Descent.step")
    counts = {kind.name: kind.count for kind in steps.kinds}
    assert counts == {"training, 64x256": 57, "training, 32x256 and 64x256": 7}
    assert sum(kind.share or 0.0 for kind in steps.kinds) == pytest.approx(1.0)


def test_unprofiled_and_profiled_steps_and_the_cost_of_an_event(made: Report) -> None:
    steps, totals = made.profile.steps, made.totals
    assert steps is not None
    assert steps.unprofiled_s is not None
    assert steps.profiled_s is not None
    assert totals.wall_s == steps.unprofiled_s
    assert made.rows["timed_s"].sum() >= made.rows["time_s"].sum() > 0
    whole = totals.kernel_s + totals.idle_s + totals.unexplained_s
    assert whole == pytest.approx(totals.wall_s, rel=1e-9)


def test_flops_bytes_launches_and_faults(made: Report) -> None:
    rows = {row["name"]: row for row in made.rows.iter_rows(named=True)}
    assert set(rows) == {"toy.matmul", "toy.relu", "toy.add"}  # a view does no work
    product = rows["toy.matmul"]
    assert (product["calls"], product["launches"]) == (2.0, 2.0)
    assert product["flop/fp32"] == 2 * 2 * 64 * 256 * 256
    assert product["byte/l1"] >= 2 * 4 * (2 * 64 * 256 + 256 * 256)
    assert rows["toy.add"]["phase"] == "optimizer"
    assert made.profile.steps is not None
    assert made.totals.known_time_share == 1.0
    assert all(row["limiter"] != "unknown" for row in rows.values())


def test_what_was_noticed_and_the_source(made: Report) -> None:
    assert any("forked" in str(note) for note in made.notes)
    assert [(f.name, f.version) for f in made.profile.source.frameworks] == [("toynp", "1.0")]
