"""A million op calls with a thousand signatures must be counted in under 3 s.

    python benchmarks/count_ops.py [calls] [signatures]

Both ways in are timed from a cold cache: a table with text columns (what readers have),
and a list of `Call` objects (what a live program gives).
"""

from __future__ import annotations

import sys
import time

import numpy as np
import polars as pl

from timeroof.work import Call, count_many
from timeroof.work.counting import forget_counts
from timeroof.work.recorded import call_from_kineto
from timeroof.work.registry import load_families
from timeroof.work.table import count_table

LIMIT_S = 3.0
SIGNATURE = ("op", "dims", "types", "values")


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


def text_table(rows: list[dict[str, object]], picks: np.ndarray) -> pl.DataFrame:
    """The calls as readers keep them: one text column per list."""
    texts = {k: [r[k] if k == "op" else repr(r[k]) for r in rows] for k in SIGNATURE}
    return pl.DataFrame({k: pl.Series(v, dtype=pl.String).gather(picks) for k, v in texts.items()})


def build_from_text(row: dict[str, object]) -> Call:
    import ast

    return build({k: v if k == "op" else ast.literal_eval(str(v)) for k, v in row.items()})


def main(calls: int = 1_000_000, kinds: int = 1000) -> int:
    load_families()
    rows = signatures(kinds)
    picks = np.random.default_rng(0).integers(0, kinds, calls)
    table = text_table(rows, picks)
    start = time.perf_counter()
    counted = count_table(table, SIGNATURE, build_from_text, matrix_units=True)
    table_s = time.perf_counter() - start
    assert counted.height == calls
    assert counted["unknown"].null_count() == calls
    forget_counts()
    different = [build(r) for r in rows]
    listed = [different[i] for i in picks.tolist()]
    start = time.perf_counter()
    costs = count_many(listed)
    list_s = time.perf_counter() - start
    total = counted["contraction_flops"].sum()
    assert abs(sum(c.contraction_flops or 0.0 for c in costs) - total) <= 1e-9 * total
    print(
        f"{calls} calls, {kinds} signatures (limit {LIMIT_S} s): "
        f"table {table_s:.2f} s, list {list_s:.2f} s"
    )
    return 0 if max(table_s, list_s) < LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main(*(int(a) for a in sys.argv[1:])))
