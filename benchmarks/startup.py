"""How long `import timeroof` and `timeroof --help` take, beside an empty interpreter and polars.

Run: python benchmarks/startup.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

REPEATS = 15
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import timeroof": ["-c", "import timeroof"],
    "import polars": ["-c", "import polars"],
    "timeroof --help": ["-m", "timeroof", "--help"],
}
LIMITS_S = {"import timeroof": 0.150, "timeroof --help": 0.300}


def seconds(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    samples: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(REPEATS):
        for name, arguments in COMMANDS.items():
            samples[name].append(seconds(arguments))
    empty = statistics.median(samples["python -c pass"])
    for name, values in samples.items():
        median = statistics.median(values)
        # An import's own cost is what it adds to an interpreter that does nothing.
        own = median - empty if name == "import timeroof" else median
        limit = LIMITS_S.get(name)
        verdict = "" if limit is None else f"  under {limit} s: {'yes' if own < limit else 'NO'}"
        print(f"{name:18} {1e3 * median:7.1f} ms  ({median / empty:4.1f}x an empty start){verdict}")


if __name__ == "__main__":
    main()
