"""How long the residency models take on a long sequence of ops.

python benchmarks/residency.py [--ops 20000] [--accesses 5]

The sequence is like a training step: a forward pass that leaves activations, a backward pass that
reads them in reverse order, an optimizer over all parameters.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from timeroof.work.locality.accesses import Accesses, ladder_bytes
from timeroof.work.locality.ideal import ideal_traffics

if TYPE_CHECKING:
    from timeroof.work.locality.accesses import Range

MB = 1_000_000
LEVELS_BYTES = (2 * MB, 50 * MB)
LIMIT_S = 10.0


def training_step(op_count: int, per_op: int, seed: int = 0) -> tuple[Accesses, list[str]]:
    """Ops with about `per_op` accesses each, and their phases."""
    rng = np.random.default_rng(seed)
    layers = max(op_count // 3, 1)
    sizes = [int(size) for size in rng.integers(1, 200, size=layers) * 10_000]
    ops = [forward(i, sizes[i], sizes[i - 1], per_op, rng) for i in range(layers)]
    ops += [backward(i, sizes[i], per_op) for i in reversed(range(layers))]
    ops += [update(i, per_op) for i in range(layers)]
    phases = ["forward"] * layers + ["backward"] * layers + ["optimizer"] * layers
    return Accesses.of(ops, persistent={f"w{i}" for i in range(layers)}), phases


def forward(
    i: int, size: int, size_before: int, per_op: int, rng: np.random.Generator
) -> list[Range]:
    before = f"a{i - 1}" if i else "x"
    ranges: list[Range] = [
        (before, 0, size_before, "read"),
        (f"w{i}", 0, 400_000, "read"),
        (f"a{i}", 0, size, "write"),
    ]
    # Views of earlier activations (skips, slices): they cut storages into pieces.
    for _ in range(per_op - 3):
        j = int(rng.integers(max(0, i - 50), i + 1))
        ranges.append((f"a{j}", int(rng.integers(0, 4)) * 1000, 5000, "read"))
    return ranges


def backward(i: int, size: int, per_op: int) -> list[Range]:
    ranges: list[Range] = [
        (f"a{i}", 0, size, "read"),
        (f"w{i}", 0, 400_000, "read"),
        (f"d{i + 1}", 0, size, "read"),
        (f"d{i}", 0, size, "write"),
        (f"g{i}", 0, 400_000, "write"),
    ]
    return ranges[:per_op] + [(f"a{i}", k * 1000, 500, "read") for k in range(per_op - 5)]


def update(i: int, per_op: int) -> list[Range]:
    ranges: list[Range] = [(f"w{i}", 0, 400_000, "read"), (f"w{i}", 0, 400_000, "write")]
    ranges += [(f"g{i}", 0, 400_000, "read"), (f"m{i}", 0, 400_000, "read")]
    return [*ranges, (f"m{i}", 0, 400_000, "write")][:per_op]


def timed(what: str, work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    seconds = time.perf_counter() - begin
    print(f"{what:45s} {seconds:7.3f} s")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=int, default=20_000)
    parser.add_argument("--accesses", type=int, default=5, help="per op")
    args = parser.parse_args()
    accesses, phases = training_step(args.ops, args.accesses)
    print(f"{accesses.op_count} ops, {len(accesses.op)} accesses")
    total = timed("ideal cache, 2 levels", lambda: ideal_traffics(accesses, LEVELS_BYTES))
    total += timed("the same, warm", lambda: ideal_traffics(accesses, LEVELS_BYTES, warm=True))
    total += timed("ladder", lambda: ladder_bytes(accesses, phases))
    verdict = "within" if total <= LIMIT_S else "ABOVE"
    print(f"{'all':45s} {total:7.3f} s, {verdict} the limit of {LIMIT_S:g} s")


if __name__ == "__main__":
    main()
