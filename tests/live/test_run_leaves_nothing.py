"""A program under `timeroof run` finds and writes what it does without: byte for byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.live_programs import folder, python, run

__all__ = ["folder"]

# The moments lie in the search for steps, in timed, described, primitive and unprofiled steps.
CHECKPOINTS = """
import copy, sys, warnings
warnings.simplefilter("ignore")  # torch.jit is deprecated
from pathlib import Path
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
torch.manual_seed(0)
torch.set_num_threads(1)
out, kind = Path(sys.argv[1]), sys.argv[2]
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    def forward(self, x):
        return self.body(x)
def noted(module, args):
    pass
model = Net()
optimizer = torch.optim.Adam(model.parameters()) if kind != "infer" else None
x, y = torch.randn(8, 16), torch.randint(4, (8,))
def write(when):
    # The numbers of a program's own hooks are a part of its checkpoints.
    handle = model.body[0].register_forward_pre_hook(noted)
    ema = AveragedModel(model)
    parts = {"model": model, "copy": copy.deepcopy(model), "ema": ema, "state": model.state_dict()}
    if optimizer is not None:
        parts["optimizer"] = optimizer.state_dict()
        parts["whole optimizer"] = copy.deepcopy(optimizer)
    handle.remove()
    for name, part in parts.items():
        torch.save(part, out / f"{name} {when}.pt")
    torch.save(model, out / f"bare {when}.pt")
    torch.jit.save(torch.jit.script(model), str(out / f"script {when}.pt"))
    torch.jit.trace(model, x), torch.fx.symbolic_trace(model), torch.export.export(model, (x,))
def train():
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
def infer():
    with torch.no_grad():
        model(x)
loops = {"train": [train], "infer": [infer], "infer then train": [infer, train]}[kind]
write("first")
for place, step in enumerate(loops):
    for i in range(24):
        step()
        if i in (0, 1, 2, 3, 4, 5, 6, 7, 19):
            write(f"{place} {i}")
write("last")
"""


@pytest.mark.parametrize("kind", ["train", "infer", "infer then train"])
@pytest.mark.slow
def test_checkpoints_are_those_written_without(
    folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # torch.jit writes a module's constants in the order of a set.
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    (folder / "train.py").write_text(CHECKPOINTS)
    for name in ("alone", "watched"):
        (folder / name).mkdir()
    python(folder, "train.py", "alone", kind)
    done = run(folder, "--json", "report.json", "train.py", "watched", kind, timeout=240)
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (folder / "alone").iterdir())
    assert len(names) >= 66
    assert names == sorted(path.name for path in (folder / "watched").iterdir())
    differ = [
        name for name in names
        if (folder / "alone" / name).read_bytes() != (folder / "watched" / name).read_bytes()
    ]  # fmt: skip
    assert differ == []
    assert json.loads((folder / "report.json").read_text())["kernels"]


COMPILED = """
import sys, warnings
warnings.simplefilter("ignore")
import torch
import torch._dynamo
from torch import nn
torch.set_num_threads(1)
kind, has_hook, trains = sys.argv[1], "hook" in sys.argv, "train" in sys.argv
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(32, 32), nn.Sequential(nn.Linear(32, 32), nn.ReLU())
    def forward(self, x):
        return self.b(self.a(x))
model, x = Net(), torch.randn(4, 32)
if has_hook:
    model.a.register_forward_hook(lambda *_: None)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01) if trains else None
call = model
if kind == "wrapped":
    call = torch.compile(model, backend="eager")
elif kind == "in place":
    model.compile(backend="eager")
elif kind == "function":
    call = torch.compile(lambda x: model(x), backend="eager")
elif kind == "part":
    model.b = torch.compile(model.b, backend="eager")
for _ in range(24):
    result = call(x)
    if trains:
        optimizer.zero_grad()
        result.sum().backward()
        optimizer.step()
print({name: dict(found) for name, found in torch._dynamo.utils.counters.items()})
"""


@pytest.mark.parametrize(
    "words",
    [["wrapped", "infer"], ["in place", "train", "hook"], ["function", "train"], ["part", "hook"]],
    ids="-".join,
)
@pytest.mark.slow
def test_what_is_compiled_is_the_same(folder: Path, words: list[str]) -> None:
    """No graph is compiled again because of us, and nothing of ours is compiled."""
    (folder / "train.py").write_text(COMPILED)
    alone = python(folder, "train.py", *words)
    done = run(folder, "train.py", *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout == alone


FAILING = """
import torch
from torch import nn
class Failing(nn.Module):
    def forward(self, x):
        if calls[0] > CALLS:
            raise ValueError("its own")
        calls[0] += 1
        return x
calls, model = [0], nn.Sequential(nn.Linear(2, 2), Failing())
for _ in range(30):
    model(torch.zeros(1, 2))
"""


@pytest.mark.parametrize("calls", [0, 11])
@pytest.mark.slow
def test_a_traceback_is_the_program_s_own(folder: Path, calls: int) -> None:
    (folder / "train.py").write_text(FAILING.replace("CALLS", str(calls)))
    alone = subprocess.run(
        [sys.executable, "train.py"], cwd=folder, check=False, capture_output=True, text=True
    )
    done = run(folder, "train.py")
    assert done.returncode == alone.returncode == 1
    assert done.stderr.startswith(alone.stderr)


SURROUNDINGS = """
import json, os, signal, subprocess, sys, warnings
def seen():
    return {
        **{f"variable {k}": v for k, v in os.environ.items() if k not in ("_", "TIMEROOF_RECORD")},
        "child": sorted(
            line for line in subprocess.run(["env"], capture_output=True, text=True).stdout.split()
            if "_=" not in line[:2] and not line.startswith("TIMEROOF_RECORD=")
        ),
        "filters": [str(f) for f in warnings.filters],
        "interrupt": str(signal.getsignal(signal.SIGINT)),
        "hooks": [str(sys.excepthook), str(sys.displayhook), str(sys.unraisablehook)],
        "streams": [(s.encoding, s.errors) for s in (sys.stdin, sys.stdout, sys.stderr)],
        "path": sys.path, "argv": sys.argv, "name": __name__, "file": __file__,
        "numpy": "numpy" in sys.modules, "torch": "torch" in sys.modules,
    }
found = [seen()]
import torch
from torch.nn.modules import module as modules
from torch.utils.hooks import RemovableHandle
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Conv2d(16, 16, 3), torch.nn.ReLU())
for _ in range(14):
    model(torch.zeros(2, 16, 16, 16))
    found.append(seen())
    found[-1]["hooks in modules"] = [
        sorted(k for k, v in vars(m).items() if "hook" in k and v) for m in model.modules()
    ]
    found[-1]["global hooks"] = modules._has_any_global_hook()
    found[-1]["next number"] = RemovableHandle.next_id
    found[-1]["loader"] = [type(m.__spec__.loader).__name__ for m in (torch, modules)]
with open(sys.argv[1], "w") as file:
    json.dump(found, file)
"""


@pytest.mark.slow
def test_a_program_s_surroundings_are_python_s(folder: Path) -> None:
    (folder / "train.py").write_text(SURROUNDINGS)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "160"}
    words = [sys.executable, "-W", "error", "train.py", "seen.json"]
    subprocess.run(words, cwd=folder, check=True, env=environment, capture_output=True)
    alone = json.loads((folder / "seen.json").read_text())
    done = run(folder, "--json", "report.json", "train.py", "seen.json")
    assert done.returncode == 0, done.stderr
    watched = json.loads((folder / "seen.json").read_text())
    assert len(watched) == len(alone)
    for theirs, ours in zip(alone, watched, strict=True):
        assert set(ours) == set(theirs)
        assert [(k, theirs[k], ours[k]) for k in theirs if theirs[k] != ours[k]] == []
    kinds = {row["kind"] for row in json.loads((folder / "report.json").read_text())["kernels"]}
    assert "primitive" in kinds


def test_the_program_s_own_modules_come_first(folder: Path) -> None:
    """Files of the program with the names of modules that we use, before it and after it."""
    own = folder / "own"
    own.mkdir()
    for name in ("statistics", "typer", "msgspec", "jinja2", "matplotlib", "platformdirs"):
        (own / f"{name}.py").write_text(f"OWN = {name!r}\n")
    # No module: only where nothing else has the name, and that it has.
    (own / "polars").mkdir()
    (own / "train.py").write_text(
        "import statistics, typer, msgspec, jinja2, matplotlib, platformdirs, torch\n"
        "print(*[m.OWN for m in (statistics, typer, msgspec, jinja2, matplotlib, platformdirs)])\n"
        "model = torch.nn.Linear(4, 4)\n"
        "for _ in range(12): model(torch.zeros(1, 4))\n"
        "import atexit\n"
        "def late():\n"
        "    import later\n"
        "atexit.register(late)\n"
    )
    (own / "later.py").write_text("print('later')\n")
    done = run(folder, "--html", "report.html", "own/train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        "statistics", "typer", "msgspec", "jinja2", "matplotlib", "platformdirs", "later",
    ]  # fmt: skip
    assert "timeroofPage" in (folder / "report.html").read_text()


def test_a_spec_that_is_asked_for_first_hides_nothing(folder: Path) -> None:
    (folder / "train.py").write_text(
        "import importlib.util\n"
        "from importlib.machinery import SourceFileLoader\n"
        "for _ in range(3):\n"
        "    spec = importlib.util.find_spec('torch')\n"
        "    assert isinstance(spec.loader, SourceFileLoader) and spec.origin\n"
        "import torch\n"
        "assert type(torch.__spec__.loader) is SourceFileLoader\n"
        "model = torch.nn.Linear(4, 4)\n"
        "for _ in range(12): model(torch.zeros(1, 4))\n"
    )
    done = run(folder, "--json", "report.json", "train.py")
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / "report.json").read_text())["kernels"]
