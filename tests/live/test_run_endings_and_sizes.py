"""What an outsider's programs showed: hard ends, sizes that grow, modes of torch."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.conftest import texts
from tests.live.live_programs import MODEL, check_account, folder, python, report, run

__all__ = ["folder"]

# Torch's profiler is on, with the libraries' lines, after the sixth step.
HARD = (
    MODEL
    + """
import os, sys
for i in range(6):
    step()
    print("step", i, flush=True)
os.write(1, b"past all buffers\\n")
print("result 42", flush=True)
model(x)
os._exit(5) if sys.argv[1] == "exit" else os.kill(os.getpid(), int(sys.argv[1]))
"""
)


@pytest.mark.skipif(sys.platform != "linux", reason="signals by number")
@pytest.mark.parametrize(("how", "code"), [("exit", 5), ("6", -6), ("9", -9)])
def test_what_was_printed_is_there_however_the_program_ends(
    folder: Path,
    how: str,
    code: int,
) -> None:
    (folder / "train.py").write_text(HARD)
    done = run(folder, "train.py", how)
    assert done.returncode == code, done.stderr
    steps = "".join(f"step {i}\n" for i in range(6))
    assert done.stdout == f"{steps}past all buffers\nresult 42\n"


@pytest.mark.slow
def test_what_c_and_other_processes_print_comes_once_and_lines_of_libraries_never(
    folder: Path,
) -> None:
    program = (
        MODEL.replace(
            "Linear(16, 32)", "Linear(16, 1024), nn.Unflatten(1, (16, 8, 8)), CONV"
        ).replace("CONV", "nn.Conv2d(16, 32, 3), nn.AdaptiveMaxPool2d(1), nn.Flatten()")
        + """
import ctypes, subprocess, sys
c = ctypes.CDLL(None)
for i in range(9):
    step()
    c.puts(b"from C %d" % i)
    c.fflush(None)
    subprocess.run([sys.executable, "-c", f"print('a child {i}')"])
    print("from Python", i)
"""
    )
    found = report(folder, program)
    assert any(k["kind"] == "primitive" for k in found["kernels"])
    lines = found["stdout"].splitlines()
    for who in ("from C", "a child", "from Python"):
        assert [line for line in lines if line.startswith(who)] == [f"{who} {i}" for i in range(9)]
    assert len(lines) == 27


GROWING = """
import torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
class Decoder(nn.Module):
    def forward(self, cache, token):
        cache = torch.cat([cache, token])
        return cache, (cache @ token.T).softmax(0)
decoder, cache = Decoder(), torch.randn(10, 64)
for i in range(60):
    grown, weights = decoder(cache, torch.randn(1, 64))
    cache = {kept}
"""


def test_of_sizes_that_grow_a_described_one_stands_for_all_and_it_is_said(folder: Path) -> None:
    found = report(folder, GROWING.format(kept="grown"))
    (note,) = [n for n in texts(found) if n.startswith("Sizes change from step to step")]
    least, most, chosen = map(int, re.findall(r"(\d+)x64", note))
    assert 10 <= least < chosen < most <= 69
    (cat,) = [k for k in found["kernels"] if k["op"] == "aten::cat"]
    assert cat["shape"] == [[chosen, 64], [1, 64]]
    check_account(found)


def test_sizes_that_stay_are_no_matter_for_a_word(folder: Path) -> None:
    found = report(folder, GROWING.format(kept="cache"))
    assert not any("sizes" in n for n in texts(found))
    assert found["totals"]["steps"]["count"] >= 59


COUNTING = (
    MODEL
    + """
from torch.utils.flop_counter import FlopCounterMode
counter = FlopCounterMode(display=False)
with counter:
    for _ in range(16):
        step()
print(counter.get_total_flops(), sorted(counter.get_flop_counts()["Global"].items(), key=str))
"""
)


@pytest.mark.slow
def test_a_mode_s_time_is_the_dispatcher_s_and_ops_keep_module_and_line(
    folder: Path,
) -> None:
    found = report(folder, COUNTING, "--source")
    assert found["stdout"] == python(folder, "train.py")
    assert not any(k["name"].startswith("Python") for k in found["kernels"])
    assert found["totals"]["idle_by_cause"]["dispatch"] > 0
    products = [k for k in found["kernels"] if k["op"] == "aten::addmm"]
    assert {k["module"] for k in products} == {"model.0", "model.2"}
    assert {k["labels"]["source"] for k in products} == {"train.py:11"}
    assert "no op bears a line" not in found["stderr"]
    check_account(found)


@pytest.mark.slow
def test_without_lines_the_true_reason_is_given(folder: Path) -> None:
    program = MODEL + "for _ in range(3):\n    step()\nraise ValueError\n"
    found = report(folder, program, "--source", code=1)
    assert found["kernels"]
    told = " ".join(found["stderr"].split())
    assert any("No step was described" in note for note in texts(found))
    assert "compiled" not in told
