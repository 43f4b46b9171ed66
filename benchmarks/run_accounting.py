"""Does every second add up: the examples under `timeroof run`, their parts and what is unexplained.

    python benchmarks/run_accounting.py [--steps 40] [--small] [--repeat 1] [names …]

Per example: the parts sum to the timed step exactly; what is left between timed steps without
the profiler's cost and clean ones is at most the larger of 3 % and two standard errors; coverage;
kernels above their roof; and, with --repeat 2, the share of the time whose limiter stays.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLES = {
    "resnet50": ["--image-size", "96"],
    "gpt2": ["--layers", "2", "--length", "32"],
    "lstm_loop": [],
    "unet": ["--small", "--batch", "8"],
    "dlrm": ["--batch", "512", "--tables", "8"],
}


def watched(name: str, steps: int, options: list[str]) -> dict:
    script = str(ROOT / "examples" / f"{name}.py")
    words = [script, "--steps", str(steps + 4), "--threads", "1", *options]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "report.json")
        command = [sys.executable, "-m", "timeroof", "run", "--steps", str(steps)]
        command += ["--json", str(target), *words]
        subprocess.run(command, capture_output=True, check=True)
        found: dict = json.loads(target.read_text())
    return found


def limiters(report: dict) -> dict[tuple, tuple[str, float]]:
    return {
        (r["kind"], r["name"], r["shape"], r["module"], r["phase"]): (r["limiter"], r["time_s"])
        for r in report["kernels"]
    }


def same_share(first: dict, second: dict) -> float:
    """Share of the first run's time whose rows have the same limiter in the second."""
    a, b = limiters(first), limiters(second)
    same = sum(s for key, (limiter, s) in a.items() if b.get(key, ("", 0))[0] == limiter)
    return same / sum(s for _, s in a.values())


def check(name: str, report: dict) -> bool:
    totals, steps = report["totals"], report["totals"]["steps"]
    rows = report["kernels"]
    parts = sum(r["time_s"] for r in rows) + sum(totals["idle_by_cause"].values())
    parts += totals["unexplained_s"]
    exact = abs(parts - totals["wall_s"]) < 1e-9 * totals["wall_s"]
    unexplained = totals["unexplained_s"] / totals["wall_s"]
    error = (totals["unexplained_error_s"] or 0.0) / totals["wall_s"]
    small = abs(unexplained) <= max(0.03, 2 * error)
    above = [
        r for r in rows
        if r["work_bound_s"] and r["time_s"] / r["calls"] > 50e-6
        and r["work_bound_s"] > 1.1 * r["time_s"]
    ]  # fmt: skip
    flagged = sum(r["above_roof"] is not None for r in above)
    print(
        f"{name:10} unprofiled {steps['unprofiled_s'] * 1e3:8.2f} ms, profiled"
        f" {steps['profiled_s'] * 1e3:8.2f} ms:"
        f" unexplained {unexplained:+.1%} ± {error:.1%} {'ok' if small else 'TOO LARGE'};"
        f" parts {'exact' if exact else 'DIFFER'}; known {totals['known_time_share']:.2%};"
        f" above the roof by 10 %: {len(above)} ({flagged} flagged)"
    )
    return exact and small


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--repeat", type=int, default=1)
    args = parser.parse_args()
    held = True
    for name in args.names or EXAMPLES:
        options = ["--small"] if args.small else EXAMPLES[name]
        with contextlib.redirect_stdout(io.StringIO()):
            reports = [watched(name, args.steps, options) for _ in range(args.repeat)]
        for report in reports:
            held &= check(name, report)
        if len(reports) > 1:
            share = same_share(reports[0], reports[1])
            print(f"{'':10} the same limiter for {share:.1%} of the time in two runs")
            held &= share >= 0.95
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
