"""All ranks of a run: CPU seconds and memory of reading them here, by workers and a second time.

    python benchmarks/fleet.py [--files 64] [--megabytes 35] [--ranks 2048] [--no-dask]

Makes traces of one run (`small_traces.py`, each with its own rank), then reads them, each time as
a fresh process: one after the other in one process; by two workers; by two workers of which one
is killed in the middle; and once more, when all are kept. Where Dask is installed, a local cluster
of two worker processes reads them too, one of which is killed. Then merges so many ranks from
reduced files. CPU is user and system time of the process and its workers; memory is the sum over
all processes, sampled.

Required: workers at most 1.3 × the CPU of one process and under 700 MB, the killed worker costs
at most one file's time more, the second reading under 5 % of the first; merging 2,048 ranks under
5 s of CPU and 600 MB, its page under 3 MB; Dask gives the same rows, and its cost is printed. The
speed-up (1.6) counts on two quiet cores only.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from small_traces import write_trace

PAGE = os.sysconf("SC_PAGE_SIZE")
# What a process does: reads a folder by so many workers, and says what it cost.
READING = """
import hashlib, json, resource, sys, time
from timeroof.read import fleet
workers, folder, page = int(sys.argv[1]), sys.argv[2], sys.argv[3]
fleet.workers_for = lambda *_: workers
from timeroof.api.reports import load
start = time.perf_counter()
if workers:
    report = load(folder)
else:
    import distributed
    start_of = distributed.LocalCluster
    with start_of(2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        report = load(folder, fleet=fleet.Fleet(scheduler=cluster.scheduler_address))
if page:
    report.save(page)
used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps({
    "cpu_s": sum(u.ru_utime + u.ru_stime for u in used), "wall_s": time.perf_counter() - start,
    "ranks": len(report.profile.ranks), "rows": report.rows.height,
    "time_s": float(report.rows["time_s"].sum()), "largest_kb": used[0].ru_maxrss,
    "digest": hashlib.sha256(report.rows.write_json().encode()).hexdigest(),
}))
"""


@dataclass
class Cost:
    """What one reading took."""

    cpu_s: float
    wall_s: float
    memory_mb: float
    ranks: int
    rows: int
    time_s: float
    digest: str


def tree_of(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += tree_of(int(child))
    for thread in (
        Path(f"/proc/{pid}/task").glob("*/children") if Path(f"/proc/{pid}").exists() else []
    ):
        with suppress(OSError):
            found += [int(c) for c in thread.read_text().split() if int(c) not in found]
    return found


def memory_of(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        with suppress(OSError, IndexError):
            fields = Path(f"/proc/{pid}/statm").read_text().split()
            total += (int(fields[1]) - int(fields[2])) * PAGE
    return total / 1e6


def read(folder: Path, home: Path, *, workers: int, kill: bool = False, page: str = "") -> Cost:
    """Read a folder in a fresh process; with `kill`, one worker dies in the middle. No workers are
    two of a Dask cluster."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", READING, str(workers), str(folder), page],
        env=os.environ | {"TIMEROOF_HOME": str(home)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    most, dead = 0.0, not kill

    def watch() -> None:
        nonlocal most, dead
        while process.poll() is None:
            pids = tree_of(process.pid)
            most = max(most, memory_of(pids))
            kept = len(list((home / "cache" / "reduced").glob("*.troof"))) if home.exists() else 0
            if not dead and kept >= 3:
                os.kill(
                    max(pids, key=lambda p: memory_of([p]) if p != process.pid else 0),
                    signal.SIGKILL,
                )
                dead = True
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, _ = process.communicate()
    watcher.join()
    if process.returncode:
        sys.exit(f"reading failed with {process.returncode}")
    told = json.loads(out)
    assert dead, "no worker was killed"
    return Cost(told["cpu_s"], told["wall_s"], most, told["ranks"], told["rows"], told["time_s"],
                told["digest"])  # fmt: skip


def make_ranks(folder: Path, files: int, size_bytes: int) -> None:
    folder.mkdir()
    write_trace(folder / "rank0.json", size_bytes, 0, files)
    data = (folder / "rank0.json").read_bytes()
    start = data.index(b'"rank"')
    end = data.index(b",", start)
    for rank in range(1, files):
        own = data[:start] + b'"rank": %d' % rank + data[end:]
        (folder / f"rank{rank}.json").write_bytes(own)


def make_reduced(folder: Path, home: Path, ranks: int, kernels: int = 945) -> None:
    """So many ranks of as many kernels as a training step has, read once so that they are kept."""
    folder.mkdir()
    head = "name,time_s,rank,calls,flops_fp32,bytes_dram,op,module,shape,dtype\n"
    rows = [
        f"kernel_{i % 97}_of_a_library_with_names<{'x' * 60}>,{{}},{{}},{i % 7 + 1},{i}e6,{i}e4,"
        f"aten::op{i % 31},Model/Layer_{i % 24}/Linear,{i}x512,bf16\n"
        for i in range(kernels)
    ]
    for rank in range(ranks):
        text = "".join(
            row.format((i + 1) * (1 + 0.1 * (rank % 7 == 3)) / 1e6, rank)
            for i, row in enumerate(rows)
        )
        (folder / f"rank{rank}.csv").write_text(head + text)
    read(folder, home, workers=2)


def show(what: str, cost: Cost) -> None:
    print(
        f"{what:36} {cost.cpu_s:7.2f} s CPU {cost.wall_s:7.2f} s wall {cost.memory_mb:7.0f} MB"
        f"  {cost.ranks} ranks, {cost.rows} rows"
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=64)
    parser.add_argument("--megabytes", type=float, default=35)
    parser.add_argument("--ranks", type=int, default=2048)
    parser.add_argument("--no-dask", action="store_true")
    args = parser.parse_args()
    failed = []

    def require(what: str, holds: bool) -> None:
        print(f"  {'holds' if holds else 'FAILS'}: {what}")
        if not holds:
            failed.append(what)

    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        make_ranks(root / "run", args.files, int(args.megabytes * 1e6))
        alone = read(root / "run", root / "h1", workers=1)
        show("one process", alone)
        apart = read(root / "run", root / "h2", workers=2)
        show("two workers", apart)
        killed = read(root / "run", root / "h3", workers=2, kill=True)
        show("two workers, one killed", killed)
        again = read(root / "run", root / "h2", workers=2)
        show("a second time", again)
        one_s = alone.cpu_s / args.files
        require(
            f"CPU of workers ×{apart.cpu_s / alone.cpu_s:.2f} of one process's (1.3)",
            apart.cpu_s <= 1.3 * alone.cpu_s,
        )
        print(f"  speed-up ×{alone.wall_s / apart.wall_s:.2f} (1.6 on two quiet cores)")
        require(f"memory {apart.memory_mb:.0f} MB (700)", apart.memory_mb <= 700)
        more = killed.cpu_s - apart.cpu_s
        require(
            f"a killed worker costs {more:.2f} s of CPU ({2 * one_s + 1.5:.2f})",
            more <= 2 * one_s + 1.5,
        )
        require(
            "all ranks in spite of it", killed.ranks == args.files and killed.time_s == apart.time_s
        )
        require(
            f"second reading {again.cpu_s / alone.cpu_s:.1%} of the first (5 %)",
            again.cpu_s <= 0.05 * alone.cpu_s,
        )
        if not args.no_dask and importlib.util.find_spec("distributed"):
            there = read(root / "run", root / "h5", workers=0)
            show("Dask, two worker processes", there)
            less = read(root / "run", root / "h6", workers=0, kill=True)
            show("Dask, one of them killed", less)
            require("the same rows through Dask", there.digest == alone.digest)
            require("the same rows with a worker killed", less.digest == alone.digest)
        make_reduced(root / "many", root / "h4", args.ranks)
        page = root / "page.html"
        merged = read(root / "many", root / "h4", workers=2)
        show(f"{args.ranks} ranks from reduced files", merged)
        require(f"merging {merged.cpu_s:.2f} s CPU (5)", merged.cpu_s <= 5)
        require(f"merging {merged.memory_mb:.0f} MB (600)", merged.memory_mb <= 600)
        shown = read(root / "many", root / "h4", workers=2, page=str(page))
        show("and its page", shown)
        require(f"page {page.stat().st_size / 1e6:.2f} MB (3)", page.stat().st_size <= 3e6)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
