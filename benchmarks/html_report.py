"""How long the page of a report takes to make, and how large it is.

Target: 5,000 rows in under 1 s after imports, under 2 MB; 100,000 rows for scale.

Run: python benchmarks/html_report.py [--rows 5000 100000]
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

import polars as pl

from timeroof.api.reports import analyze
from timeroof.core.profile import Profile, Source
from timeroof.core.report import Report
from timeroof.views.page import html_page
from timeroof.views.page.page import REPORT_SCRIPT
from timeroof.views.page.templates import asset

REPEATS = 7
LIMIT_S = 1.0
LIMIT_BYTES = 2_000_000
TARGET_ROWS = 5_000


def make_report(rows: int) -> Report:
    """Rows with names, modules and shapes of realistic length; no two names alike."""
    chance = random.Random(rows)
    ops = ("aten::add", "aten::mm", "aten::sum", "aten::native_layer_norm", "aten::cat")
    moved = [10 ** chance.uniform(3, 9) for _ in range(rows)]
    flops = [b * 10 ** chance.uniform(-1, 2.5) for b in moved]
    table = pl.DataFrame(
        {
            "name": [
                f"void at::native::vectorized_elementwise_kernel<4, at::native::functor_{k % 700}"
                f"<c10::BFloat16, float>, std::array<char*, {k % 97}ul>>(int, T2, Calc<{k}>)"
                for k in range(rows)
            ],
            "short_name": [f"elementwise {k % 700}" for k in range(rows)],
            "op": [ops[k % 5] for k in range(rows)],
            "phase": [("forward", "backward", "optimizer")[k % 3] for k in range(rows)],
            "module": [f"model.layers.{k % 48}.{'abcd'[k % 4]}" for k in range(rows)],
            "shape": [f"[{k % 61}, {chance.randrange(4096)}, 128]" for k in range(rows)],
            "dtype": ["bf16"] * rows,
            "calls": [float(1 + k % 5) for k in range(rows)],
            "time_s": [b / 1e12 + 2e-6 + chance.random() * 1e-5 for b in moved],
            "flop/fp32": flops,
            "byte/dram": moved,
            "byte/l2": [2.5 * b for b in moved],
            "origin.time": ["measured"] * rows,
        }
    )
    return analyze(Profile.of(table, Source(tool="synthetic")), "h100-sxm")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[TARGET_ROWS, 100_000])
    arguments = parser.parse_args()
    print(f"the page's script: {len(asset(REPORT_SCRIPT).encode()) / 1e6:.2f} MB")
    for rows in arguments.rows:
        report = make_report(rows)
        seconds = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            page = html_page(report)
            seconds.append(time.perf_counter() - start)
        size = len(page.encode())
        verdict = ""
        if rows == TARGET_ROWS:
            holds = statistics.median(seconds) < LIMIT_S and size < LIMIT_BYTES
            verdict = (
                f"  under {LIMIT_S:g} s and {LIMIT_BYTES / 1e6:g} MB: {'yes' if holds else 'NO'}"
            )
        print(
            f"{rows:8,} rows: median {statistics.median(seconds):.3f} s"
            f" ({min(seconds):.3f} to {max(seconds):.3f}), {size / 1e6:.2f} MB{verdict}"
        )


if __name__ == "__main__":
    main()
