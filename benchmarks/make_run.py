"""`make run` on a quiet machine, and beside two processes that keep both cores busy.

`python benchmarks/make_run.py [--busy N]`: once as the machine is, in seconds (wanted: under 120 on
two quiet cores); then N times (default 10) beside two spinning processes: at least four of the five
factors concluded each time, every one in the direction of the first run.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT_S, FEWEST = 120.0, 4
SPIN = "while True: pass"


def command() -> list[str]:
    """The study of the Makefile's target."""
    makefile = (Path(__file__).parents[1] / "Makefile").read_text("utf-8")
    found = re.search(r"timeroof (study .*?) --out", makefile)
    assert found is not None
    return [sys.executable, "-m", "timeroof", *found[1].split()]


def factors(folder: Path) -> tuple[float, dict[str, str | None], float]:
    """Seconds of a run, the direction of each factor (None: open), and the load beside it."""
    begin = time.perf_counter()
    subprocess.run([*command(), "--out", str(folder)], check=True, stderr=subprocess.DEVNULL)
    taken_s = time.perf_counter() - begin
    document = json.loads((folder / "study.json").read_text("utf-8"))
    found = {f["code"]: f["evidence"] for f in document["findings"] if "lead" in f["evidence"]}
    load = max(f["evidence"].get("load") or 0.0 for f in document["findings"])
    return taken_s, {code: _direction(facts) for code, facts in found.items()}, load


def _direction(facts: dict) -> str | None:
    """What was concluded: of which comparison, and which way."""
    if not facts["concluded"]:
        return None
    lead = facts["lead"]
    unit = "" if facts.get("has_matrix_unit", True) else "no unit, "
    return f"{unit}{lead['other']} against {lead['base']}: {lead['verdict']}"


def _is_against(first: str, then: str) -> bool:
    """Whether two conclusions contradict: of another pair of cases they may say the same."""
    return first.rpartition(": ")[2] != then.rpartition(": ")[2]


def main(busy_runs: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        subprocess.run(
            [sys.executable, "-m", "timeroof", "machine", "--quick"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        taken_s, first, load = factors(Path(name))
        print(f"as it is: {taken_s:.0f} s (wanted: {LIMIT_S:.0f} on two quiet cores),", end=" ")
        print(f"others used {load:.0%}; {first}", flush=True)
        spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(2)]
        try:
            good = sum(_beside(Path(name), first, n) for n in range(busy_runs))
        finally:
            for process in spinning:
                process.kill()
                process.wait()
    print(f"beside two busy processes: {good} of {busy_runs} runs as wanted")
    assert good == busy_runs


def _beside(folder: Path, first: dict[str, str | None], number: int) -> bool:
    taken_s, found, load = factors(folder)
    known = {code: told for code, told in found.items() if told is not None}
    against = [c for c, told in known.items() if (was := first.get(c)) and _is_against(was, told)]
    other = [known[c] for c, was in first.items() if was and c in known and known[c] != was]
    print(
        f"run {number}: {taken_s:.0f} s, others used {load:.0%}, {len(known)} of 5 concluded,"
        f" {len(against)} against the first run {[(first[c], known[c]) for c in against]},"
        f" of another pair of cases: {other}",
        flush=True,
    )
    return len(known) >= FEWEST and not against


if __name__ == "__main__":
    words = sys.argv[1:]
    main(int(words[words.index("--busy") + 1]) if "--busy" in words else 10)
