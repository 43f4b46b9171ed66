"""How long the conv2d and LSTM studies take, and whether cold cases stay below their roofs.

`python benchmarks/study_time.py [--full]`: the quick grids, or the full ones (minutes).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT_S = {False: 60.0, True: 600.0}


def study(folder: Path, *words: str) -> tuple[float, list[dict]]:
    """Seconds of a study, and its rows."""
    target = folder / "study.json"
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "timeroof", "study", "conv2d", "lstm", "--framework", "torch",
         "--precision", "fp32", "--pass", "forward,backward", "--fresh",
         "--db", str(folder / "study.sqlite"), "--json", str(target), *words],
        check=True, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return time.perf_counter() - begin, json.loads(target.read_text(encoding="utf-8"))["kernels"]


def main(full: bool) -> None:
    words = [] if full else ["--quick"]
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([sys.executable, "-m", "timeroof", "machine", "--quick"], check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        taken_s, rows = study(Path(name), *words)
        print(f"{'full' if full else 'quick'} grids: {len(rows)} cases in {taken_s:.0f} s"
              f" (wanted: under {LIMIT_S[full]:.0f} s on two quiet cores)")  # fmt: skip
        _, cold = study(Path(name), *words, "--cache", "cold")
    worst = max(cold, key=lambda r: r["efficiency"])
    above = [r for r in cold if not 0 <= r["efficiency"] <= 1]
    print(f"cold caches: efficiency from {min(r['efficiency'] for r in cold):.3f} to"
          f" {worst['efficiency']:.3f} ({worst['name']})")  # fmt: skip
    for row in above:
        print(f"above its roof: {row['name']}, {row['efficiency']:.2f}, cause {row['above_roof']}")
        assert row["above_roof"], row["name"]


if __name__ == "__main__":
    main("--full" in sys.argv[1:])
