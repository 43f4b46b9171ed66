"""Programs as people have them, each with what a report of it must say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import timeroof as api
from tests.live.live_programs import folder, python, report, run

__all__ = ["folder"]
pytestmark = pytest.mark.slow

HEAD = "import torch\ntorch.manual_seed(0)\ntorch.set_num_threads(1)\n"


def kinds(found: dict) -> dict[str, dict]:
    """The kinds of steps by name, without what came after the last step."""
    return {kind["name"]: kind for kind in found["totals"]["steps"]["kinds"] if kind["count"]}


def test_ranks_of_mp_spawn_are_one_report(folder: Path) -> None:
    text = (
        "import os, torch, torch.distributed as dist, torch.multiprocessing as mp\n"
        "def work(rank, file):\n"
        "    torch.set_num_threads(1)\n"
        "    dist.init_process_group('gloo', init_method=f'file://{file}', rank=rank, world_size=2)\n"
        "    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))\n"
        "    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "    for _ in range(20):\n"
        "        net(torch.ones(8, 64)).square().mean().backward()\n"
        "        optimizer.step(); optimizer.zero_grad()\n"
        "    dist.destroy_process_group()\n"
        "if __name__ == '__main__': mp.spawn(work, (os.path.abspath('meeting'),), nprocs=2)\n"
    )
    found = report(folder, text, timeout=400)
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1]
    assert found["totals"]["steps"]["count"] == 20
    assert not any("other process" in note["text"] for note in found["notes"])


def test_a_loop_over_plain_tensors_is_seen_in_windows(folder: Path) -> None:
    text = HEAD + (
        "u = torch.randn(256, 256)\n"
        "import time; end = time.process_time() + 1.0\n"
        "while time.process_time() < end:\n"
        "    around = u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1) - 4 * u\n"
        "    u = u + 0.1 * around\n"
    )
    found = report(folder, text)
    assert {"aten::sub", "aten::add"} <= {row["name"] for row in found["kernels"]}
    assert "nothing marks a step" in found["stderr"]
    assert list(kinds(found)) == ["window"]


def test_training_in_a_thread_ends_windows_of_the_main_one(folder: Path) -> None:
    text = HEAD + (
        "import threading, time\n"
        "end = time.monotonic() + 0.5\n"
        "while time.monotonic() < end: torch.ones(8) + 1\n"
        "def work():\n"
        "    net = torch.nn.Linear(64, 64)\n"
        "    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "    for _ in range(40):\n"
        "        optimizer.zero_grad(); net(torch.randn(8, 64)).square().mean().backward()\n"
        "        optimizer.step()\n"
        "thread = threading.Thread(target=work); thread.start(); thread.join()\n"
    )
    found = report(folder, text)
    # A main thread that others keep from a CPU ends its window late.
    assert 20 < found["totals"]["steps"]["count"] <= 40
    assert found["totals"]["steps"]["mark"] == "SGD.step"
    assert {"forward", "backward", "optimizer"} <= {row["phase"] for row in found["kernels"]}


def test_work_in_every_eighth_step_is_accounted_for(folder: Path) -> None:
    text = HEAD + (
        "import time\n"
        "net = torch.nn.Linear(64, 64)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.01)\n"
        "a = torch.randn(400, 400)\n"
        "for step in range(64):\n"
        "    optimizer.zero_grad(); net(torch.randn(32, 64)).square().mean().backward()\n"
        "    optimizer.step()\n"
        "    if step % 8 == 7:\n"
        "        end = time.thread_time() + 0.05\n"
        "        while time.thread_time() < end: a @ a\n"
    )
    found = report(folder, text, timeout=300)
    usual, longer = kinds(found)["training"], kinds(found)["training with other work"]
    # What follows the last step is in none; a step that others held up may be among the long ones.
    assert usual["count"] + longer["count"] == 64
    assert longer["count"] in (7, 8)
    assert longer["share"] > usual["share"]
    line = next(each for each in found["stderr"].splitlines() if each.startswith("64 steps"))
    assert re.search(
        r"took .*: [78] training steps with other work [\d.]+ m?s, 5[67] training ", line
    )


def test_batches_that_shrink_over_24_steps_are_seen(folder: Path) -> None:
    text = HEAD + (
        "from torch.nn import GELU, Linear, Sequential\n"
        "net = Sequential(Linear(128, 512), GELU(), Linear(512, 128)).eval()\n"
        "with torch.no_grad():\n"
        "    for size in [1024, 1000, 950, 900, *range(800, 0, -40)]:\n"
        "        net(torch.randn(size, 128))\n"
    )
    found = report(folder, text)
    note = next(n["text"] for n in found["notes"] if n["text"].startswith("Sizes change"))
    assert re.search(r"40x128 to 10\d\dx128", note)
    assert found["totals"]["steps"]["count"] == 24
    # Amounts and times are those of steps of one size: 8 % apart at the most here.
    chosen = int(re.search(r"about (\d+)x128", note)[1])
    assert found["totals"]["contraction_flops"] == pytest.approx(4 * chosen * 128 * 512)
    assert not [row for row in found["kernels"] if row["above_roof"] == "wrong count"]


def test_training_by_hand_and_evaluation_are_two_kinds(folder: Path) -> None:
    text = HEAD + (
        "net = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.ReLU())\n"
        "x = torch.randn(64, 128)\n"
        "for _ in range(40):\n"
        "    net.zero_grad(); net(x).square().mean().backward()\n"
        "    with torch.no_grad():\n"
        "        for p in net.parameters(): p -= 0.01 * p.grad\n"
        "net.eval()\n"
        "with torch.no_grad():\n"
        "    for _ in range(30): net(x[:16])\n"
    )
    found = report(folder, text, "--save", "run.troof")
    assert {name: kind["count"] for name, kind in kinds(found).items()} == {
        "training": 40, "evaluation": 30
    }  # fmt: skip
    assert "backward" in {row["phase"] for row in found["kernels"]}
    assert found["totals"]["known_time_share"] > 0.9
    # The other kind is in the saved run, under its name.
    with zipfile.ZipFile(folder / "run.troof") as archive:
        held = {name.split("/")[1] for name in archive.namelist() if name.startswith("kinds/")}
    assert held == {"training", "evaluation"}
    done = timeroof(
        "explain", "run.troof", "--step-kind", "evaluation", "--json", "e.json", at=folder
    )
    assert done.returncode == 0, done.stderr
    other = json.loads((folder / "e.json").read_text())
    assert "backward" not in {row["phase"] for row in other["kernels"]}
    assert [k["name"] for k in other["totals"]["steps"]["kinds"] if k["reported"]] == ["evaluation"]
    done = timeroof("report", "run.troof", "-o", "x.md", "--step-kind", "nonsense", at=folder)
    assert done.returncode == 2
    assert "no steps of the kind 'nonsense' were timed in run.troof" in done.stderr
    assert "evaluation" in done.stderr
    # Of a run beside itself nothing changed; whether a gate passes is up to the noise.
    both = ("run.troof", "run.troof", "--step-kind", "evaluation", "--json", "c.json")
    done = timeroof("compare", *both, at=folder)
    assert done.returncode == 0, done.stderr
    compared = (folder / "c.json").read_text()
    assert "aten::addmm" in compared
    assert "backward" not in compared
    gate = ("check", "run.troof", "--baseline", "run.troof", "--step-kind")
    assert timeroof(*gate, "evaluation", at=folder).returncode in (0, 1)
    assert timeroof(*gate, "nonsense", at=folder).returncode == 2


def test_run_from_python_reports_as_the_command_does(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = HEAD + (
        "import sys\n"
        "net = torch.nn.Linear(128, 256)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for _ in range(int(sys.argv[1])):\n"
        "    net(torch.ones(64, 128)).square().mean().backward()\n"
        "    optimizer.step(); optimizer.zero_grad()\n"
        "print('trained')\n"
    )
    script = folder / "by_python.py"
    script.write_text(text)
    found = api.run(script, ["24"])
    assert found.totals.steps is not None
    assert (found.totals.steps.count, found.totals.steps.mark) == (24, "SGD.step")
    assert found.totals.contraction_flops == 2 * 2 * 64 * 128 * 256  # none for the input
    assert "trained" in capfd.readouterr().out


def timeroof(*words: str, at: Path) -> subprocess.CompletedProcess[str]:
    """A command of ours in a folder."""
    line = [sys.executable, "-m", "timeroof", *words]
    return subprocess.run(line, cwd=at, capture_output=True, text=True, check=False, timeout=120)


COPIES = (
    "import copy, io, pickle, sys\n"
    "from torch.optim.swa_utils import AveragedModel\n"
    "import hashlib\n"
    "net = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU())\n"
    "def told(what, data): print(what, hashlib.sha256(data).hexdigest())\n"
    "class Pickler(pickle.Pickler):\n"
    "    def persistent_id(self, value):  # tensors are pickled with their addresses\n"
    "        return 'tensor' if torch.is_tensor(value) else None\n"
    "def pickled(value):\n"
    "    file = io.BytesIO(); Pickler(file).dump(value); return file.getvalue()\n"
    "def saved(value):\n"
    "    file = io.BytesIO(); torch.save(value, file); return file.getvalue()\n"
    "for step in range(30):\n"
    "    net(torch.randn(4, 16)).sum().backward()\n"
    "    with torch.no_grad():\n"
    "        for p in net.parameters(): p -= 0.01 * p.grad; p.grad = None\n"
    "    if step in (0, 2, 3, 4, 7, 20):\n"
    "        told('saved', saved(net)); told('state', saved(net.state_dict()))\n"
    "        told('deepcopy', saved(copy.deepcopy(net))); told('pickle', pickled(net))\n"
    "        told('average', saved(AveragedModel(net)))\n"
    "        told('script', str(torch.jit.script(net).code).encode())\n"
    "print([k for m in net.modules() for k, v in vars(m).items() if 'hook' in k and v])\n"
    "print(sorted(k for k in vars(net) if k in ('forward', '__call__')))\n"
)


def test_copies_of_a_model_in_any_step_are_those_of_the_bare_program(folder: Path) -> None:
    text = "import warnings; warnings.simplefilter('ignore')\n" + HEAD + COPIES
    found = report(folder, text)
    assert found["stdout"] == python(folder, "train.py")
    assert found["totals"]["steps"]["count"] >= 29


def test_a_model_that_was_evaluated_first_is_copied_scripted_and_exported(folder: Path) -> None:
    text = "import warnings; warnings.simplefilter('ignore')\n" + HEAD + (
        "from torch.optim.swa_utils import AveragedModel\n"
        "net = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU())\n"
        "optimizer = torch.optim.Adam(net.parameters())\n"
        "with torch.no_grad():\n"
        "    for _ in range(20): net(torch.randn(8, 16))\n"
        "torch.jit.script(net); torch.export.export(net, (torch.randn(8, 16),))\n"
        "average = AveragedModel(net)\n"
        "for _ in range(20):\n"
        "    net(torch.randn(8, 16)).sum().backward(); optimizer.step(); optimizer.zero_grad()\n"
        "    average.update_parameters(net)\n"
        "print('ok')\n"
    )  # fmt: skip
    found = report(folder, text)
    assert found["stdout"].strip() == "ok"
    assert found["totals"]["steps"]["mark"] == "Adam.step"


def test_an_optimizer_that_does_more_with_every_step_is_known(folder: Path) -> None:
    """LBFGS goes round its history, which grows: the described step has fewer of the same ops."""
    text = HEAD + (
        "x = torch.randn(128, 16); y = x.sin().sum(1, keepdim=True)\n"
        "net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))\n"
        "optimizer = torch.optim.LBFGS(net.parameters(), lr=0.3, max_iter=4)\n"
        "def closure():\n"
        "    optimizer.zero_grad(); loss = (net(x) - y).square().mean(); loss.backward(); return loss\n"
        "for _ in range(24): optimizer.step(closure)\n"
    )
    found = report(folder, text)
    assert found["totals"]["known_time_share"] > 0.97
    products = {row["phase"] for row in found["kernels"] if row["op"] == "aten::dot"}
    assert products == {"optimizer"}


def test_an_evaluation_in_every_sixth_step_has_amounts_of_its_own(folder: Path) -> None:
    text = HEAD + (
        "net = torch.nn.Linear(64, 64); optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for step in range(36):\n"
        "    optimizer.zero_grad(); net(torch.randn(8, 64)).square().mean().backward()\n"
        "    optimizer.step()\n"
        "    if step % 6 == 5:\n"
        "        with torch.no_grad():\n"
        "            net.eval(); [net(torch.randn(256, 64)) for _ in range(10)]; net.train()\n"
    )
    found = report(folder, text, "--step-kind", "training with evaluation")
    products = 2 * 64 * 64 * (2 * 8 + 10 * 256)
    assert found["totals"]["contraction_flops"] == products
    assert found["totals"]["known_time_share"] > 0.99


PPO = """
import gymnasium, torch
from stable_baselines3 import PPO
PPO("MlpPolicy", "CartPole-v1", n_steps=128, batch_size=64, n_epochs=4, device="cpu").learn(1024)
"""


@pytest.mark.long
def test_rollouts_and_updates_of_ppo_are_kinds(folder: Path) -> None:
    pytest.importorskip("stable_baselines3")
    found = report(folder, PPO)
    names = kinds(found)
    assert any("inference" in name or "evaluation" in name for name in names), names
    assert sum(kind["share"] for kind in found["totals"]["steps"]["kinds"]) == pytest.approx(1.0)


def test_a_kind_that_was_not_timed_is_refused_in_one_line(folder: Path) -> None:
    (folder / "train.py").write_text(
        HEAD + "net = torch.nn.Linear(8, 8)\nfor _ in range(12): net(torch.ones(2, 8))\n"
    )
    done = run(folder, "--step-kind", "nonsense", "train.py")
    assert "no steps of the kind 'nonsense'" in done.stderr
    assert "Traceback" not in done.stderr


CROWD = """
import threading, time, torch
from timeroof_recorder.torch.describing import Describing, others_are_past
torch.set_num_threads(1)
over = False
def work():
    x = torch.rand(64, 64)
    while not over: x = torch.sigmoid(x @ x.T / 300)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
whole = 0
end = time.monotonic() + 6
while time.monotonic() < end:
    if others_are_past():
        describing = Describing()
        assert describing.start("trace.json")
        torch.ones(3) + 1
        whole += describing.stop()
over = True
for thread in threads: thread.join()
print(whole)
"""


def test_steps_are_described_beside_threads_that_run_ops(folder: Path) -> None:
    """Torch's observer is asked around every op of every thread, also where it is just leaving."""
    done = subprocess.run(
        [sys.executable, "-c", CROWD], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout) > 0


THREADS = """
import threading, torch
def client():
    net = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad(); net(torch.ones(4, 8)).sum().backward(); optimizer.step()
for _ in range(12):
    thread = threading.Thread(target=client); thread.start(); thread.join()
"""


def test_a_thread_that_ends_in_a_profiled_step_says_nothing(folder: Path) -> None:
    found = report(folder, THREADS)
    assert found["totals"]["steps"]["count"] == 36
    assert "Leaked" not in found["stderr"]
    assert found["totals"]["known"]["flops"] > 0.5


PLAIN = """
def work(number):
    import time
    x = torch.rand(256, 256)
    end = time.thread_time() + 1.0
    while time.thread_time() < end: x = torch.sigmoid(x @ x.T / 256)
"""


def test_plain_tensors_in_a_thread_are_seen_in_windows(folder: Path) -> None:
    text = "import threading\nthread = threading.Thread(target=work, args=(0,))\n"
    found = report(folder, HEAD + PLAIN + text + "thread.start(); thread.join()\n")
    assert {"aten::mm", "aten::sigmoid"} <= {row["name"] for row in found["kernels"]}
