"""How much the timed pass slows a program down, against the bare program and FlopCounterMode.

    python benchmarks/run_overhead.py [--rounds 12] [--threads 1]
    python benchmarks/run_overhead.py --unprofiled [--rounds 4] [--steps 300] [--threads 1]

JAX and TensorFlow: `run_overhead_xla.py`.
Paired and alternating: a bare step, one that is looked at, a bare step. Limits: 1.05 on the
convolution net, 1.5 on the LSTM loop, and there at least 5 times closer to the bare time than
torch's FlopCounterMode. The allocator keeps freed memory here: whether a step meets page faults
depends on what was freed before it, which is several per cent of the convolution net's time.

`--unprofiled`: what the recorder costs steps that it leaves alone. Whole programs with and without
it, in turns (A B B A), each prints the lower quartile of the CPU time of its later steps: they come
after all that are profiled but for a short window. Limit: 1.01 on the least of either.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
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


def step_cpu_s(step: Step, steps: int) -> float:
    """The CPU time of a later step, in a loop as long as a program's: a quarter are quicker."""
    times: list[float] = []
    for _ in range(steps):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return statistics.quantiles(times[len(times) // 2 :], n=4)[0]


def unprofiled_ratio(name: str, rounds: int, steps: int) -> float:
    """Later steps under the recorder over those of the bare program, each the least of all."""
    alone = [sys.executable, __file__, "--alone", name, "--steps", str(steps)]
    recorded = [sys.executable, "-m", "timeroof", "run", "--machine", "v100-sxm2", *alone[1:]]
    found: dict[bool, list[float]] = {False: [], True: []}
    for n in range(rounds):
        for is_recorded in (False, True) if n % 2 else (True, False):
            words = recorded if is_recorded else alone
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            found[is_recorded].append(float(done.stdout))
    return min(found[True]) / min(found[False])


def check_unprofiled(rounds: int, steps: int) -> bool:
    """Print what the recorder costs unprofiled steps; whether it is little enough."""
    ratios = {name: unprofiled_ratio(name, rounds, steps) for name in STEPS}
    for name, ratio in ratios.items():
        print(f"{name:10} unprofiled steps x{ratio:.4f} of the bare program's (limit 1.01)")
    return max(ratios.values()) <= 1.01


STEPS = {"conv net": conv_net, "LSTM loop": lstm_loop}


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
    parser.add_argument("--unprofiled", action="store_true")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--alone", choices=STEPS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    if args.alone:
        print(step_cpu_s(STEPS[args.alone](), args.steps))
        return 0
    if args.unprofiled:
        return 0 if check_unprofiled(min(args.rounds, 4), args.steps) else 1
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
