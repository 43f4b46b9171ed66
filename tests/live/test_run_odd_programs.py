"""Odd programs under `timeroof run`: a clear word, as much as can be done, their own exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import texts
from tests.live.live_programs import MODEL, check_account, folder, report, run
from timeroof.core.shapes import shape_text

__all__ = ["folder"]
torch = pytest.importorskip("torch")


def test_a_device_that_is_not_there_fails_as_it_does_alone(folder: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    found = report(folder, MODEL + "model.to('cuda')\n", code=1)
    assert "Partial" in found["stderr"]
    assert "CUDA" in found["stderr"] or "cuda" in found["stderr"]
    assert found["kernels"] == []


def test_sys_exit_before_any_step(folder: Path) -> None:
    found = report(folder, "import torch, sys\nsys.exit(3)\n", code=3)
    assert "No step was found" in found["stderr"]
    assert "exited with code 3" in found["stderr"]
    assert "Partial" not in found["stderr"]


def test_a_program_without_torch_is_told_so(folder: Path) -> None:
    (folder / "plain.py").write_text("print('hello')\n")
    done = run(folder, "plain.py")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert "imported neither torch nor jax" in done.stderr


@pytest.mark.slow
def test_an_error_in_a_forward_call_keeps_what_was_seen(folder: Path) -> None:
    text = MODEL + "for i in range(9): step()\nmodel(torch.ones(3, 3))\n"
    found = report(folder, text, code=1)
    assert "RuntimeError" in found["stderr"]
    assert any("Partial" in note for note in texts(found))
    check_account(found)


@pytest.mark.slow
def test_an_old_style_profiler_goes_first_too(folder: Path) -> None:
    text = MODEL + (
        "import warnings; warnings.simplefilter('ignore')\n"
        "for i in range(14):\n"
        "    if i == 5:\n"
        "        with torch.autograd.profiler.profile() as p: step()\n"
        "        print(any('addmm' in e.name for e in p.function_events))\n"
        "    else: step()\n"
    )
    found = report(folder, text)
    assert found["stdout"].split() == ["True"]
    check_account(found)


def test_double_and_complex_numbers_are_counted_in_their_formats(folder: Path) -> None:
    text = """
import torch, timeroof
torch.set_num_threads(1)
d, c = torch.ones(32, 16, dtype=torch.float64), torch.ones(8, 8, dtype=torch.complex128)
for _ in range(8):
    d.t() @ d; c @ c
    timeroof.step()
"""
    found = report(folder, text)
    assert found["totals"]["flops"]["fp64"] == 2 * 16 * 16 * 32 + 8 * 8**3
    assert sum(found["totals"]["flops"].values()) == found["totals"]["flops"]["fp64"]
    check_account(found)


@pytest.mark.slow
def test_compressed_sparse_tensors_are_timed_and_said_to_be_unknown(folder: Path) -> None:
    text = """
import torch, timeroof, warnings
warnings.simplefilter("ignore")
s = torch.eye(64).to_sparse_csr()
parts = [torch.ones(2, 8), torch.ones(5, 8)]
n = torch.nested.nested_tensor(parts, layout=torch.jagged)
w = torch.ones(8, 8)
for _ in range(8):
    s @ torch.ones(64, 4)
    torch.nn.functional.linear(n, w)
    timeroof.step()
"""
    found = report(folder, text)
    # torch's execution trace would end the program.
    assert any("compressed sparse" in note for note in texts(found))
    assert len(found["kernels"]) >= 2
    assert found["totals"]["known_time_share"] == 0
    check_account(found)


def test_products_of_mkl_are_op_rows(folder: Path) -> None:
    text = """
import os, torch, timeroof
torch.set_num_threads(1)
a, b = torch.ones(64, 32), torch.ones(32, 48)
q = torch.ones(1, 2, 64, 16)
for i in range(12):
    print("a", end="", flush=True); a @ b; os.write(1, b"b"); a.t() @ a
    torch.nn.functional.scaled_dot_product_attention(q, q, q)
    print(i)
    timeroof.step()
"""
    found = report(folder, text)
    assert found["stdout"].split() == [f"ab{i}" for i in range(12)]
    products = {shape_text(k["shape"]): k for k in found["kernels"] if k["name"] == "aten::mm"}
    assert {shape: k["contraction_flops"] for shape, k in products.items()} == {
        "64x32, 32x48": 2 * 64 * 32 * 48, "32x64, 64x32": 2 * 32 * 32 * 64,
    }  # fmt: skip
    assert {k["kind"] for k in found["kernels"] if k["contraction_flops"]} == {"op"}
    assert not [k for k in found["kernels"] if k["name"].startswith("mkl")]
    whole = found["totals"]["contraction_flops"]
    assert whole == pytest.approx(2 * 64 * 32 * 48 + 2 * 32 * 32 * 64 + 2 * 2 * 2 * 64 * 64 * 16)
    check_account(found)


@pytest.mark.slow
def test_lines_of_the_program_on_demand(folder: Path) -> None:
    found = report(folder, MODEL + "for _ in range(10): step()\n", "--source")
    lines = (folder / "train.py").read_text().splitlines()
    forward = next(i for i, line in enumerate(lines, 1) if "model(x)" in line)
    update = next(i for i, line in enumerate(lines, 1) if "optimizer.step()" in line)
    sources: dict[str, set[str]] = {}
    for kernel in found["kernels"]:
        sources.setdefault(kernel["phase"], set()).add(kernel["labels"].get("source"))
    assert f"train.py:{forward}" in sources["forward"]
    # A backward op belongs to the line that made it, not to the one that calls backward().
    products = {k["labels"]["source"] for k in found["kernels"] if k["phase"] == "backward"
                and "mm" in k["name"]}  # fmt: skip
    assert products == {f"train.py:{forward}"}
    assert f"train.py:{update}" in sources["optimizer"]
    assert "Largest lines" in found["stderr"]
    assert {"model.0", "model.2"} <= {k["module"] for k in found["kernels"]}
    check_account(found)
    plain = report(folder, MODEL + "for _ in range(10): step()\n")
    assert all("source" not in k["labels"] for k in plain["kernels"])


@pytest.mark.slow
def test_sleep_in_a_step_is_neither_python_nor_launching(folder: Path) -> None:
    asleep = MODEL + "\nimport time\nfor _ in range(16):\n    step(); time.sleep(0.02)\n"
    found = report(folder, asleep)
    idle = found["totals"]["idle_by_cause"]
    assert idle["asleep"] > 0.015
    assert idle["asleep"] > 0.5 * sum(idle.values())
    check_account(found)
    assert "The program sleeps for" in found["stderr"]


@pytest.mark.slow
def test_a_decorated_function_is_looked_at_in_its_first_thread(folder: Path) -> None:
    program = """
import threading, torch, timeroof
x = torch.randn(64, 64)

@timeroof.profile
def work():
    for _ in range(20): x @ x

def calls():
    for _ in range(12): work()

first = threading.Thread(target=calls)
first.start(); first.join()
others = [threading.Thread(target=calls) for _ in range(3)]
for t in others: t.start()
for t in others: t.join()
found = work.report()
print(found.profile.steps.count, "mm" in str(found.profile.kernels["name"].to_list()))
print([n for n in found.notes if "threads" in n])
"""
    (folder / "threads.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "threads.py"], cwd=folder, capture_output=True, text=True, check=True
    )
    first, second = done.stdout.splitlines()
    assert first == "12 True"
    assert "Calls in other threads than the first are not looked at" in second


WATCHED = """
import sys, torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
seen = set()
class Functions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        seen.add(str(function))
        return function(*args, **(kwargs or {}))
class Ops(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        seen.add(str(function))
        return function(*args, **(kwargs or {}))
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(2, 4)
with Functions() if sys.argv[1] == "functions" else Ops():
    for _ in range(20):
        model(x).exp().mean().backward(); optimizer.step(); optimizer.zero_grad()
print(len(seen), "sigmoid" in str(seen), "convolution" in str(seen), "mm" in str(seen))
"""


@pytest.mark.parametrize("mode", ["functions", "ops"])
@pytest.mark.slow
def test_modes_of_the_program_see_no_op_of_ours(folder: Path, mode: str) -> None:
    (folder / "watched.py").write_text(WATCHED)
    alone = subprocess.run(
        [sys.executable, "watched.py", mode], cwd=folder, capture_output=True, text=True, check=True
    )
    assert run(folder, "watched.py", mode).stdout == alone.stdout


def test_a_script_has_its_whole_path_wherever_it_goes(folder: Path) -> None:
    text = (
        "import os\nx: int = 1\nos.chdir('/')\nprint(__file__, __annotations__)\nopen(__file__)\n"
    )
    (folder / "moves.py").write_text(text)
    alone = subprocess.run(
        [sys.executable, "moves.py"], cwd=folder, capture_output=True, text=True, check=True
    )
    done = run(folder, "moves.py")
    assert (done.returncode, done.stdout) == (0, alone.stdout)


@pytest.mark.slow
def test_lines_of_a_program_whose_folder_is_gone(folder: Path) -> None:
    gone = "import os, tempfile\nd = tempfile.mkdtemp()\nos.chdir(d); os.rmdir(d)\n"
    found = report(folder, MODEL + gone + "for _ in range(12): step()\n", "--source")
    assert len(found["kernels"]) > 0
    assert any("train.py:" in k["labels"].get("source", "") for k in found["kernels"])


@pytest.mark.slow
def test_gradients_by_transforms_are_steps(folder: Path) -> None:
    program = """
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
state, x = dict(model.named_parameters()), torch.randn(4, 8)
loss = lambda s: torch.func.functional_call(model, s, (x,)).pow(2).mean()
for _ in range(24):
    gradient = torch.func.grad(loss)(state)
    state = {k: v - 0.1 * gradient[k] for k, v in state.items()}
"""
    found = report(folder, program)
    assert "Watching stopped" not in found["stderr"]
    assert found["totals"]["steps"]["count"] > 20
    check_account(found)


@pytest.mark.slow
def test_ops_in_threads_of_the_program_are_named(folder: Path) -> None:
    threads = """
import threading, time
running = True
def others():
    a = torch.ones(64, 64)
    while running: a.softmax(0); time.sleep(0.001)
thread = threading.Thread(target=others); thread.start()
for _ in range(16): step(); time.sleep(0.005)
running = False; thread.join()
"""
    found = report(folder, MODEL + threads)
    assert any("Other threads of the program" in n and "softmax" in n for n in texts(found))


@pytest.mark.parametrize("steps", [4, 5])
@pytest.mark.slow
def test_a_program_of_few_steps_has_times_amounts_and_an_unprofiled_step(
    folder: Path, steps: int
) -> None:
    # Half a sleep, so that a busy machine does not decide how long a step takes.
    text = MODEL + f"\nimport time\nfor _ in range({steps}):\n    step(); time.sleep(0.1)\n"
    found = report(folder, text)
    step_s = found["totals"]["steps"]["unprofiled_s"]
    assert step_s is not None
    assert step_s >= 0.1
    assert any(k["flops"] for k in found["kernels"])
    assert any("only unprofiled step" in note for note in texts(found))
    assert "no unprofiled step" not in found["stderr"]


@pytest.mark.slow
def test_waiting_for_another_thread_is_sleep(folder: Path) -> None:
    waiting = """
import threading
go, done = threading.Event(), threading.Event()
def worker():
    while True:
        go.wait(); go.clear(); time.sleep(0.05); done.set()
"""
    text = MODEL + "\nimport time\n" + waiting
    text += "threading.Thread(target=worker, daemon=True).start()\n"
    text += "for _ in range(12):\n    step(); go.set(); done.wait(); done.clear()\n"
    assert report(folder, text)["totals"]["idle_by_cause"]["asleep"] > 0.03
