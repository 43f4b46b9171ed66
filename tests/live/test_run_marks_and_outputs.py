"""Programs that outsiders brought: quotes in names, loops of cells, closed streams, folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import texts
from tests.live.live_programs import MODEL, check_account, folder, report, run

__all__ = ["folder"]
pytest.importorskip("torch")


@pytest.mark.slow
def test_quotes_in_names_cost_no_step(folder: Path) -> None:
    text = MODEL + (
        "import timeroof\n"
        "for _ in range(12):\n"
        "    with torch.profiler.record_function('own \"name\"'): torch.ones(8) + 1\n"
        "    with timeroof.cost(flops=12345, bytes=6789, name='my \"kernel\" ü\\n x'): x @ x.t()\n"
        "    step()\n"
    )
    found = report(folder, text)
    mine = next(k for k in found["kernels"] if k["name"] == 'my "kernel" ü\n x')
    assert mine["flops"] == {"fp32": 12345} or 12345 in mine["flops"].values()
    assert found["totals"]["known_time_share"] > 0.9
    assert not any("described" in n for n in texts(found))
    check_account(found)


@pytest.mark.slow
def test_a_loop_of_cells_steps_with_its_optimizer(folder: Path) -> None:
    text = """
import torch
torch.set_num_threads(1)
cell = torch.nn.GRUCell(4, 4)
optimizer = torch.optim.SGD(cell.parameters(), 0.1)
for _ in range(9):
    h = torch.zeros(2, 4)
    for _ in range(20): h = cell(torch.ones(2, 4), h)
    optimizer.zero_grad(); h.sum().backward(); optimizer.step()
"""
    found = report(folder, text)
    assert found["totals"]["steps"]["count"] == 9
    check_account(found)


@pytest.mark.slow
def test_outputs_stay_where_they_were_asked_for_and_codes_too(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    text = MODEL + (
        "import os, sys\nfor _ in range(10): step()\nos.chdir('elsewhere')\n"
        "sys.stdout.close(); os.close(1)\nstep()\nsys.exit(4)\n"
    )
    found = report(folder, text, "--html", "page.html", code=4)
    assert (folder / "page.html").exists()
    assert "Partial" not in found["stderr"]
    assert list((folder / "elsewhere").iterdir()) == []


def test_outputs_that_cannot_be_are_refused_before_the_program_runs(folder: Path) -> None:
    (folder / "train.py").write_text("print('ran')\n")
    (folder / "file").write_text("")
    for words in (
        ["--html", "page.txt"], ["--save", "run.json"], ["--out", "file"],
        ["--json", "file/x.json"], ["--json", "."],
    ):  # fmt: skip
        done = run(folder, *words, "train.py")
        assert (done.returncode, done.stdout) == (2, ""), words
        assert done.stderr.count("\n") == 1
    assert run(folder, ".").returncode == 2


@pytest.mark.slow
def test_ops_on_the_meta_device_are_no_work(folder: Path) -> None:
    text = (
        "import torch\nm = torch.nn.Linear(300, 300, device='meta')\n"
        "for _ in range(12): m(torch.empty(10, 300, device='meta'))\n"
    )
    found = report(folder, text)
    assert sum((found["totals"]["flops"] or {}).values()) == 0


def test_the_program_s_own_profiler_is_the_only_reason_given(folder: Path) -> None:
    found = report(folder, MODEL + "with torch.profiler.profile():\n  for _ in range(9): step()\n")
    notes = json.dumps(found["notes"])
    assert "own profiler was on" in notes
    assert "more steps" not in notes
