"""Predicted against measured gain: every sin of examples/sins and its cure, through `timeroof run`.

For each pair: is the right finding first, is its gain (an upper limit) not below the gain that is
measured when the cure runs, and does the cure no longer show it? Pairs alternate, and the median of
the clean steps counts. One thread by default: a shared machine disturbs one thread least.

python benchmarks/predicted_vs_measured_gain.py [--repeats 3] [--steps 20] [--threads 1] [SIN…]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SINS = Path(__file__).parents[1] / "examples" / "sins"
LINE = re.compile(r"`(\w+)\.py`.*?(TR\d\d\d)")


@dataclass
class Pair:
    sin: str
    code: str
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"": [], "_fixed": []})
    reports: dict[str, list[Any]] = field(default_factory=lambda: {"": [], "_fixed": []})

    def measured_gain_s(self) -> float:
        return statistics.median(self.seconds[""]) - statistics.median(self.seconds["_fixed"])

    def predicted_gain_s(self) -> float | None:
        gains = [gain_of(report, self.code) for report in self.reports[""]]
        known = [gain for gain in gains if gain is not None]
        return statistics.median(known) if known else None

    def first(self) -> list[str]:
        return [r["findings"][0]["code"] if r["findings"] else "-" for r in self.reports[""]]

    def still_shown(self) -> bool:
        return any(gain_of(report, self.code) is not None for report in self.reports["_fixed"])


def gain_of(report: Any, code: str) -> float | None:
    found = [f["evidence"]["own_gain_s"] for f in report["findings"] if f["code"] == code]
    return found[0] if found else None


def pairs(names: list[str]) -> list[Pair]:
    text = (SINS / "README.md").read_text(encoding="utf-8")
    known = [Pair(sin, code) for sin, code in LINE.findall(text)]
    return [p for p in known if not names or p.sin in names]


def timeroof(*arguments: str, threads: int, makes: str | None = None) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    done = subprocess.run(
        [sys.executable, "-m", "timeroof", *arguments],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )
    if done.returncode or (makes is not None and not Path(makes).exists()):
        sys.exit(f"timeroof {' '.join(arguments)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def measure(pair: Pair, variant: str, options: argparse.Namespace, folder: Path) -> None:
    saved = str(folder / f"{pair.sin}{variant}.troof")
    script = str(SINS / f"{pair.sin}{variant}.py")
    steps = ["--steps", str(options.steps), "--threads", str(options.threads)]
    timeroof("run", "--save", saved, script, *steps, threads=options.threads, makes=saved)
    report = json.loads(timeroof("explain", saved, "--json", "-", threads=options.threads))
    pair.reports[variant].append(report)
    step = (report["totals"]["steps"] or {}).get("unprofiled_s")
    pair.seconds[variant].append(step or report["totals"]["ladder"]["measured_s"])


def line(pair: Pair) -> tuple[str, bool]:
    predicted, measured = pair.predicted_gain_s(), pair.measured_gain_s()
    right = all(code == pair.code for code in pair.first())
    holds = predicted is not None and predicted >= measured
    gone = not pair.still_shown()
    shown = f"{predicted * 1e3:9.2f}" if predicted is not None else "        -"
    words = [
        f"{pair.sin:22} {pair.code} {statistics.median(pair.seconds['']) * 1e3:9.2f}",
        f"{statistics.median(pair.seconds['_fixed']) * 1e3:9.2f} {measured * 1e3:9.2f} {shown}",
        f"first: {'yes' if right else ','.join(pair.first())}",
        f"limit holds: {'yes' if holds else 'NO'}  gone when fixed: {'yes' if gone else 'NO'}",
    ]
    return "  ".join(words), right and holds and gone


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("sins", nargs="*")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    print(f"{'milliseconds per step':28}       sin     fixed  measured predicted")
    good = True
    with tempfile.TemporaryDirectory() as name:
        for pair in pairs(options.sins):
            for _ in range(options.repeats):
                for variant in ("", "_fixed"):
                    measure(pair, variant, options, Path(name))
            text, fine = line(pair)
            good = good and fine
            print(text, flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
