"""Programs of many kinds: what marks a step, which kinds of steps there are, and whose time it was."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.live.live_programs import folder, report  # noqa: F401

pytestmark = pytest.mark.slow

HEAD = """
import time, torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
def net(*widths):
    pairs = zip(widths, widths[1:])
    return nn.Sequential(*(layer for a, b in pairs for layer in (nn.Linear(a, b), nn.ReLU())))
marks = []
def came():  # a turn of the loop begins
    marks.append(time.perf_counter())
def lasted():
    came()
    print("loop", marks[-1] - marks[0], "last", marks[-1] - marks[-2])
"""


class Expected(NamedTuple):
    """Of a program: its text, what marks a step, and how many steps of which kinds it has."""

    text: str
    mark: str
    counts: list[int]
    words: tuple[str, ...] = ()


GAN = """
G, D = net(32, 64, 16), net(16, 32, 1)
og, od = torch.optim.Adam(G.parameters()), torch.optim.RMSprop(D.parameters())
for i in range(24):
    came()
    for _ in range(3):
        od.zero_grad(); D(G(torch.randn(16, 32)).detach()).mean().backward(); od.step()
    og.zero_grad(); (-D(G(torch.randn(16, 32))).mean()).backward(); og.step()
lasted()
"""
PPO = """
policy = net(8, 64, 4)
optimizer = torch.optim.Adam(policy.parameters())
for update in range(4):
    came()
    seen = []
    with torch.no_grad():
        for _ in range(64): seen.append(policy(torch.randn(4, 8)))
    for epoch in range(8):
        loss = policy(torch.randn(64, 8)).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
lasted()
"""
DISTILLATION = """
teacher, student = net(32, 128, 10).eval(), net(32, 32, 10)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for i in range(30):
    came(); x = torch.randn(16, 32)
    with torch.no_grad(): goal = teacher(x)
    (student(x) - goal).square().mean().backward(); optimizer.step(); optimizer.zero_grad()
lasted()
"""
EMA = """
from torch.optim.swa_utils import AveragedModel
model = net(32, 64, 4)
average = AveragedModel(model)
optimizer = torch.optim.AdamW(model.parameters())
for i in range(30):
    came(); model(torch.randn(16, 32)).square().mean().backward(); optimizer.step(); optimizer.zero_grad()
    average.update_parameters(model)
lasted()
"""
ACCUMULATION = """
model = net(32, 64, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(32):
    came()
    for _ in range(4): model(torch.randn(8, 32)).square().mean().backward()
    optimizer.step(); optimizer.zero_grad()
    if i % 8 == 7:
        model.eval()
        with torch.no_grad():
            for _ in range(10): model(torch.randn(64, 32))
        model.train()
lasted()
"""
BEAM = """
encoder, decoder, head = nn.GRU(16, 32, batch_first=True), nn.GRUCell(32, 32), nn.Linear(32, 20)
with torch.no_grad():
    for request in range(24):
        came()
        h = encoder(torch.randn(2, 7, 16))[1][0].repeat_interleave(3, 0)
        x = h
        for token in range(12):
            x = decoder(x, h); head(x).topk(3)
lasted()
"""
RETRIEVAL = """
model, index = net(16, 64, 32).eval(), torch.randn(5000, 32)
with torch.no_grad():
    for request in range(40):
        came()
        best = (index @ model(torch.randn(1, 16)).T).topk(5, 0)
lasted()
"""
DIFFUSION = """
unet = net(17, 64, 16).eval()
decoder = net(16, 32, 16).eval()
with torch.no_grad():
    for image in range(12):
        came()
        x = torch.randn(4, 16)
        for t in range(20): x = x - 0.1 * unet(torch.cat([x, torch.full((4, 1), t / 20)], 1))
        decoder(x)
lasted()
"""
FOLDS = """
for fold in range(4):
    model = net(16, 32, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i in range(12):
        came(); model(torch.randn(8, 16)).square().mean().backward(); optimizer.step(); optimizer.zero_grad()
lasted()
"""
CURRICULUM = """
model = net(16, 64, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for size in (8, 64):
    for i in range(12):
        came(); model(torch.randn(size, 16)).square().mean().backward(); optimizer.step(); optimizer.zero_grad()
lasted()
"""
TRIALS = """
def trial(width):
    model = net(16, width, 2)
    optimizer = torch.optim.Adam(model.parameters())
    for i in range(10):
        came(); model(torch.randn(8, 16)).square().mean().backward(); optimizer.step(); optimizer.zero_grad()
    model.eval()
    with torch.no_grad(): return model(torch.randn(8, 16)).mean().item()
for width in (16, 32, 64, 32): trial(width)
lasted()
"""
FEDERATED = """
import threading
def client():
    model = net(16, 32, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for i in range(10):
        came(); model(torch.randn(8, 16)).square().mean().backward(); optimizer.step(); optimizer.zero_grad()
for turn in range(3):
    for _ in range(2):
        thread = threading.Thread(target=client); thread.start(); thread.join()
lasted()
"""

PROGRAMS = {
    "gan": Expected(GAN, "Adam.step", [24]),
    "ppo": Expected(PPO, "Adam.step", [28, 4], ("inference",)),
    "distillation": Expected(DISTILLATION, "SGD.step", [30]),
    "ema": Expected(EMA, "AdamW.step", [30]),
    "accumulation": Expected(ACCUMULATION, "SGD.step", [29, 3], ("evaluation",)),
    "beam search": Expected(BEAM, "a call of GRU", [24], ("inference",)),
    "retrieval": Expected(RETRIEVAL, "a call of Sequential", [40], ("inference",)),
    "diffusion": Expected(DIFFUSION, "a call of Sequential", [12], ("inference",)),
    "folds": Expected(FOLDS, "SGD.step", [48]),
    "curriculum": Expected(CURRICULUM, "SGD.step", [12, 12], ("8x16", "64x16")),
    "trials": Expected(TRIALS, "Adam.step", [40]),
    "federated": Expected(FEDERATED, "SGD.step", [60]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_marks_kinds_and_seconds(folder: Path, name: str) -> None:  # noqa: F811
    program = PROGRAMS[name]
    found = report(folder, HEAD + program.text)
    steps = found["totals"]["steps"]
    assert steps["mark"] == program.mark
    listed = [kind for kind in steps["kinds"] if kind["count"]]
    names = [kind["name"] for kind in listed]
    # On a machine that others use as well a first step may take long enough to be one of its own.
    counts = sorted((k["count"] for k in listed if k["name"] != "warm-up"), reverse=True)
    late = sum(kind["count"] for kind in listed) - sum(counts)
    assert sum(counts) + late == steps["count"] == sum(program.counts), names
    if name not in ("trials", "ppo"):  # the first update of a trial or rollout is a kind
        assert len(counts) == len(program.counts), names
        assert all(abs(a - b) <= 1 + late for a, b in zip(counts, program.counts, strict=True))
    assert all(any(word in kind for kind in names) for word in program.words), names
    assert all(kind["median_s"] > 0 and kind["total_s"] > 0 for kind in listed)
    assert sum(kind["share"] for kind in steps["kinds"]) == pytest.approx(1.0)
    assert sum(kind["reported"] for kind in steps["kinds"]) == 1
    check_seconds(found, program)
    assert f"({program.mark}) took" in found["stderr"]


def check_seconds(found: dict, program: Expected) -> None:
    """What the program's own clock says of its loop is in the kinds, or was added by profiling."""
    loop = re.search(r"loop (\S+) last (\S+)", found["stdout"])
    assert loop is not None
    steps = found["totals"]["steps"]
    whole_s = sum(kind["total_s"] for kind in steps["kinds"] if kind["count"])
    whole_s += steps["profiling_s"]
    after = [kind for kind in steps["kinds"] if kind["name"] == "after the last step"]
    after_s = sum(kind["total_s"] for kind in after)
    # Where calls mark steps nobody sees the end of the last one: it counts as long as others are.
    open_s = float(loop[2]) if program.mark.startswith("a call") else 0.0
    usual_s = max(kind["median_s"] for kind in steps["kinds"] if kind["count"]) if open_s else 0.0
    assert whole_s - usual_s <= 1.02 * float(loop[1])
    # A last evaluation comes after the last step, as does the program's end.
    assert whole_s + after_s >= 0.98 * (float(loop[1]) - open_s)
