"""Do two runs of one program name the same limiters? The share of the time that agrees.

    python benchmarks/run_limiters.py lstm_loop resnet50

Every example runs twice under `timeroof run`. Rows are matched by name, shape, module and phase;
printed is the share of the first run's kernel time whose limiter is the same in the second,
and the rows that hold most of the rest. At least 95 % is the aim.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
KEY = ("kind", "name", "shape", "module", "phase")
SHOWN = 8


def run(script: str, arguments: list[str], folder: Path) -> dict[str, Any]:
    """One run's report."""
    out = folder / "report.json"
    words = [sys.executable, "-m", "timeroof", "run", "--json", str(out)]
    subprocess.run([*words, str(EXAMPLES / f"{script}.py"), *arguments], check=True)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def by_key(report: dict[str, Any]) -> dict[tuple[Any, ...], dict[str, float]]:
    """Seconds per limiter of every row."""
    rows: dict[tuple[Any, ...], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for kernel in report["kernels"]:
        rows[tuple(kernel[k] for k in KEY)][kernel["limiter"]] += kernel["time_s"]
    return rows


def compare(first: dict[str, Any], second: dict[str, Any]) -> tuple[float, list[str]]:
    """The share of the time with the same limiter, and lines on the largest others."""
    ours, theirs = by_key(first), by_key(second)
    total = same = 0.0
    others: list[tuple[float, str]] = []
    for key, limiters in ours.items():
        mine = max(limiters, key=lambda name: limiters[name])
        seconds = sum(limiters.values())
        total += seconds
        other = theirs.get(key)
        its = max(other, key=lambda name: other[name]) if other else "not there"
        if its == mine:
            same += seconds
        else:
            others.append((seconds, f"{seconds * 1e6:10.1f} µs  {mine} / {its}  {key[1]} {key[2]}"))
    lines = [text for _, text in sorted(others, reverse=True)[:SHOWN]]
    return (same / total if total else 1.0), lines


def main() -> None:
    """Run the named examples twice each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("examples", nargs="*", default=["lstm_loop", "resnet50"])
    parser.add_argument("--arguments", default="--small --threads 1", help="for the examples")
    options = parser.parse_args()
    for script in options.examples:
        with tempfile.TemporaryDirectory() as folder:
            reports = [run(script, options.arguments.split(), Path(folder)) for _ in range(2)]
        share, lines = compare(*reports)
        print(f"{script}: {share:.1%} of the time has the same limiter in both runs")
        for line in lines:
            print(line)


if __name__ == "__main__":
    main()
