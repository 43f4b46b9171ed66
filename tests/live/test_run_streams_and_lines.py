"""Programs of a third outsider: FFT beside SVD, compiled torch modules, closed stdout, no steps."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import texts
from tests.live.live_programs import MODEL, check_account, command, folder, report, run

__all__ = ["folder"]
torch = pytest.importorskip("torch")

FFT_AND_SVD = """
import torch
torch.set_num_threads(1)
class Both(torch.nn.Module):
    def forward(self, c, x): return torch.fft.fft(c), torch.linalg.svd(x)[1]
both = Both()
c, x = torch.randn(64, 64, dtype=torch.complex64), torch.randn(64, 64, dtype=torch.float64)
for _ in range(24): both(c, x)
"""
COMPILED = """
import warnings; warnings.simplefilter('ignore')
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU())
compiled, x = torch.compile(model), torch.randn(64, 32)
with torch.no_grad():
    for _ in range(12):
        compiled(x)
"""


def test_an_fft_has_all_of_its_flops(folder: Path) -> None:
    found = report(folder, FFT_AND_SVD)
    below = [k for k in found["kernels"] if k["op"] == "aten::_fft_c2c"]
    assert {k["name"] for k in below} == {"aten::_fft_c2c"}
    assert sum(sum(k["flops"].values()) for k in below) == 5 * 64 * 64 * 6
    check_account(found)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")
def test_a_compiled_module_of_torch_has_the_line_that_calls_it(folder: Path) -> None:
    found = report(folder, COMPILED, "--source")
    forward = [k for k in found["kernels"] if k["phase"] == "forward"]
    assert {k["labels"].get("source") for k in forward} == {"train.py:9"}
    assert "\ntrain.py:9 " in found["stderr"].split("Largest lines")[1]


def _closed(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(program)
    words = command(folder, "--json", "-", "train.py")
    return subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *words], check=False, text=True, cwd=folder,
        stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=120,
    )  # fmt: skip


@pytest.mark.slow
def test_json_to_a_closed_stdout_is_refused_before_the_program_runs(folder: Path) -> None:
    done = _closed(folder, "import pathlib; pathlib.Path('ran').touch()\n")
    assert done.returncode == 2
    assert done.stderr.count("stdout is closed; name a file, or leave stdout open") == 1
    assert not (folder / "ran").exists()
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_stdout_that_the_program_closed_is_its_own(folder: Path) -> None:
    (folder / "train.py").write_text(MODEL + "for _ in range(8): step()\nimport os; os.close(1)\n")
    done = run(folder, "--json", "-", "train.py")
    assert done.returncode == 0
    assert json.loads(done.stdout)["totals"]["steps"]["count"] == 8


@pytest.mark.slow
def test_json_that_the_user_throws_away_is_no_matter(folder: Path) -> None:
    (folder / "train.py").write_text(MODEL + "for _ in range(8): step()\n")
    done = subprocess.run(
        command(folder, "--json", "-", "train.py"), check=False, text=True, cwd=folder,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0
    assert "stdout" not in done.stderr


def test_a_run_without_steps_says_why_on_its_page_and_nothing_of_cpus(folder: Path) -> None:
    text = "import torch\na = torch.randn(50, 50)\nfor _ in range(5): a = (a @ a).tanh()\n"
    found = report(folder, text, "--html", "page.html")
    assert [note[:17] for note in texts(found)] == ["No step was found"]
    head = (folder / "page.html").read_text().split('<section id="charts"')[0]
    assert "Call timeroof.step() after each step" in head
    assert "Nothing was measured" in head
    assert "waited" not in found["stderr"]
