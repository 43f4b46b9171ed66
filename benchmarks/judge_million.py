"""Judge 1,000,000 kernels with 6 resources each; beside it, the same sums by a plain Python loop.

Run: python benchmarks/judge_million.py
"""

from __future__ import annotations

import time

import numpy as np
import polars as pl

from timeroof.api.reports import machine
from timeroof.core.profile import Profile, Source
from timeroof.model.judge import judge
from timeroof.model.totals import totals

ROWS = 1_000_000
LOOP_ROWS = 20_000
LIMIT_S = 0.5
RESOURCES = ("flop/fp32", "flop/fp16-tensor", "byte/l1", "byte/l2", "byte/dram")


def make_profile(rows: int) -> Profile:
    random = np.random.default_rng(7)
    names = pl.Series([f"kernel_{i}" for i in range(1000)])
    table = {
        "name": names.gather(random.integers(0, len(names), rows)),
        "time_s": random.lognormal(-9, 2, rows),
        "launches": np.ones(rows),
    }
    table |= {r: random.lognormal(18, 3, rows) for r in RESOURCES}
    return Profile.of(pl.DataFrame(table), Source(tool="benchmark"))


def python_loop(profile: Profile, rates: dict[str, float]) -> float:
    start = time.perf_counter()
    for row in profile.kernels.head(LOOP_ROWS).iter_rows(named=True):
        bounds = {r: row[r] / rates[r] for r in RESOURCES} | {
            "launch": row["launches"] / rates["launch"]
        }
        max(bounds, key=bounds.__getitem__)
    return (time.perf_counter() - start) * ROWS / LOOP_ROWS


def main() -> None:
    v100 = machine("v100-paper")
    profile = make_profile(ROWS)
    best = total = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        verdicts = judge(profile, v100)
        best = min(best, time.perf_counter() - start)
        start = time.perf_counter()
        totals(profile, verdicts, v100)
        total = min(total, time.perf_counter() - start)
    loop = python_loop(profile, {r: v100.rate(r) or 1.0 for r in (*RESOURCES, "launch")})
    print(f"judge {ROWS:,} kernels x {len(verdicts.resources)} resources: {best:.3f} s")
    print(f"totals of them: {total:.3f} s")
    print(f"limiter alone by a Python loop: {loop:.2f} s ({loop / best:.0f}x as long)")
    print(f"under {LIMIT_S} s: {'yes' if best < LIMIT_S else 'NO'}")


if __name__ == "__main__":
    main()
