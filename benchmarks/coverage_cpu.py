"""How much of a training step's CPU time has known amounts. Prints what has not.

    python benchmarks/coverage_cpu.py [resnet transformer lstm unet dlrm | examples/*.py …]

Small models, or whole example programs of two steps (with the making of the model). It
is timed by torch.profiler with shapes; Kineto records no index lists, no formats in
tensor lists and no list longer than 30, so what it leaves out comes from a second,
described run (n-th call of the same op).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import torch
import torch.utils._pytree as pytree
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from timeroof.work import Call, Tensor, call_from_kineto, count, own_costs
from timeroof.work.call import parse_dtype

Step = Callable[[], None]


def trained(model: nn.Module, loss: Callable[[], torch.Tensor], **options: bool) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **options)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


class Residual(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, out // 4, 1, bias=False), nn.BatchNorm2d(out // 4), nn.ReLU(True),
            nn.Conv2d(out // 4, out // 4, 3, stride, 1, bias=False), nn.BatchNorm2d(out // 4),
            nn.ReLU(True), nn.Conv2d(out // 4, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        self.skip = nn.Sequential(
            nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.skip(x))


def resnet() -> Step:
    model = nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True),
        nn.MaxPool2d(3, 2, 1), Residual(64, 256, 1), Residual(256, 512, 2), Residual(512, 1024, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000),
    )  # fmt: skip
    x, y = torch.randn(4, 3, 128, 128), torch.randint(1000, (4,))
    return trained(model, lambda: nn.functional.cross_entropy(model(x), y))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (
            p.view(b, t, self.heads, -1).transpose(1, 2)
            for p in self.qkv(self.norm1(x)).split(c, dim=2)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.out(y.transpose(1, 2).reshape(b, t, c)))
        return x + self.drop(self.mlp(self.norm2(x)))


class Transformer(nn.Module):
    def __init__(self, words: int = 8192, width: int = 256) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(256, width)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(3)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        at = torch.arange(x.shape[1])
        return self.head(self.norm(self.blocks(self.words(x) + self.places(at))))


def transformer() -> Step:
    model = Transformer()
    x = torch.randint(8192, (4, 257))
    return trained(
        model,
        lambda: nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten()),
        fused=True,
    )


def lstm() -> Step:
    words, net = nn.Embedding(4000, 128), nn.LSTM(128, 256, num_layers=2, dropout=0.2)
    head = nn.Linear(256, 4000)
    model, x = nn.ModuleList([words, net, head]), torch.randint(4000, (33, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        y = head(net(words(x[:-1]))[0])
        nn.functional.cross_entropy(y.flatten(0, 1), x[1:].flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def double(channels: int, out: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, out, 3, padding=1), nn.GroupNorm(8, out), nn.SiLU(),
        nn.Conv2d(out, out, 3, padding=1), nn.GroupNorm(8, out), nn.SiLU(),
    )  # fmt: skip


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2, self.middle = double(3, 32), double(32, 64), double(64, 128)
        self.up2, self.up1 = nn.ConvTranspose2d(128, 64, 2, 2), nn.ConvTranspose2d(64, 32, 2, 2)
        self.join2, self.join1 = double(128, 64), double(64, 32)
        self.resize, self.head = nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(32, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.down1(x)
        b = self.down2(nn.functional.max_pool2d(a, 2))
        c = self.middle(nn.functional.max_pool2d(b, 2))
        b = self.join2(torch.cat([self.up2(c), b], 1))
        return self.head(self.resize(self.join1(torch.cat([self.up1(b), a], 1))))


def unet() -> Step:
    model = UNet()
    x, y = torch.randn(2, 3, 64, 64), torch.rand(2, 4, 128, 128)
    return trained(
        model, lambda: nn.functional.binary_cross_entropy_with_logits(model(x), y), foreach=True
    )


def dlrm() -> Step:
    tables = nn.ModuleList(nn.EmbeddingBag(20000, 64, mode="sum") for _ in range(8))
    bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU())
    top = nn.Sequential(nn.Linear(64 + 36, 256), nn.ReLU(), nn.Linear(256, 1))
    model = nn.ModuleList([tables, bottom, top])
    dense, sparse = torch.randn(512, 13), torch.randint(20000, (8, 512, 4))
    i, j = torch.tril_indices(9, 9, offset=-1)
    y = torch.rand(512, 1)

    def loss() -> torch.Tensor:
        x = bottom(dense)
        rows = torch.stack([x, *(t(s) for t, s in zip(tables, sparse, strict=True))], 1)
        pairs = torch.bmm(rows, rows.transpose(1, 2))[:, i, j]
        guess = torch.sigmoid(top(torch.cat([x, pairs], 1)))
        return nn.functional.binary_cross_entropy(guess, y)

    return trained(model, loss)


MODELS: dict[str, Callable[[], Step]] = {
    "resnet": resnet, "transformer": transformer, "lstm": lstm, "unet": unet, "dlrm": dlrm,
}  # fmt: skip


def recorded(step: Step) -> list[dict]:
    """The ops of one step, outer before inner."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        step()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        prof.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    found = [
        e for e in events if e.get("ph") == "X" and e.get("cat") in ("cpu_op", "user_annotation")
    ]
    return sorted(found, key=lambda e: (e["pid"], e["tid"], e["ts"], -e["dur"]))


def nested(events: list[dict]) -> tuple[list[int | None], list[float]]:
    """Parent of every op, and its time without the ops below it."""
    parents: list[int | None] = []
    own = [e["dur"] for e in events]
    stack: list[int] = []
    for i, e in enumerate(events):
        while stack and not _contains(events[stack[-1]], e):
            stack.pop()
        parents.append(stack[-1] if stack else None)
        if stack:
            own[stack[-1]] -= e["dur"]
        stack.append(i)
    return parents, own


def _contains(outer: dict, inner: dict) -> bool:
    same = (outer["pid"], outer["tid"]) == (inner["pid"], inner["tid"])
    return same and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1e-3


class Described(TorchDispatchMode):
    """Collects the calls of a step by op, with results."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, list[Call]] = defaultdict(list)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        name = func._schema.name
        outputs = [t for t in pytree.tree_leaves(neutral(result)) if isinstance(t, Tensor)]
        call = Call.of(name, *neutral(args), outputs=outputs, **neutral(kwargs or {}))
        self.calls[name].append(call)
        return result


def neutral(value):  # type: ignore[no-untyped-def]
    """Tensors of torch as tensors of no framework."""
    if isinstance(value, torch.Tensor):
        return Tensor(
            tuple(value.shape), parse_dtype(str(value.dtype)) or "", tuple(value.stride())
        )
    if isinstance(value, torch.dtype | torch.device):
        return str(value)
    if isinstance(value, dict):
        return {k: neutral(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return tuple(neutral(v) for v in value)
    return value


def completed(events: list[dict], described: dict[str, list[Call]]) -> list[Call]:
    """The recorded calls, those that cannot be counted replaced by described ones."""
    seen: Counter[str] = Counter()
    totals = Counter(e["name"] for e in events)
    calls = []
    for e in events:
        call, name = call_from_kineto(e["name"], e.get("args"), list_dtype="fp32"), e["name"]
        if len(described.get(name, ())) == totals[name] and not count(call).known:
            call = described[name][seen[name]]
        seen[name] += 1
        calls.append(call)
    return calls


def coverage(step: Step) -> tuple[float, float, Counter[str], dict[str, float]]:
    """Share of self time with known amounts, by the trace alone and with the described step;
    what is still unknown; and FLOPs and bytes.
    """
    step()
    events = recorded(step)
    with Described() as mode:
        step()
    parents, own = nested(events)
    alone = own_costs(parents, [count(c) for c in completed(events, {})])
    traced = sum(t for c, t in zip(alone, own, strict=True) if c.known) / sum(own)
    calls = completed(events, mode.calls)
    costs = own_costs(parents, [count(c) for c in calls])
    unknown: Counter[str] = Counter()
    totals = {"flops": 0.0, "contraction": 0.0, "bytes": 0.0}
    for cost, seconds in zip(costs, own, strict=True):
        if not cost.known:
            unknown[cost.unknown or "?"] += seconds
            continue
        totals["flops"] += cost.flops or 0.0
        totals["contraction"] += cost.contraction_flops or 0.0
        totals["bytes"] += cost.bytes or 0.0
    return traced, 1 - sum(unknown.values()) / sum(own), unknown, totals


def program(path: str) -> Step:
    """Two steps of a script; further options stand in TIMEROOF_EXAMPLE_ARGS."""
    options = os.environ.get("TIMEROOF_EXAMPLE_ARGS", "").split()

    def run() -> None:
        sys.argv = [path, "--steps", "2", *options]
        with contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(path, run_name="__main__")

    return run


def main(names: list[str]) -> int:
    torch.manual_seed(0)
    worst = 1.0
    for name in names or list(MODELS):
        start = time.perf_counter()
        traced, share, unknown, totals = coverage(
            MODELS[name]() if name in MODELS else program(name)
        )
        worst = min(worst, share)
        work, moved = totals["contraction"] / 1e9, totals["bytes"] / 1e9
        print(f"{name:24s} known {share:.2%} (trace alone {traced:.2%})")
        print(
            f"    {work:.2f} of {totals['flops'] / 1e9:.2f} GFLOP in contractions, {moved:.3f} GB"
        )
        print(f"    took {time.perf_counter() - start:.1f} s")
        for reason, us in unknown.most_common(8):
            print(f"    {us:8.0f} us  {reason}")
    return 0 if worst >= 0.98 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
