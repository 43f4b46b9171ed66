"""Costs that must grow with the input and no faster: archives, traces of many processes
or devices, tidy rows.

    python benchmarks/hostile_sizes.py

Each case is read by `timeroof read` in a process of its own; CPU seconds and peak memory are its.
Limits: twice the members, processes or devices cost at most 2.5 times the CPU,
a million tidy rows of a thousand names take under 12 s of CPU and 1.5 GB to the page,
20,000 rows that each have a name of their own, 300 characters long, under 10 s.
"""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

GROWTH, TIDY_S, TIDY_BYTES, NAMES_S = 2.5, 12.0, 1.5e9, 10.0
# A file of no profiler: what is left is the archive's own cost.
_MEMBER = b'{"a": 1}'


class Cost(NamedTuple):
    """Of one process and its children."""

    cpu_s: float
    peak_bytes: float
    code: int


def cost(*words: str) -> Cost:
    """What a command costs, measured by the system."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        done = subprocess.run(
            [sys.executable, "-m", "timeroof", *words], check=False, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        figures = (used.ru_utime + used.ru_stime, used.ru_maxrss * 1024.0, done.returncode)
        os.write(write, json.dumps(figures).encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as answer:  # noqa: PTH123
        found = Cost(*json.loads(answer.read()))
    os.waitpid(child, 0)
    return found


def zipped(path: Path, members: int) -> Path:
    """A zip of so many small files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for k in range(members):
            file.writestr(f"m{k}.json", _MEMBER)
    return path


def tarred(path: Path, members: int) -> Path:
    """The same as a tar."""
    with tarfile.open(path, "w") as file:
        for k in range(members):
            info = tarfile.TarInfo(f"m{k}.json")
            info.size = len(_MEMBER)
            file.addfile(info, io.BytesIO(_MEMBER))
    return path


def processes(path: Path, count: int) -> Path:
    """One trace with an event in each of so many processes."""
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": k, "dur": 1, "pid": k, "tid": k}
        for k in range(count)
    ]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def devices(path: Path, count: int) -> Path:
    """One trace with a kernel on each of so many devices."""
    events = [
        {"ph": "X", "cat": "kernel", "name": "k", "ts": 9 * k, "dur": 5, "pid": k, "tid": 7,
         "args": {"device": k, "stream": 7}}
        for k in range(count)
    ]  # fmt: skip
    path.write_text(
        json.dumps({"deviceProperties": [{"id": 0, "name": "x"}], "traceEvents": events})
    )
    return path


def tidy(path: Path, rows: int, names: int) -> Path:
    """A tidy table."""
    with path.open("w", encoding="utf-8") as file:
        file.write("name,time_s,flops_fp32,bytes_dram\n")
        for k in range(rows):
            file.write(f"void ns::kernel_{k % names}<float>(int),{1e-6 * (1 + k % 13)},1e6,1e5\n")
    return path


def names(path: Path, rows: int) -> Path:
    """A tidy table in which every row has a long name of its own."""
    types = ", ".join(f"my_library::detail::Policy<float, {k}>" for k in range(7))
    with path.open("w", encoding="utf-8") as file:
        file.write("name,time_s,flops_fp32,bytes_dram\n")
        for k in range(rows):
            file.write(f'"void ns::fused_{k}<{types}>(int, float*)",1e-6,1e6,1e5\n')
    return path


def main() -> int:
    """Print every figure; 1 where a limit is exceeded."""
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["TIMEROOF_HOME"] = name
        start = cost("machines").cpu_s
        print(f"start of Python and the command: {start:.2f} s CPU")
        makers = (("zip members", zipped, 2000), ("tar members", tarred, 2000),
                  ("processes of a trace", processes, 10_000),
                  ("devices of a trace", devices, 10_000))  # fmt: skip
        for what, make, count in makers:
            few, many = (cost("read", str(make(folder / f"x{n}", n))) for n in (count, 2 * count))
            growth = many.cpu_s / few.cpu_s
            failed |= growth > GROWTH
            print(f"{what}: {count} {few.cpu_s:.2f} s, {2 * count} {many.cpu_s:.2f} s CPU"
                  f" (codes {few.code}, {many.code}), ×{growth:.2f} (limit {GROWTH})")  # fmt: skip
        table = tidy(folder / "rows.csv", 1_000_000, 1000)
        page = folder / "page.html"
        big = cost("read", str(table), "--machine", "h100-sxm", "--html", str(page))
        failed |= big.cpu_s > TIDY_S or big.peak_bytes > TIDY_BYTES or big.code != 0
        print(f"1,000,000 tidy rows of 1,000 names to the page: {big.cpu_s:.1f} s CPU"
              f" (limit {TIDY_S:.0f}),"
              f" {big.peak_bytes / 1e9:.2f} GB (limit {TIDY_BYTES / 1e9}), page"
              f" {page.stat().st_size / 1e6:.1f} MB")  # fmt: skip
        many_names = names(folder / "names.csv", 20_000)
        long = cost("read", str(many_names), "--machine", "h100-sxm", "--html", str(page))
        failed |= long.cpu_s > NAMES_S or long.code != 0
        print(f"20,000 names to the page: {long.cpu_s:.1f} s CPU (limit {NAMES_S:.0f})")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
