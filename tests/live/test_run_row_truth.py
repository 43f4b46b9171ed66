"""Rows of programs that people have: bytes on the op that moves them, once; who waits for what."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.live_programs import folder, report, run
from timeroof.live.records import slept_ns
from timeroof_recorder.clocks import Clocks, counts_sleeps

__all__ = ["folder"]
pytest.importorskip("torch")
pytestmark = pytest.mark.slow

WAITING = "waiting for a CPU"


def rows_of(found: dict, name: str) -> list[dict]:
    return [row for row in found["kernels"] if row["name"] == name]


def above_roof(found: dict) -> list[tuple[str, float, str | None]]:
    """Rows above 105 % of their roof, but for those that name waiting."""
    rows = found["kernels"]
    above = [row for row in rows if (row["kernel_efficiency"] or 0.0) > 1.05]
    said = [(row["name"], row["kernel_efficiency"], row["above_roof"]) for row in above]
    return [row for row in said if row[2] != WAITING]


@contextmanager
def busy_processes(count: int = 2) -> Iterator[None]:
    """So many neighbours that always want a CPU."""
    spin = [sys.executable, "-c", "while True: pass"]
    neighbours = [subprocess.Popen(spin) for _ in range(count)]
    try:
        yield
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.wait()


def test_arithmetic_beside_busy_processes_is_not_sleep() -> None:
    if not counts_sleeps():
        pytest.skip("this system does not count voluntary switches")
    asleep = []
    with busy_processes():
        for _ in range(60):
            clocks = Clocks()
            clocks.begin()
            until_ns = time.thread_time_ns() + 5_000_000
            while time.thread_time_ns() < until_ns:
                sum(range(500))
            clocks.end()
            elapsed, own, queued, switches, others = clocks.quick()
            # A page of another program may have to come from a disk: that is a sleep indeed.
            if not switches:
                asleep.append(slept_ns(elapsed, own, queued, switches, others))
    assert asleep
    assert not any(asleep)


LOOKUPS = """
import torch
torch.set_num_threads(1)
table = torch.randn(4000, 64, requires_grad=True)
picked = torch.randint(0, 4000, (12000,))
descent = torch.optim.SGD([table], lr=0.1)
for _ in range(25):
    descent.zero_grad()
    table.index_select(0, picked).square().sum().backward()
    descent.step()
"""


def test_bytes_of_a_gradient_of_lookups_are_counted_once(folder: Path) -> None:
    found = report(folder, LOOKUPS)
    assert not rows_of(found, "aten::index_select_backward")
    (added,) = rows_of(found, "aten::scatter_add_")
    assert added["flops"] == {"fp32": 12000 * 64}
    # Its index (8 bytes each, one per row), its source, and the table read and written.
    moved = 12000 * 8 * 64 + 2 * 4000 * 64 * 4
    assert added["bytes"]["l1"] <= moved + 12000 * 64 * 4
    assert above_roof(found) == []
    (power,) = rows_of(found, "aten::pow")  # the backward one is a copy and has no row of its own
    assert power["phase"] == "forward"


REAL = """
import torch
torch.set_num_threads(1)
w = torch.randn(512, 512, requires_grad=True)
descent = torch.optim.SGD([w], lr=0.1)
for _ in range(25):
    descent.zero_grad()
    torch.real(w).contiguous().sum().backward()
    descent.step()
"""


def test_ops_that_hand_their_tensor_back_move_nothing(folder: Path) -> None:
    found = report(folder, REAL)
    assert not rows_of(found, "aten::real")
    assert not rows_of(found, "aten::contiguous")
    assert above_roof(found) == []


CONVOLUTIONS = """
import torch
from torch import nn
torch.set_num_threads(1)
model = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1))
descent = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(16, 1, 28, 28)
for _ in range(24):
    descent.zero_grad()
    model(x).sum().backward()
    descent.step()
"""


def test_what_is_left_of_an_op_outside_its_library_calls_is_latency(folder: Path) -> None:
    found = report(folder, CONVOLUTIONS)
    names = {row["name"] for row in found["kernels"]}
    assert any(name.startswith("onednn::convolution") for name in names)
    long_calls = [row for row in found["kernels"] if row["time_s"] > 1e-5 * row["calls"]]
    assert long_calls
    assert not [row["name"] for row in long_calls if row["limiter"] == "launch"]
    rests = [row for row in long_calls if row["name"] in ("aten::convolution_backward",)]
    assert all(row["limiter"] == "latency" for row in rests if not row["total_flops"])


SPARSE_ADAM = """
import torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
tables = nn.ModuleList(nn.EmbeddingBag(2000, 16, mode="sum", sparse=True) for _ in range(2))
dense = nn.Linear(32, 1)
rows = torch.optim.SparseAdam(list(tables.parameters()), lr=1e-3)
rest = torch.optim.Adam(dense.parameters())
picked, bags = torch.arange(512) % 300, torch.arange(0, 512, 4)
for _ in range(24):
    found = dense(torch.cat([table(picked, bags) for table in tables], 1))
    rows.zero_grad(); rest.zero_grad()
    found.square().mean().backward()
    rows.step(); rest.step()
"""


def test_sparse_gradients_are_counted_by_the_values_they_hold(folder: Path) -> None:
    found = report(folder, SPARSE_ADAM)
    assert found["totals"]["known_time_share"] > 0.99
    values = 300 * 16
    added = [row for row in rows_of(found, "aten::add") if [1, 300] in row["shape"]]
    # Two moments and the parameter of each of two tables: an addition a value.
    assert sum(row["calls"] for row in added) == 6
    assert sum(row["flops"]["fp32"] for row in added) == 6 * values
    (united,) = rows_of(found, "aten::_coalesce")
    assert united["flops"] == {"fp32": 2 * (512 - 300) * 16}
    assert all(row["bytes"]["l1"] < 2000 * 16 * 4 * row["calls"] for row in added)


SPARSE_PRODUCT = """
import torch, warnings
warnings.simplefilter("ignore")
torch.manual_seed(0)
torch.set_num_threads(1)
places = torch.stack([torch.arange(3000) % 1000, torch.arange(3000) * 7 % 1000])
graph = torch.sparse_coo_tensor(places, torch.rand(3000), (1000, 1000)).coalesce()
held = graph._nnz(); print(held)
layer = torch.nn.Linear(32, 32)
adam = torch.optim.Adam(layer.parameters())
x = torch.randn(1000, 32)
for _ in range(24):
    loss = (graph @ layer(x)).square().mean()
    adam.zero_grad(); loss.backward(); adam.step()
"""


def test_a_sparse_product_is_counted_by_the_values_it_holds(folder: Path) -> None:
    found = report(folder, SPARSE_PRODUCT)
    held = int(found["stdout"].split()[0])
    products = [row for row in rows_of(found, "aten::addmm") if [held] in row["shape"]]
    assert {row["phase"] for row in products} == {"forward", "backward"}
    for row in products:
        assert row["flops"] == {"fp32": 2 * held * 32}
        assert row["bytes"]["l1"] >= held * (2 * 8 + 4) + 1000 * 32 * 4
        assert row["limiter"] != "unknown"
    assert found["totals"]["known_time_share"] > 0.99


SHARDED = """
import torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(3)])
for layer in model: fully_shard(layer)
fully_shard(model)
adam = torch.optim.AdamW(model.parameters())
for _ in range(24):
    model(torch.randn(64 * (1 + 3 * rank), 256)).square().mean().backward()
    adam.step(); adam.zero_grad()
dist.destroy_process_group()
"""


def test_collectives_of_sharded_training_are_communication(folder: Path) -> None:
    (folder / "train.py").write_text(SHARDED)
    words = ["--json", "report.json", "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = run(folder, *words, "train.py", timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "report.json").read_text())
    for name in ("c10d::_allgather_base_", "c10d::_reduce_scatter_base_"):
        assert {row["kind"] for row in rows_of(found, name)} == {"collective"}
        assert all(row["flops"] is not None for row in rows_of(found, name))
    parts = found["totals"]["by_class"]
    assert parts["communication"] > parts.get("idle.asleep", 0.0)
    assert "TR108" not in [finding["code"] for finding in found["findings"]]


RECOMPUTING = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
torch.manual_seed(0)
torch.set_num_threads(1)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(256, 512), nn.Linear(512, 256), nn.LayerNorm(256)
    def forward(self, x): return self.norm(x + self.second(torch.relu(self.first(x))))
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
    def forward(self, x):
        for block in self.blocks: x = checkpoint(block, x, use_reentrant=False)
        return x
model = Model()
adam = torch.optim.AdamW(model.parameters())
x = torch.randn(128, 256)
for _ in range(24):
    adam.zero_grad(); model(x).square().mean().backward(); adam.step()
"""


def test_recomputation_is_said_however_noisy_the_times(folder: Path) -> None:
    with busy_processes():
        found = report(folder, RECOMPUTING)
    assert "TR305" in [finding["code"] for finding in found["findings"]]


DECODER = """
import torch
torch.manual_seed(0)
encoder, decoder = torch.nn.GRU(64, 128, batch_first=True), torch.nn.GRUCell(128, 128)
head = torch.nn.Linear(128, 50)
with torch.no_grad():
    for _ in range(20):
        state = encoder(torch.randn(4, 30, 64))[1][0]
        token = state
        for _ in range(25):
            token = decoder(token, state)
            head(token).argmax(-1)
"""


def test_beside_busy_processes_no_row_beats_its_roof_without_a_word(folder: Path) -> None:
    with busy_processes():
        found = report(folder, DECODER)
    assert above_roof(found) == []
    notes = {note["code"] for note in found["notes"]}
    if "cpu-untrusted" not in notes:
        assert "Times are not to be trusted" not in found["stderr"]
        return
    assert found["stderr"].strip().startswith("Warning: Times are not to be trusted")
    assert "at its bounds that takes" in found["stderr"]
    time_findings = [f["code"] for f in found["findings"] if f["gain_s"]]
    assert time_findings == []


LORA = """
import torch, sys
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM
torch.manual_seed(0)
torch.set_num_threads(1)
sizes = {"vocab_size": 500, "hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 2}
model = LlamaForCausalLM(LlamaConfig(num_attention_heads=4, **sizes))
model = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj"]))
model.enable_input_require_grads()
model.gradient_checkpointing_enable()
adam = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
tokens = torch.randint(0, 500, (4, 64))
for _ in range(24):
    model(input_ids=tokens, labels=tokens).loss.backward()
    adam.step(); adam.zero_grad()
"""


@pytest.mark.long
def test_recomputation_of_an_adapted_language_model(folder: Path) -> None:
    for package in ("transformers", "peft"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    with busy_processes():
        found = report(folder, LORA)
    assert "TR305" in [finding["code"] for finding in found["findings"]]
