"""Programs of several processes: every rank has its own files, workers are left alone."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.conftest import texts
from tests.live.live_programs import MODEL, check_account, folder, python, report, run
from timeroof.api.reports import load

__all__ = ["folder"]
torch = pytest.importorskip("torch")

RANKS = """
import os, torch, torch.distributed as dist
from torch import nn
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
model = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 16)
for _ in range(8):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
os.write(1, f"done {dist.get_rank()}\\n".encode())  # whole lines, whoever else writes
dist.destroy_process_group()
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="torch has no gloo")
def test_ranks_are_one_report(folder: Path) -> None:
    (folder / "ranks.py").write_text(RANKS)
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
    launcher += ["--master-port", str(free_port()), "ranks.py"]
    done = run(folder, "--save", "run.troof", "--json", "report.json", *launcher)
    assert done.returncode == 0, done.stderr
    assert sorted(line for line in done.stdout.splitlines() if line) == ["done 0", "done 1"]
    found = json.loads((folder / "report.json").read_text())
    assert {k["rank"] for k in found["kernels"]} == {0, 1}
    assert found["totals"]["contraction_flops"] == 2 * 8 * (2 * 16 * 32 + 3 * 32 * 4)
    assert len(found["ranks"]) == 2
    saved = load(folder / "run.troof")
    assert set(saved.profile.kernels["rank"].to_list()) == {0, 1}


@pytest.mark.slow
def test_a_rank_that_fails_gives_its_code(folder: Path) -> None:
    (folder / "ranks.py").write_text("import sys; sys.exit(3)\n")
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "1", "ranks.py"]
    done = run(folder, *launcher[:-1], "--master-port", str(free_port()), launcher[-1])
    assert done.returncode == 1, done.stderr
    assert "exitcode  : 3" in done.stderr


@pytest.mark.slow
def test_spawned_processes_run_as_they_would(folder: Path) -> None:
    text = MODEL.replace("def step", "def work(q):\n    q.put(__name__)\ndef step") + (
        "if __name__ == '__main__':\n"
        "    import multiprocessing as mp\n"
        "    context = mp.get_context('spawn')\n"
        "    q = context.Queue()\n"
        "    child = context.Process(target=work, args=(q,))\n"
        "    child.start(); print(q.get()); child.join()\n"
        "    for _ in range(8): step()\n"
    )
    found = report(folder, text)
    assert found["stdout"].split() == ["__mp_main__"]
    assert found["totals"]["steps"]["count"] == 8
    check_account(found)


@pytest.mark.slow
def test_forked_processes_are_not_looked_into(folder: Path) -> None:
    text = MODEL + (
        "import os, sys\n"
        "for i in range(10):\n"
        "    step()\n"
        "    if i == 6:\n"
        "        child = os.fork()\n"
        "        if child == 0:\n"
        "            step(); step(); print('child', flush=True); sys.exit(5)\n"
        "        print('code', os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    found = report(folder, "import warnings; warnings.simplefilter('ignore')\n" + text)
    assert found["stdout"].split() == ["child", "code", "5"]
    assert found["totals"]["steps"]["count"] == 10
    assert any("forked" in note for note in texts(found))
    check_account(found)


def test_a_block_that_forks_is_recorded_in_pieces(folder: Path) -> None:
    script = folder / "block.py"
    script.write_text(
        "import os, torch, timeroof\n"
        "x = torch.ones(16, 16)\n"
        "with timeroof.profile() as p:\n"
        "    x + x\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        x @ x; os._exit(3)\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "    for _ in range(5): x @ x\n"
        "rows = p.report().profile.kernels\n"
        "print(*rows['name'].to_list(), int(rows['calls'].sum()), rows['flop/fp32'].sum())\n"
    )
    code, *names, calls, flops = python(folder, script.name).split()
    assert (code, calls) == ("3", "5")
    assert all("mm" in name for name in names)
    assert float(flops) == 5 * 2 * 16**3
