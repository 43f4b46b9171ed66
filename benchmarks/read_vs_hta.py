"""Reading a large trace: timeroof beside HolisticTraceAnalysis 0.5.0, time and peak memory.

    python benchmarks/read_vs_hta.py [--trace FILE] [--sizes 300,2000] [--rounds 1] [--keep DIR]

A recorded trace is repeated, with times and ids shifted, until it has the wanted size.
Both tools start as fresh processes on the same plain file and are timed from the start of
the program to the linked trace (imports included); HTA lives in an environment of its own
that is made for the benchmark and thrown away. The 2 GB file is read by timeroof only,
unless --hta-large is given: HTA needs about 8 times a file's size in memory.

Required: at least 10 times faster, at most a quarter of the peak memory, 2 GB of trace in
less than 3 GB, and a time that grows linearly with the size.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TRACE = ROOT.parent / "shared" / "data" / "kineto" / "h100_qwen1.5_0.5b_chat.json.gz"
HTA = "HolisticTraceAnalysis==0.5.0"
IDS = ("correlation", "External id", "Record function id", "Ev Idx", "Sequence number")

TIMEROOF_CODE = """
import sys
from pathlib import Path
from timeroof.read.formats import ReadOptions, format_named
from timeroof.read.open import open_input
profile = format_named("kineto").read(open_input(Path(sys.argv[1])), ReadOptions())
print(int(profile.kernels["calls"].sum()))
"""
HTA_CODE = """
import logging, os, sys
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
path = sys.argv[1]
analysis = TraceAnalysis(trace_files={0: path}, trace_dir=os.path.dirname(path))
frame = analysis.t.get_trace(0)
print(int((frame["stream"] >= 0).sum()))
"""


def repeat(source: Path, target: Path, size_bytes: int) -> int:
    """Write a trace of about a size by repeating a recorded one; how often it was repeated."""
    opener = gzip.open if source.suffix == ".gz" else open
    with opener(source, "rb") as file:
        document = json.load(file)
    events = document.pop("traceEvents")
    times = [e["ts"] for e in events if e.get("ph") == "X" and "ts" in e]
    shift_us = round(max(times) - min(times)) + 100_000
    written = copies = 0
    with target.open("w") as file:
        file.write(json.dumps(document)[:-1] + ', "traceEvents": [')
        while written < size_bytes:
            for event in events:
                text = (",\n" if written else "\n") + json.dumps(shifted(event, copies, shift_us))
                file.write(text)
                written += len(text)
            copies += 1
        file.write("\n]}")
    return copies


def shifted(event: dict[str, Any], copy: int, shift_us: int) -> dict[str, Any]:
    """An event of a later repetition: other times, other ids, another step."""
    event = dict(event)
    if "ts" in event:
        event["ts"] = round(event["ts"] + copy * shift_us, 3)
    if event.get("ph") in ("s", "f"):
        event["id"] += copy * 10_000_000
    name = event.get("name", "")
    if name.startswith("ProfilerStep#"):
        event["name"] = f"ProfilerStep#{int(name[13:]) + copy}"
    args = event.get("args")
    if args:
        event["args"] = {
            k: v + copy * 10_000_000 if k in IDS and isinstance(v, int) else v
            for k, v in args.items()
        }
    return event


def measure(python: Path, code: str, path: Path) -> dict[str, float]:
    """Wall time and peak memory of a fresh process, and how much device work it found."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            [python, "-W", "ignore", "-c", code, path], stdout=out, stderr=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
        out.seek(0)
        printed = out.read().split()
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{python} failed on {path}")
    return {
        "wall_s": wall_s,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss * 1024 / 1e6,
        "device_events": int(printed[-1]),
    }


def hta_environment(folder: Path) -> Path:
    """A Python that has HolisticTraceAnalysis and nothing of ours."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", HTA], check=True)
    return python


def show(tool: str, size: int, found: dict[str, float]) -> None:
    print(
        f"{size:5d} MB  {tool:9s} {found['wall_s']:8.2f} s  (CPU {found['cpu_s']:7.2f} s)"
        f"  peak {found['peak_mb']:8.0f} MB  {found['device_events']} device events",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trace", type=Path, default=TRACE)
    parser.add_argument("--sizes", default="300,2000", help="megabytes")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--hta-large", action="store_true", help="HTA reads files above 500 MB too")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="read_vs_hta.") as folder:
        python = hta_environment(Path(folder) / "hta")
        for size in [int(s) for s in options.sizes.split(",")]:
            path = Path(folder) / f"trace{size}.json"
            repeat(options.trace, path, size * 10**6)
            results += compare(path, size, python, options)
            path.unlink()
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    judge(results)


def compare(
    path: Path, size: int, python: Path, options: argparse.Namespace
) -> list[dict[str, Any]]:
    found = []
    for _ in range(options.rounds):
        tools = [("timeroof", Path(sys.executable), TIMEROOF_CODE)]
        if size <= 500 or options.hta_large:
            tools.append(("HTA", python, HTA_CODE))
        for tool, interpreter, code in tools:
            result = measure(interpreter, code, path)
            show(tool, size, result)
            found.append({"tool": tool, "size_mb": size, **result})
    return found


def judge(results: list[dict[str, Any]]) -> None:
    """Say whether the requirements hold; exit code 1 where one does not."""
    best: dict[tuple[str, int], dict[str, Any]] = {}
    for r in sorted(results, key=lambda r: -r["wall_s"]):
        best[r["tool"], r["size_mb"]] = r
    checks = []
    sizes = sorted({s for _, s in best})
    for size in sizes:
        ours, theirs = best["timeroof", size], best.get(("HTA", size))
        if theirs:
            faster = theirs["wall_s"] / ours["wall_s"]
            memory = ours["peak_mb"] / theirs["peak_mb"]
            checks.append((f"{size} MB: {faster:.1f} times faster (at least 10)", faster >= 10))
            checks.append((f"{size} MB: {memory:.2f} of the memory (at most 0.25)", memory <= 0.25))
        if size >= 1000:
            small = ours["peak_mb"] < 3000
            checks.append((f"{size} MB: peak {ours['peak_mb']:.0f} MB (below 3000)", small))
    if len(sizes) > 1:
        small, large = best["timeroof", sizes[0]], best["timeroof", sizes[-1]]
        growth = (large["cpu_s"] / small["cpu_s"]) / (sizes[-1] / sizes[0])
        checks.append((f"time per byte grows {growth:.2f} times (at most 1.3)", growth <= 1.3))
    for text, holds in checks:
        print("holds  " if holds else "FAILS  ", text)
    sys.exit(0 if all(holds for _, holds in checks) else 1)


if __name__ == "__main__":
    main()
