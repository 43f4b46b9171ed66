"""CPU time and peak memory of the main paths, beside those of another commit, in one run.

    python benchmarks/against_commit.py [COMMIT] [--rounds 5] [--most 1.03] [--only read,judge]

The other commit is checked out into a worktree that is thrown away; both run in the same
environment, in turns (A B B A), each time in a fresh process. Best of all rounds: what a
neighbour on the machine adds is not the program's. Exit code 1 where a ratio is above --most.
Of `run` a second line says what it costs over the bare program, which runs in turns with both.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from read_small import ROOT, environment, measured, worktree

TRACE_COPIES = 40
JUDGE = """
import numpy as np, polars as pl, timeroof
from timeroof.core.profile import Profile, Source
from timeroof.model.judge import judge
rows, random = 1_000_000, np.random.default_rng(0)
names = ("flop/fp32", "flop/fp16-tensor", "byte/l1", "byte/l2", "byte/dram")
table = {"name": ["k"] * rows, "time_s": random.uniform(1e-6, 1e-3, rows)}
table |= {name: random.uniform(1e3, 1e9, rows) for name in names}
judge(Profile.of(pl.DataFrame(table), Source(tool="benchmark")), timeroof.machine("v100-sxm2"))
"""
PROGRAM = """
import torch
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(8)])
optimizer = torch.optim.Adam(model.parameters())
for _ in range(60):
    optimizer.zero_grad()
    model(torch.randn(32, 64)).sum().backward()
    optimizer.step()
"""


class Cost(NamedTuple):
    """What one process took."""

    cpu_s: float
    peak_mb: float


def commands(scratch: Path) -> dict[str, list[str]]:
    """What is compared, as words behind `python`."""
    trace, program = scratch / "trace.json", scratch / "train.py"
    trace.write_bytes(json.dumps(repeated_trace()).encode())
    program.write_text(PROGRAM)
    load = f"import timeroof; timeroof.load({str(trace)!r})"
    page = ["--html", str(scratch / "page.html")]
    small = str(ROOT / "examples" / "trace.json.gz")
    return {
        "startup": ["-m", "timeroof", "--help"],
        "read": ["-c", load],
        "read small to page": ["-m", "timeroof", "read", small, *page],
        "judge a million": ["-c", JUDGE],
        "run to page": ["-m", "timeroof", "run", "--machine", "v100-sxm2", *page, str(program)],
    }


def bare(scratch: Path, name: str) -> list[str] | None:
    """The program that a command runs, by itself."""
    return [str(scratch / "train.py")] if name.startswith("run") else None


def print_over(before: Cost, now: Cost, alone: Cost) -> None:
    """What two commits cost over the bare program."""
    cpu = [cost.cpu_s - alone.cpu_s for cost in (before, now)]
    peak = [cost.peak_mb - alone.peak_mb for cost in (before, now)]
    print(
        f"{'  over the program':20} CPU {cpu[0]:6.2f} → {cpu[1]:6.2f} s  ×{cpu[1] / cpu[0]:.2f}"
        f"   peak {peak[0]:5.0f} → {peak[1]:5.0f} MB  ×{peak[1] / (peak[0] or 1.0):.2f}",
        flush=True,
    )


def repeated_trace() -> dict[str, object]:
    """The example trace many times over, each copy later and with numbers of its own."""
    with gzip.open(ROOT / "examples" / "trace.json.gz") as stream:
        trace = json.load(stream)
    events = trace["traceEvents"]
    last_us = max(e["ts"] + e.get("dur", 0) for e in events if "ts" in e)
    copies = []
    for n in range(TRACE_COPIES):
        for event in events:
            later = dict(event, ts=event["ts"] + n * last_us) if "ts" in event else dict(event)
            numbered = {
                key: value + n * 10_000_000 if key in NUMBERS and isinstance(value, int) else value
                for key, value in later.get("args", {}).items()
            }
            copies.append(later | ({"args": numbered} if numbered else {}))
    return trace | {"traceEvents": copies}


NUMBERS = frozenset({"correlation", "External id", "Ev Idx"})


def cost_of(words: list[str], variables: dict[str, str], scratch: Path) -> Cost:
    """Run one process under the variables of a source tree."""
    return Cost(*measured([sys.executable, *words], variables, scratch))


def main() -> int:
    """Print a line per command; 1 where one costs more than it may."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("commit", nargs="?", default="HEAD~1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--most", type=float, default=1.03)
    parser.add_argument("--only", default="", help="commands by their first words, with commas")
    asked = parser.parse_args()
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        with worktree(asked.commit, scratch / "other") as other:
            sources = (other, ROOT / "src")
            variables = {
                source: environment(source, scratch / f"caches-{n}") | {"OMP_NUM_THREADS": "1"}
                for n, source in enumerate(sources)
            }
            for name, words in commands(scratch).items():
                if asked.only and not name.startswith(tuple(asked.only.split(","))):
                    continue
                found: dict[Path, list[Cost]] = {source: [] for source in sources}
                program, alone = bare(scratch, name), []
                for n in range(asked.rounds + 1):
                    for source in sources if n % 2 else sources[::-1]:
                        found[source].append(cost_of(words, variables[source], scratch))
                    if program is not None:
                        alone.append(cost_of(program, variables[sources[1]], scratch))
                # The first round fills caches that both keep.
                before, now = (
                    Cost(*(min(costs) for costs in zip(*found[source][1:], strict=True)))
                    for source in sources
                )
                cpu, peak = now.cpu_s / before.cpu_s, now.peak_mb / before.peak_mb
                worst = max(worst, cpu, peak)
                print(
                    f"{name:20} CPU {before.cpu_s:6.2f} → {now.cpu_s:6.2f} s  ×{cpu:.2f}"
                    f"   peak {before.peak_mb:5.0f} → {now.peak_mb:5.0f} MB  ×{peak:.2f}",
                    flush=True,
                )
                if alone:
                    least = Cost(*(min(costs) for costs in zip(*alone[1:], strict=True)))
                    print_over(before, now, least)
    return 1 if worst > asked.most else 0


if __name__ == "__main__":
    sys.exit(main())
