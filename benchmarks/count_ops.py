"""A million op calls with a thousand signatures must be counted in under 3 s.

    python benchmarks/count_ops.py [calls] [signatures]

Timed from a cold cache: a list of `Call` objects, as a live program and the readers give them.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from timeroof.work import Call, count
from timeroof.work.counting import forget_counts
from timeroof.work.recorded import call_from_kineto
from timeroof.work.registry import load_families

LIMIT_S = 3.0


Row = dict[str, object]


def signatures(count: int) -> list[Row]:
    """Recorded ops of four families with different sizes."""
    return [(mm, add, conv2d, softmax)[i % 4](8 + i) for i in range(count)]


def row(op: str, dims: list[list[int]], types: list[str], values: list[str]) -> Row:
    return {"op": op, "dims": dims, "types": types, "values": values}


def mm(n: int) -> Row:
    return row("aten::mm", [[n, 64], [64, 128]], ["float"] * 2, ["", ""])


def add(n: int) -> Row:
    types = ["c10::Half", "c10::Half", "Scalar"]
    return row("aten::add", [[n, 512], [512], []], types, ["", "", "1"])


def conv2d(n: int) -> Row:
    dims: list[list[int]] = [[n, 16, 32, 32], [32, 16, 3, 3], [32], [], [], [], []]
    types = ["float"] * 3 + ["ScalarList"] * 3 + ["Scalar"]
    return row("aten::conv2d", dims, types, ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "1"])


def softmax(n: int) -> Row:
    types = ["c10::BFloat16", "Scalar", "Scalar"]
    return row("aten::_softmax", [[n, 1024], [], []], types, ["", "-1", "False"])


def build(row: dict[str, object]) -> Call:
    args = {"Input Dims": row["dims"], "Input type": row["types"], "Concrete Inputs": row["values"]}
    return call_from_kineto(str(row["op"]), args)


def main(calls: int = 1_000_000, kinds: int = 1000) -> int:
    load_families()
    picks = np.random.default_rng(0).integers(0, kinds, calls)
    different = [build(r) for r in signatures(kinds)]
    listed = [different[i] for i in picks.tolist()]
    forget_counts()
    start = time.perf_counter()
    costs = [count(call) for call in listed]
    taken_s = time.perf_counter() - start
    assert all(c.contraction_flops is not None for c in costs)
    print(f"{calls} calls, {kinds} signatures: {taken_s:.2f} s (limit {LIMIT_S} s)")
    return 0 if taken_s < LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main(*(int(a) for a in sys.argv[1:])))
