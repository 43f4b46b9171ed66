"""Known share of the kernel time of every recorded file, beside that of another commit.

    python benchmarks/known_share.py [--old a862d26] [--data FOLDER] [--only WORD]

Files are read as `timeroof read` reads them; folders of one metric per file are read as one run.
Three shares per run: kernel time with FLOPs and bytes known (`known_time_share`), with a limiter,
and on a machine that was named or inferred. Exit code 1 where a known share falls. A share that
falls because an amount was wrong is named in CORRECTED with its reason, and does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from read_small import ROOT, environment, worktree

OLD = "a862d26"
DATA = Path(os.environ.get("TIMEROOF_TEST_DATA") or ROOT.parent / "shared" / "data")
# Runs whose known share falls on purpose: what was wrong before.
CORRECTED = {
    "kineto/a100_cpu_ops_only_no_gpu.json.gz": "host time of a GPU program was called its work",
}
# Files that belong together and do not lie in a folder of their own.
TOGETHER = {
    "execution_trace/linear (both)": (
        "execution_trace/linear_kineto_rtx2080ti.json.gz",
        "execution_trace/linear_et_schema1.0.1.json.gz",
    ),
    "v100_dlrm_8rank (both)": ("kineto/v100_dlrm_8rank", "execution_trace/v100_dlrm_8rank"),
}
READ = """
import json, sys, polars as pl, timeroof
from timeroof.core.errors import TimeroofError
for line in sys.stdin:
    name, paths = json.loads(line)
    try:
        report = timeroof.load(paths if len(paths) > 1 else paths[0])
    except TimeroofError as error:
        print(json.dumps([name, str(error)]), flush=True)
        continue
    rows = report.rows.select("time_s", "limiter").drop_nulls("time_s")
    time_s = rows["time_s"].sum()
    limited_s = rows.filter(pl.col("limiter") != "unknown")["time_s"].sum()
    known = report.totals.known_time_share
    found = {"known": known, "limited": limited_s / time_s if time_s else None, "time_s": time_s}
    machine = report.machine.name if report.machine is not None else None
    print(json.dumps([name, found | {"machine": machine}]), flush=True)
"""


def runs(data: Path) -> dict[str, list[str]]:
    """What is read, by its name: every file, folders of single metrics, and files that pair."""
    found = {}
    for path in sorted(p for p in data.rglob("*") if p.is_file()):
        of_many = path.name.startswith("out.")
        run = path.parent if of_many else path
        found[run.relative_to(data).as_posix()] = [str(run)]
    return found | {name: [str(data / p) for p in paths] for name, paths in TOGETHER.items()}


def shares(asked: dict[str, list[str]], variables: dict[str, str]) -> dict[str, dict | str]:
    """What one source tree finds in each run, or the words of its refusal."""
    lines = "".join(json.dumps(item) + "\n" for item in asked.items())
    done = subprocess.run(
        [sys.executable, "-P", "-c", READ], input=lines, env=variables, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"reading failed:\n{done.stderr[-2000:]}")
    return dict(json.loads(line) for line in done.stdout.splitlines())


def percent(value: float | None) -> str:
    return "      -" if value is None else f"{value:7.1%}"


def line_of(name: str, before: dict | str, now: dict | str) -> tuple[str, bool]:
    """A line of both, and whether the known share falls."""
    if isinstance(now, str):
        return f"{'refused':>42}  {name}", not isinstance(before, str)
    old = before if isinstance(before, dict) else {"known": None, "limited": None, "machine": None}
    falls = (now["known"] or 0.0) < (old["known"] or 0.0) - 5e-4
    pair = "  ".join(f"{percent(old[k])} → {percent(now[k])}" for k in ("known", "limited"))
    machine = now["machine"] if now["machine"] == old["machine"] else f"{now['machine']} (new)"
    marks = [f"[{machine}]", *(["FALLS"] if falls else [])]
    return f"{now['time_s'] * 1e3:9.2f} ms  {pair}  {name}  {' '.join(marks)}", falls


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--old", default=OLD, metavar="COMMIT")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--only", default="", help="a word of the runs' names")
    options = parser.parse_args()
    if not options.data.is_dir():
        raise SystemExit(f"there is no folder {options.data}: name one with --data")
    asked = {n: p for n, p in runs(options.data.resolve()).items() if options.only in n}
    with tempfile.TemporaryDirectory(prefix="known_share.") as scratch:
        folder = Path(scratch)
        with worktree(options.old, folder / "old") as source:
            before = shares(asked, environment(source, folder / "old_caches"))
        now = shares(asked, environment(ROOT / "src", folder / "new_caches"))
    print(f"{'kernel time':>12}  {'known: before → now':19}  {'with a limiter':19}  file")
    fallen = []
    for name in asked:
        if isinstance(before[name], str) and isinstance(now[name], str):
            continue
        line, falls = line_of(name, before[name], now[name])
        print(line + (f": {CORRECTED[name]}" if falls and name in CORRECTED else ""))
        fallen += [name] if falls and name not in CORRECTED else []
    refused = sum(isinstance(found, str) for found in now.values())
    print(f"{len(asked) - refused} runs read, {refused} refused; {len(fallen)} fall")
    return 1 if fallen else 0


if __name__ == "__main__":
    sys.exit(main())
