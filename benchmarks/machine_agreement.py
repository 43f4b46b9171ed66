"""Do two measurements of a quiet machine agree: every ceiling within 5 %?

    python benchmarks/machine_agreement.py [--runs 2] [--watch 60]

Each run is `timeroof machine --fresh` in a process of its own, kept in a folder of its own. What
the runs themselves say about the machine (busy, two states of its memory) is printed with them.

--watch looks at the DRAM alone for so many seconds: one process, the same buffer, the same kernel,
once a second. What differs there is the machine and no probe can agree better with itself.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

MOST_APART = 0.05


def measured(home: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "timeroof", "machine", "--fresh", "--json", "-"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TIMEROOF_HOME": home},
    )
    found: dict = json.loads(done.stdout)
    return found


def ceilings(machine: dict) -> dict[tuple[str, str], float]:
    return {
        (c["resource"], c["scope"]): c["rate"]
        for c in machine["ceilings"]
        if c["origin"] == "measured"
    }


def watch(seconds: float) -> None:
    """Print how far DRAM bandwidth moves while nothing of ours changes."""
    from timeroof.probe.cpu import ir as jit
    from timeroof.probe.cpu.bandwidth import levels_of, measure_point
    from timeroof.probe.cpu.crew import Crew
    from timeroof.probe.cpu.streams import PATTERNS
    from timeroof.probe.cpu.threads import Team
    from timeroof.probe.cpu.topology import read_features, read_topology

    features, topology = read_features(jit.architecture(), jit.host_features()), read_topology()
    for cpus in dict.fromkeys([topology.cores[:1], topology.cores]):
        with Team(cpus) as team:
            levels = levels_of(topology, cpus, 1 << 32)
            crew = Crew.make("all", team, levels, features, quick=False)
            size, width = levels[-1].anchors[0], features.widths_bits[0]
            rates = []
            end_s = time.monotonic() + seconds
            while time.monotonic() < end_s:
                point = measure_point(crew.setup(crew.plan), PATTERNS["update"], size, width)
                rates.append(point.figure.rate_per_s / 1e9)
                time.sleep(1.0)
        low, middle, high = min(rates), statistics.median(rates), max(rates)
        print(
            f"DRAM of {len(cpus)} core(s), one buffer, {len(rates)} looks, each the best"
            f" of at least 10 samples: {low:.1f} to {high:.1f} GB/s, median {middle:.1f}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--watch", type=float, default=0.0, help="seconds of looking at the DRAM")
    options = parser.parse_args()
    if options.watch:
        watch(options.watch)
    with tempfile.TemporaryDirectory() as home:
        runs = [measured(home) for _ in range(options.runs)]
    for number, run in enumerate(runs, start=1):
        print(f"run {number}:", *run["notes"], sep="\n  ")
    found = [ceilings(run) for run in runs]
    good = True
    for key in found[0]:
        rates = [rates[key] for rates in found if key in rates]
        apart = max(rates) / min(rates) - 1
        held = apart <= MOST_APART and len(rates) == len(runs)
        good &= held
        values = " ".join(f"{rate:11.4g}" for rate in rates)
        print(f"{key[0]:10} {key[1]:7} {values}  {apart:6.1%}  {'pass' if held else 'FAIL'}")
    print("all ceilings agree" if good else "some ceilings do NOT agree")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
