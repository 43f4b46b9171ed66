"""The program has a process of its own: what is in it, and what it leaves however it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.live_programs import folder, run
from timeroof_recorder.marks import Cycle, Marks

__all__ = ["folder"]
torch = pytest.importorskip("torch")

LOADED = """
import sys
print(*sorted(n for n in sys.modules if n.partition(".")[0] in
    ("timeroof", "timeroof_recorder", "polars", "numpy", "msgspec", "typer", "rich", "atexit")))
"""


def test_at_the_first_line_only_the_recorder_is_loaded(folder: Path) -> None:
    (folder / "train.py").write_text(LOADED)
    alone = subprocess.run(
        [sys.executable, "train.py"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.split()
    loaded = set(run(folder, "train.py").stdout.split()) - set(alone)
    names = ("instruments", "log", "process", "watching")
    ours = {f"timeroof_recorder.{name}" for name in names}
    assert loaded <= {"timeroof_recorder", "atexit", *ours}
    assert "timeroof_recorder" in loaded


TRAINED = """
import sys, torch
net = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(24):
    optimizer.zero_grad(); net(torch.ones(2, 8)).sum().backward(); optimizer.step()
print(*sorted(sys.modules))
"""


@pytest.mark.slow
def test_after_many_steps_only_the_recorder_is_loaded(folder: Path) -> None:
    (folder / "train.py").write_text(TRAINED)
    alone = subprocess.run(
        [sys.executable, "train.py"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.split()
    loaded = set(run(folder, "train.py").stdout.split()) - set(alone)
    others = {name for name in loaded if not name.startswith("timeroof_recorder")}
    assert others <= MORE, others - MORE


# Of the standard library and of torch, for its profiler and its execution trace.
MORE = {"atexit"}

ENDS = {
    "os._exit": ("os._exit(7)", 7, "os._exit"),
    "abort": ("os.abort()", -6, "aborted"),
    "killed": ("os.kill(os.getpid(), 9)", -9, "SIGKILL"),
    "memory": ("raise MemoryError", 1, "MemoryError"),
}


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_a_program_that_dies_leaves_a_report_and_its_code(folder: Path, end: str) -> None:
    dies, code, words = ENDS[end]
    (folder / "train.py").write_text(
        "import os, torch\ntorch.set_num_threads(1)\n"
        "m = torch.nn.Linear(64, 64)\no = torch.optim.SGD(m.parameters(), lr=0.1)\n"
        "for i in range(40):\n"
        "    o.zero_grad(); m(torch.ones(8, 64)).sum().backward(); o.step()\n"
        f"    if i == 19: {dies}\n"
    )
    done = run(folder, "--json", "report.json", "train.py")
    assert done.returncode == code, done.stderr
    found = json.loads((folder / "report.json").read_text())
    # What was written down last is less than a millisecond old.
    assert 15 < found["totals"]["steps"]["count"] <= 20
    assert found["kernels"]
    (note,) = [n["text"] for n in found["notes"] if n["text"].startswith("Partial")]
    assert words in note


@pytest.mark.slow
def test_steps_in_a_thread_are_reported(folder: Path) -> None:
    (folder / "train.py").write_text(
        "import torch, threading\ntorch.set_num_threads(1)\n"
        "def work():\n"
        "    m = torch.nn.Linear(64, 64); o = torch.optim.SGD(m.parameters(), lr=0.1)\n"
        "    for i in range(20): o.zero_grad(); m(torch.ones(8, 64)).sum().backward(); o.step()\n"
        "t = threading.Thread(target=work); t.start(); t.join()\n"
    )
    done = run(folder, "--json", "report.json", "train.py")
    found = json.loads((folder / "report.json").read_text())
    assert (found["totals"]["steps"]["count"], found["totals"]["steps"]["mark"]) == (20, "SGD.step")
    assert found["kernels"], done.stderr


GAN = """
import torch
torch.set_num_threads(1)
G, D = torch.nn.Linear(8, 16), torch.nn.Linear(16, 1)
od, og = torch.optim.Adam(D.parameters()), torch.optim.Adam(G.parameters())
for i in range(30):
    for k in range(2):
        od.zero_grad(); D(G(torch.randn(8, 8)).detach()).mean().backward(); od.step()
    og.zero_grad(); D(G(torch.randn(8, 8))).mean().backward(); og.step()
"""


@pytest.mark.slow
def test_the_rarest_optimizer_marks_the_cycle(folder: Path) -> None:
    (folder / "train.py").write_text(GAN)
    done = run(folder, "--json", "report.json", "train.py")
    steps = json.loads((folder / "report.json").read_text())["totals"]["steps"]
    assert (steps["count"], steps["mark"]) == (30, "Adam.step")
    assert sum(kind["count"] for kind in steps["kinds"]) == 30
    assert "30 steps (Adam.step) took" in done.stderr


def test_folds_one_after_the_other_are_steps_of_each() -> None:
    ends: list[int] = []
    marks = Marks("auto", ends.append)
    for fold in range(3):
        for _ in range(10):
            marks.stepped(fold, "SGD", lambda: True)
    # The first step of a new fold is known by its second.
    assert len(ends) == 28


@pytest.mark.parametrize("critics", [1, 2, 5, 10])
def test_a_cycle_has_one_end_however_many_critics(critics: int) -> None:
    cycle = Cycle(16)
    ends = [cycle.came(key) for key in ("d" * critics + "g") * 40]
    assert 38 <= sum(end != "nothing" for end in ends[-40 * (critics + 1) // 2 :]) * 2 <= 42


def test_without_the_pth_file_the_recorder_comes_by_sitecustomize(folder: Path) -> None:
    from timeroof.live import running

    root = Path(running.__file__).resolve().parents[2]
    entry = root / "timeroof_recorder" / "entry"
    (folder / "sitecustomize.py").write_text("print('theirs')\n")
    (folder / "plan").touch()
    code = "import sys; print('timeroof_recorder' in sys.modules, sys.modules['sitecustomize'].__name__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": f"{entry}:{root}:{folder}", "TIMEROOF_RECORD": "1:/none"},
        capture_output=True, text=True, check=True, cwd=folder,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["theirs", "True sitecustomize"]


@pytest.mark.slow
def test_a_cost_that_the_program_states_is_known_outside_of_it(folder: Path) -> None:
    (folder / "train.py").write_text(
        "import torch, timeroof\ntorch.set_num_threads(1)\n"
        "@timeroof.cost_of('aten::mm')\n"
        "def mine(call): return {'flops': 5, 'bytes': 4}\n"
        "for i in range(12): torch.ones(8, 8) @ torch.ones(8, 8); timeroof.step()\n"
    )
    done = run(folder, "--json", "report.json", "train.py")
    found = json.loads((folder / "report.json").read_text())
    products = [row for row in found["kernels"] if row["op"] == "aten::mm"]
    assert sum(row["flops"].get("fp32", 0) for row in products) == 5, done.stderr
