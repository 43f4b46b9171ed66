"""`timeroof run` on real small programs: their output, arguments and exit codes stay their own."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import texts
from tests.live.live_programs import MODEL, check_account, command, folder, report, run

__all__ = ["folder"]
pytest.importorskip("torch")

# Whole programs, seconds each.
pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_training_loop_is_accounted_for_and_counted(folder: Path) -> None:
    found = report(folder, MODEL + "for _ in range(16): print('loss', step())\n")
    totals, rows = found["totals"], found["kernels"]
    check_account(found)
    assert found["stdout"].count("loss") == 16
    assert totals["steps"]["count"] == 16
    assert totals["steps"]["unprofiled_s"] > 0
    assert totals["known_time_share"] > 0.98
    # Two products forward; backward both weights, and the inner input.
    products = 2 * 8 * (16 * 32 + 32 * 4)
    assert totals["contraction_flops"] == 2 * products + 2 * 8 * 32 * 4
    assert {r["phase"] for r in rows} >= {"forward", "backward", "optimizer"}
    modules = {r["module"] for r in rows if r["op"] in ("aten::addmm", "aten::mm")}
    assert modules == {"model.0", "model.2"}
    assert totals["ladder"]["fused_s"] is not None
    assert totals["ladder"]["ideal_s"] <= totals["ladder"]["fused_s"] <= totals["ladder"]["roof_s"]
    assert len(found["timeline"]) > 20
    parts = (totals["kernel_s"], totals["idle_s"], totals["unexplained_s"])
    assert sum(parts) == pytest.approx(totals["wall_s"])
    assert totals["wall_s"] == totals["ladder"]["measured_s"] == totals["steps"]["unprofiled_s"]
    assert all(row["timed_s"] >= row["time_s"] for row in rows)


def test_views_are_no_launches(folder: Path) -> None:
    text = """
import torch
a, b = torch.ones(4, 4), torch.ones(4, 4)
import timeroof
for _ in range(10):
    c = a @ b
    c.t().add_(1)
    c.view(16)
    timeroof.step()
"""
    found = report(folder, text)
    # The product, the sum, and below it the copy that makes its 1 a float.
    assert found["totals"]["launches"] == 3
    check_account(found)


def test_arguments_path_and_main_are_the_program_s_own(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "neighbour.py").write_text("value = 7\n")
    (folder / "sub" / "prog.py").write_text(
        "import sys, pickle, atexit, neighbour\n"
        "class Thing: pass\n"
        "atexit.register(lambda: print('bye', Thing.__name__))\n"
        "print(__name__, __file__, sys.argv, neighbour.value)\n"
        "assert pickle.loads(pickle.dumps(Thing())).__class__ is Thing\n"
        "assert sys.modules['__main__'].Thing is Thing\n"
        "import multiprocessing; assert sys.path[0].endswith('sub')\n"
    )
    done = run(folder, "--steps", "5", "sub/prog.py", "--steps", "9", "-m", "x")
    assert done.returncode == 0, done.stderr
    words = "['sub/prog.py', '--steps', '9', '-m', 'x']"
    assert done.stdout == f"__main__ {folder / 'sub/prog.py'} {words} 7\nbye Thing\n"
    assert "imported neither torch nor jax" in done.stderr


def test_a_module_runs_as_with_python_m(folder: Path) -> None:
    (folder / "pack").mkdir()
    (folder / "pack" / "__init__.py").write_text("")
    (folder / "pack" / "other.py").write_text("value = 3\n")
    (folder / "pack" / "__main__.py").write_text(
        "import sys\nfrom . import other\nprint(__package__, sys.argv[1:], other.value)\n"
    )
    done = run(folder, "-m", "pack", "--steps", "2", "--json", "-")
    assert done.stdout == "pack ['--steps', '2', '--json', '-'] 3\n", done.stderr


@pytest.mark.parametrize(
    ("ending", "code", "words"),
    [
        ("raise ValueError('broken')", 1, ["ValueError: broken", "Partial"]),
        ("import sys; sys.exit(7)", 7, ["exited with code 7"]),
        ("import sys; sys.exit('so long')", 1, ["so long"]),
    ],
)
def test_the_exit_code_is_the_program_s(
    folder: Path, ending: str, code: int, words: list[str]
) -> None:
    text = MODEL + f"for i in range(12):\n    step()\n    if i == 9: {ending}\n"
    found = report(folder, text, code=code)
    for word in words:
        assert word in found["stderr"] or any(word in text for text in texts(found))
    assert "/timeroof/" not in found["stderr"].replace(str(folder), "")
    assert len(found["kernels"]) > 5
    check_account(found)


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, -2, "interrupted"), (signal.SIGTERM, -15, "terminated")],
)
def test_a_signal_leaves_a_partial_report(
    folder: Path, number: signal.Signals, code: int, word: str
) -> None:
    text = (
        MODEL
        + "import time\nfor i in range(100000):\n    step()\n    time.sleep(0.005)\n    print(i, flush=True)\n"
    )
    (folder / "train.py").write_text(text)
    words = command(folder, "--json", "report.json", "train.py")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder) as child:  # fmt: skip
        assert child.stdout is not None
        for line in child.stdout:
            if line.strip() == b"12":
                break
        child.send_signal(number)
        _, stderr = child.communicate(timeout=60)
    assert child.returncode == code, stderr
    assert word.encode() in stderr
    found = json.loads((folder / "report.json").read_text())
    assert any("Partial" in n for n in texts(found))
    check_account(found)


def test_a_program_without_steps_is_told_what_to_do(folder: Path) -> None:
    found = report(folder, "import torch\nprint(torch.ones(3).sum().item())\n")
    assert found["kernels"] == []
    assert "No step was found" in found["stderr"]
    assert "timeroof.step()" in found["stderr"]


def test_inference_steps_are_forward_calls(folder: Path) -> None:
    text = MODEL.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", "")
    text += "model.eval()\nwith torch.no_grad():\n    for _ in range(14): model(x)\n"
    found = report(folder, text)
    assert found["totals"]["steps"]["count"] == 14
    assert {r["phase"] for r in found["kernels"]} == {"forward"}
    assert {r["module"] for r in found["kernels"]} == {"model.0", "model.1", "model.2"}
    assert found["totals"]["contraction_flops"] == 2 * 8 * (16 * 32 + 32 * 4)
    check_account(found)


def test_several_optimizers_make_one_step(folder: Path) -> None:
    text = MODEL + (
        "second = torch.optim.SGD([torch.nn.Parameter(torch.ones(3))], lr=0.1)\n"
        "for _ in range(10):\n    step()\n    second.step()\n"
    )
    assert report(folder, text)["totals"]["steps"]["count"] == 10


def test_the_program_s_own_profiler_goes_first(folder: Path) -> None:
    text = MODEL + (
        "from torch.profiler import profile, schedule, ProfilerActivity\n"
        "with profile(activities=[ProfilerActivity.CPU],"
        " schedule=schedule(wait=1, warmup=1, active=3, repeat=1)) as p:\n"
        "    for _ in range(24):\n        step()\n        p.step()\n"
        "print('events', len(p.events()) > 10)\n"
    )
    found = report(folder, text)
    assert "events True" in found["stdout"]
    assert any("own profiler" in n for n in texts(found))
    check_account(found)


@pytest.mark.slow
def test_data_loader_workers_and_waiting(folder: Path) -> None:
    text = (
        "from torch.utils.data import DataLoader, TensorDataset\n"
        + MODEL
        + """
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 12
    def __getitem__(self, i):
        import time; time.sleep(0.02)
        return torch.ones(16)
if __name__ == "__main__":
    for batch in DataLoader(Slow(), batch_size=1, num_workers=1):
        step()
"""
    )
    found = report(folder, text)
    idle = found["totals"]["idle_by_cause"]
    # How much of it a timed step sees depends on what the worker fetched while the profiler began.
    assert max(idle, key=lambda cause: idle[cause]) == "data"
    assert found["totals"]["steps"]["count"] == 12
    check_account(found)


def test_strange_tensors_do_no_harm(folder: Path) -> None:
    text = """
import torch, warnings
warnings.simplefilter("ignore")
import timeroof
d, c = torch.ones(32, 32, dtype=torch.float64), torch.ones(16, 16, dtype=torch.complex64)
s = torch.eye(64).to_sparse()
n = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])
e = torch.empty(0)
for _ in range(8):
    d @ d; c @ c; torch.sparse.mm(s, torch.ones(64, 4)); n + n; e + e; torch.tensor(float("inf")) * 2
    timeroof.step()
"""
    found = report(folder, text)
    assert found["totals"]["flops"]["fp64"] == 2 * 32**3
    assert 0 < found["totals"]["known_time_share"] <= 1
    check_account(found)


def test_a_layout_change_is_a_primitive_without_flops(folder: Path) -> None:
    text = """
import torch
from torch import nn
torch.set_num_threads(1)
model = nn.Conv2d(32, 32, 3, padding=1)
x = torch.randn(8, 32, 56, 56)
with torch.no_grad():
    for i in range(10):
        model(x)
        print("line", i)
"""
    found = report(folder, text)
    assert found["stdout"].splitlines() == [f"line {i}" for i in range(10)]
    rows = {r["name"].split()[0]: r for r in found["kernels"] if r["kind"] == "primitive"}
    if not rows:
        pytest.skip("torch has no oneDNN here")
    assert sum(rows["onednn::reorder"]["flops"].values()) == 0
    assert rows["onednn::convolution"]["contraction_flops"] == 2 * 8 * 32 * 32 * 9 * 56 * 56
    assert found["totals"]["contraction_flops"] == 2 * 8 * 32 * 32 * 9 * 56 * 56
    check_account(found)


def test_unknown_programs_and_machines_are_refused_before_work(folder: Path) -> None:
    for words in (["nothing.py"], ["-m", "no.such.module"], []):
        done = run(folder, *words)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_outputs_go_where_they_are_asked(folder: Path) -> None:
    (folder / "train.py").write_text(MODEL + "for _ in range(8): step()\nprint('mine')\n")
    done = run(folder, "--json", "-", "--out", "all", "--save", "x.troof", "train.py")
    assert done.returncode == 0, done.stderr
    mine, document = done.stdout.splitlines()
    assert mine == "mine"
    assert json.loads(document)["schema"] == "timeroof.report/2"
    assert (folder / "x.troof").exists()
    assert {"report.json", "run.troof", "kernels.csv"} <= {p.name for p in (folder / "all").iterdir()}  # fmt: skip


@pytest.mark.parametrize("script", ["resnet50", "gpt2", "lstm_loop"])
def test_an_example_is_accounted_for(folder: Path, script: str) -> None:
    start = time.monotonic()
    words = ["--steps", "5", "--small", "--threads", "1", "--batch", "2"]
    done = run(folder, "--json", "report.json", str(EXAMPLES / f"{script}.py"), *words)
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "report.json").read_text())
    check_account(found)
    assert found["totals"]["known_time_share"] > 0.98
    assert time.monotonic() - start < 60


def test_options_behind_the_program_that_it_refuses_are_told(folder: Path) -> None:
    parsing = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--steps')\n"
    (folder / "train.py").write_text(parsing + "p.parse_args()\n")
    for program in (("train.py",), ("-m", "train")):
        done = run(folder, *program, "--steps", "3", "--html=a b.html")
        assert done.returncode == 2
        last = done.stderr.splitlines()[-1]
        assert last == (
            "timeroof: --html is an option of timeroof and goes before the script:"
            f" timeroof run --machine toy.toml '--html=a b.html' {' '.join(program)}"
            " --steps 3"
        )
    done = run(folder, "train.py", "--bogus", "--steps", "3")
    assert done.returncode == 2
    assert "before the script" not in done.stderr
