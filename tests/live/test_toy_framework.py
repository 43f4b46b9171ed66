"""A new framework is one file of instruments: the neutral session gives it everything else."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.live.live_programs import MACHINE
from timeroof.api.live import recordings_in, report_of_run
from timeroof.api.reports import machine
from timeroof.core.report import Report
from timeroof.live.running import run_recorded
from timeroof.views.render import render
from timeroof_recorder.log import write_plan

HERE = Path(__file__).parent / "toy_framework"
PROGRAM = f"""
import mmap, os, sys; os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
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
    large = mmap.mmap(-1, 1 << 20); large[::4096] = bytes(256); large.close()  # fresh pages
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
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    (folder / "train.py").write_text(PROGRAM)
    (folder / "toy.toml").write_text(MACHINE)
    records = folder / "records"
    records.mkdir()
    plan = {"warmup": 2, "steps": 20, "frameworks": {"toynp": "toynp_instruments"}}
    write_plan(str(records), plan)
    ended = run_recorded([sys.executable, str(folder / "train.py")], records)
    assert ended.code == 0
    return folder


@pytest.fixture(scope="module")
def made(ran: Path) -> Report:
    kind = "training, 64x256"
    toy = machine(str(ran / "toy.toml"))
    report, _ = report_of_run(ran / "records", toy, step_kind=kind)
    return report


def test_what_marks_a_step_and_its_kinds(made: Report) -> None:
    steps = made.profile.steps
    assert steps is not None
    assert (steps.count, steps.mark) == (64, "Descent.step")
    counts = {kind.name: kind.count for kind in steps.kinds if kind.count}
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


def test_page_faults_of_unprofiled_steps_are_counted(ran: Path) -> None:
    clean = recordings_in(ran / "records")[0][0].clean
    assert len(clean) >= 3
    # A megabyte of fresh memory in every step: 256 pages, or a huge one.
    assert all(step.faults >= 1 for step in clean)


def test_the_full_report_is_the_same_as_of_any_framework(made: Report, tmp_path: Path) -> None:
    for name in ("report.json", "report.html", "report.md"):
        render(made, tmp_path / name)
    assert "toy.matmul" in (tmp_path / "report.html").read_text(encoding="utf-8")
    document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert {row["name"] for row in document["kernels"]} == {"toy.matmul", "toy.relu", "toy.add"}
    assert document["totals"]["by_class"]
    assert document["timeline"]


def test_what_was_noticed_and_the_source(made: Report) -> None:
    assert any("forked" in str(note) for note in made.notes)
    assert [(f.name, f.version) for f in made.profile.source.frameworks] == [("toynp", "1.0")]
