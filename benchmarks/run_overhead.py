"""How much the timed pass slows a program down, against the bare program and FlopCounterMode.

    python benchmarks/run_overhead.py [--rounds 12] [--threads 1]

JAX and TensorFlow: `run_overhead_xla.py`.
Paired and alternating: a bare step, one that is looked at, a bare step. Limits: 1.05 on the
convolution net, 1.5 on the LSTM loop, and there at least 5 times closer to the bare time than
torch's FlopCounterMode. The allocator keeps freed memory here: whether a step meets page faults
depends on what was freed before it, which is several per cent of the convolution net's time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from timeroof_recorder.torch.timing import Timing

Step = Callable[[], None]


def conv_net() -> Step:
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1), nn.BatchNorm2d(128), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    x, y = torch.randn(8, 3, 64, 64), torch.randint(10, (8,))
    return trained(model, lambda: nn.functional.cross_entropy(model(x), y))


def lstm_loop() -> Step:
    cell, head = nn.LSTMCell(32, 16), nn.Linear(16, 10)
    x, y = torch.randn(16, 128, 32), torch.randint(10, (16,))

    def loss() -> torch.Tensor:
        h = c = x.new_zeros(16, 16)
        for t in range(x.shape[1]):
            h, c = cell(x[:, t], (h, c))
        return nn.functional.cross_entropy(head(h), y)

    return trained(nn.ModuleList([cell, head]), loss)


def trained(model: nn.Module, loss: Callable[[], torch.Tensor]) -> Step:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def seconds(step: Step) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def timed_seconds(step: Step) -> float:
    timing = Timing()
    timing.start()
    try:
        return seconds(step)
    finally:
        timing.stop()


def counted_seconds(step: Step) -> float:
    with FlopCounterMode(display=False):
        return seconds(step)


def slow_down(step: Step, look: Callable[[Step], float], rounds: int) -> tuple[float, float]:
    """Bare seconds, and the median of the paired ratios of a way to look at a step."""
    for _ in range(2):
        seconds(step)
        look(step)
    bare, ratios = [], []
    for _ in range(rounds):
        before = seconds(step)
        watched = look(step)
        after = seconds(step)
        bare += [before, after]
        ratios.append(watched / ((before + after) / 2))
    return statistics.median(bare), statistics.median(ratios)


def keep_memory() -> None:
    """Start again with an allocator that gives no memory back, unless that is so already."""
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        kept = {"MALLOC_TRIM_THRESHOLD_": str(1 << 32), "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | kept)


def main() -> int:
    keep_memory()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    held = True
    for name, make, limit in (("conv net", conv_net, 1.05), ("LSTM loop", lstm_loop, 1.5)):
        step = make()
        bare, timed = slow_down(step, timed_seconds, args.rounds)
        _, counted = slow_down(step, counted_seconds, args.rounds)
        closer = (counted - 1) / max(timed - 1, 1e-9)
        print(
            f"{name:10} bare {bare * 1e3:7.2f} ms  timed x{timed:.3f} (limit {limit})"
            f"  FlopCounterMode x{counted:.2f}, {closer:.0f} times farther from the bare time"
        )
        held &= timed <= limit and (name == "conv net" or closer >= 5)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
