"""Kernel names, with their seconds, from the recorded profiler files: a light reader for tests.

It wants names and rough times only, so it is no importer: it reads each format in the
simplest way that finds the names, and a file without times gives its names 0 seconds.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import sqlite3
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.recorded_data import looked_at, place

if TYPE_CHECKING:
    from collections.abc import Iterator

NameTimes = defaultdict[str, float]  # seconds by name

KINETO_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset")
TO_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
SUMMARY = re.compile(
    r"^\s*(?:GPU activities:)?\s*[\d.]+%\s+([\d.]+)(s|ms|us|ns)\s+\d+"
    r"(?:\s+[\d.]+[mun]?s){3}\s+(\S.*)$"
)
GPU_TRACE = re.compile(
    r"^\s*[\d.]+[mun]?s\s+([\d.]+)(s|ms|us|ns)\s.*\(\d+\)\s+\d+\s+\d+\s+(\S.*?)(?: \[\d+\])?$"
)
METRIC_KERNEL = re.compile(r"^\s*Kernel: (.*)$")
PROF_LINE = re.compile(r"^(?:==PROF== Profiling \"(.+)\" - \d|  (\S.*) \(\d+, \d+, \d+\)x\(\d)")
XPLANE_NAME = re.compile(rb"\x12([\x08-\x7f])([A-Za-z_][\x20-\x7e]{7,126})")
XPLANE_KERNEL = ("_Z", "Cijk", "void ", "naive_conv", "igemm", "loop_", "input_", "miopen")


def read_bytes(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


@cache
def recorded_names() -> dict[str, NameTimes]:
    """Seconds by kernel name, for every file that was looked at and has kernel names."""
    found = {place(path): names_of(path) for path in looked_at()}
    return {file: names for file, names in found.items() if names}


def names_of(path: Path) -> NameTimes:
    text = path.name.removesuffix(".gz")
    if (
        path.parts[-2] == "paper"
        or text.endswith(".md")
        or "_et_" in text
        or "_eg_" in text
        or "agent" in text
    ):
        return defaultdict(float)
    if text.endswith((".sqlite", ".db")):
        return defaultdict(float, _sqlite(read_bytes(path)))
    if text.endswith(".pb"):
        return _xplane(read_bytes(path))
    body = read_bytes(path).decode("utf-8-sig", "replace")
    if text.endswith(".json"):
        return _json(json.loads(body))
    if "nvprof" in path.parts and not text.endswith(".csv"):
        return _console(body)
    if text.endswith(".txt"):
        return _ncu_console(body)
    return _table(body)


def _json(document: Any) -> NameTimes:
    times: NameTimes = defaultdict(float)
    if isinstance(document, dict) and "rocprofiler-sdk-tool" in document:
        return _rocprof(document["rocprofiler-sdk-tool"][0])
    events = document.get("traceEvents", []) if isinstance(document, dict) else document
    for event in events:
        if isinstance(event, dict) and event.get("cat") in KINETO_CATEGORIES:
            times[event["name"]] += float(event.get("dur", 0)) * 1e-6
    return times


def _rocprof(tool: Any) -> NameTimes:
    symbols = {s["kernel_id"]: s["formatted_kernel_name"] for s in tool["kernel_symbols"]}
    times: NameTimes = defaultdict(float)
    for record in tool["buffer_records"]["kernel_dispatch"]:
        seconds = (record["end_timestamp"] - record["start_timestamp"]) * 1e-9
        times[symbols[record["dispatch_info"]["kernel_id"]]] += seconds
    return times


def _sqlite(data: bytes) -> Iterator[tuple[str, float]]:
    connection = sqlite3.connect(":memory:")
    connection.deserialize(data)
    tables = {row[0] for row in connection.execute("select name from sqlite_master")}
    if "kernels" in tables:
        query = "select name, sum(duration) from kernels group by name"
    else:
        query = (
            'select s.value, sum(k."end" - k.start) from CUPTI_ACTIVITY_KIND_KERNEL k '
            "join StringIds s on s.id = k.demangledName group by s.value"
        )
    yield from ((name, ns * 1e-9) for name, ns in connection.execute(query))
    connection.close()


def _xplane(data: bytes) -> NameTimes:
    """Length-prefixed strings that look like kernels: enough of protobuf for this."""
    names = {m[2][: m[1][0]].decode() for m in XPLANE_NAME.finditer(data)}
    return defaultdict(float, {n: 0.0 for n in names if n.startswith(XPLANE_KERNEL)})


def _console(body: str) -> NameTimes:
    times: NameTimes = defaultdict(float)
    for line in body.split("API calls:", maxsplit=1)[0].splitlines():
        if timed := SUMMARY.match(line) or GPU_TRACE.match(line):
            times[timed[3]] += float(timed[1]) * TO_S[timed[2]]
        elif kernel := METRIC_KERNEL.match(line):
            times[kernel[1]] += 0.0
    return times


def _ncu_console(body: str) -> NameTimes:
    found = (PROF_LINE.match(line) for line in body.splitlines())
    return defaultdict(float, {m[1] or m[2]: 0.0 for m in found if m})


def _table(body: str) -> NameTimes:
    lines = body.splitlines(keepends=True)
    columns = ("Kernel Name", "Kernel_Name", "KernelName", "kernel_name", "Name", "Kernel details")
    for i, line in enumerate(lines):
        header = next(csv.reader([line]), [])
        name = next((c for c in columns if c in header), None)
        if name is not None:
            rows = csv.DictReader(io.StringIO("".join(lines[i:])))
            return _rows(rows, name)
        if line.startswith(("Function Name,", '"Function Name",')):
            return defaultdict(float, {next(csv.reader([line]))[1]: 0.0})
    return defaultdict(float)


def _rows(rows: csv.DictReader[str], name: str) -> NameTimes:
    times: NameTimes = defaultdict(float)
    for row in rows:
        if row.get(name):
            times[row[name]] += _seconds(row)
    return times


def _seconds(row: dict[str, str]) -> float:
    """The time of one row where a column says it plainly, else 0."""
    try:
        if "Start_Timestamp" in row:
            return (float(row["End_Timestamp"]) - float(row["Start_Timestamp"])) * 1e-9
        for column in ("Total Time (ns)", "TotalDurationNs", "gpu__time_duration.sum"):
            if column in row:
                return float(row[column].replace(",", "")) * 1e-9
        if row.get("Metric Name") == "sm__cycles_elapsed.avg":
            return float(row["Metric Value"]) / 1.3e9
        return float(row.get("Time") or 0.0)  # the paper's authors' tables
    except ValueError:
        return 0.0
