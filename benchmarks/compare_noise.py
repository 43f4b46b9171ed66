"""False alarms and power of compare and check: one program many times, then with a known change.

Runs a small program through `timeroof run` again and again. Every pair of consecutive runs is
compared, and every run is checked against the first: whatever is reported there is a false alarm.
Then one of its layers gets more work: in how many of the runs is that layer named?

python benchmarks/compare_noise.py [--runs 20] [--changed 5] [--wider 1.1] [--steps 24]
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

from timeroof.api.reports import Report, load
from timeroof.model.check.gate import Limits, check
from timeroof.model.check.limits import parse_rule
from timeroof.model.compare.compare import Comparison, compare

PROGRAM = Path(__file__).with_name("compare_noise_program.py")
RULES = tuple(
    parse_rule(f"phase={phase}:time<105%") for phase in ("forward", "backward", "optimizer")
)


def measured(options: argparse.Namespace, path: Path, wider: float) -> Report:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    steps = ["--steps", str(options.steps)]
    words = ["run", *steps, "--save", str(path), str(PROGRAM), "--steps", str(options.steps + 4)]
    done = subprocess.run(
        [sys.executable, "-m", "timeroof", *words, "--wider", str(wider)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if not path.exists():
        sys.exit(f"timeroof {' '.join(words)}: {done.stderr.strip()}")
    return load(path)


def moved(comparison: Comparison) -> list[str]:
    rows = comparison.rows.filter(pl.col("significant"))
    return [
        f"{name} ({(b - a) / max(a, 1e-12):+.0%})"
        for name, a, b in rows.select("name", "a_s", "b_s").iter_rows()
    ]


def false_alarms(reports: list[Report]) -> int:
    totals = rows = checks = rules = 0
    for before, after in itertools.pairwise(reports):
        got = compare(before, after)
        totals += got.significant
        rows += bool(moved(got))
        if moved(got):
            print("  ", ", ".join(moved(got)[:4]))
    for report in reports[1:]:
        first, *others = check(report, reports[0], Limits(max_slowdown=0.05, rules=RULES)).limits
        checks += not first.passed
        rules += not all(limit.passed for limit in others)
    pairs = len(reports) - 1
    print(f"{pairs} consecutive pairs: {totals} whole runs and {rows} with kernels called changed")
    print(f"{pairs} checks against the first: {checks} failed by slow-down, {rules} by phase rules")
    return totals + rows + checks + rules


def power(base: list[Report], changed: list[Report]) -> None:
    found = other = pairs = 0
    for after in changed:
        for before in base:
            rows = compare(before, after).rows.filter(pl.col("significant"))
            layer = rows.filter(~pl.col("matched_by").str.starts_with("name kind"))
            found += layer.height > 0
            other += rows.height > layer.height
            pairs += 1
    print(f"the changed layer is named in {found} of {pairs} pairs, another kernel in {other}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--changed", type=int, default=5, help="runs of the changed program")
    parser.add_argument("--wider", type=float, default=1.1, help="work of the changed layer")
    parser.add_argument("--steps", type=int, default=24)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        base = [measured(options, Path(name) / f"{i}.troof", 1.0) for i in range(options.runs)]
        seconds = sorted(r.totals.ladder.measured_s for r in base)
        print(f"{options.runs} runs of {seconds[0] * 1e3:.1f} to {seconds[-1] * 1e3:.1f} ms a step")
        alarms = false_alarms(base)
        changed = [
            measured(options, Path(name) / f"c{i}.troof", options.wider)
            for i in range(options.changed)
        ]
        print(f"one layer with {options.wider - 1:+.0%} work, against all {options.runs} runs:")
        power(base, changed)
    print(f"false alarms: {alarms}")
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
