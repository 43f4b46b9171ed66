"""What Nsight Compute wrote: how far it is, what it complains about, its launches in order."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import ORIGIN, amount_columns
from timeroof.counters.options import CollectOptions
from timeroof.read.nvidia.ncu_amounts import amounts_of
from timeroof.read.nvidia.ncu_csv import is_table, read_part
from timeroof.read.nvidia.ncu_joining import joined, runs_of
from timeroof.read.nvidia.ncu_metrics import capability_of
from timeroof.read.opening import open_input
from timeroof.read.tables import find_table

_PROFILING = re.compile(rb'==PROF== Profiling "([^"\n]*)')
_UNKNOWN = re.compile(r"Failed to find metric (?:regex:\^?)?\(?([A-Za-z0-9_]+)")
# At the ends of a report stand the profiler's messages.
END_BYTES = 64 * 1024


class Watch:
    """Follows a report as it grows and tells how many kernels are done."""

    def __init__(self, report: Path, options: CollectOptions, done: float, share: float) -> None:
        self._report, self._options = report, options
        self._done, self._share = done, share
        self._read_bytes = self._kernels = 0

    def __call__(self) -> int:
        """Look once; returns the report's size."""
        try:
            size = self._report.stat().st_size
            if size > self._read_bytes:
                with self._report.open("rb") as stream:
                    stream.seek(self._read_bytes)
                    self._tell(stream.read(END_BYTES * 16))
                    self._read_bytes = stream.tell()
        except OSError:
            return 0
        return size

    def _tell(self, fresh: bytes) -> None:
        names = _PROFILING.findall(fresh)
        if not names:
            return
        self._kernels += len(names)
        wanted = self._options.max_kernels or self._options.expected_kernels
        part = min(1.0, self._kernels / wanted) if wanted else 0.5
        name = names[-1].decode(errors="replace")
        self._options.progress(f"kernel {self._kernels}: {name}", self._done + part * self._share)


def ends_of(report: Path) -> str:
    """The beginning and the end of a report, where messages are."""
    try:
        with report.open("rb") as stream:
            head = stream.read(END_BYTES)
            stream.seek(max(stream.tell(), report.stat().st_size - END_BYTES))
            return (head + b"\n" + stream.read(END_BYTES)).decode(errors="replace")
    except OSError:
        return ""


def has_table(report: Path) -> bool:
    """Whether a report has results."""
    try:
        return find_table(open_input(report).only, is_table) is not None
    except InputError:
        return False


def unknown_metrics(text: str, metrics: tuple[str, ...]) -> list[str]:
    """Metrics that ncu refused: it names the first that it does not know."""
    bases = set(_UNKNOWN.findall(text))
    return [m for m in metrics if m.split(".", maxsplit=1)[0] in bases]


def launches_of(reports: Path, architecture: str) -> pl.DataFrame | None:
    """Single launches in order with their amounts, None where the runs do not fit together."""
    found = open_input(reports)
    try:
        runs = runs_of([read_part(entry, "") for entry in found.entries])
    except InputError:
        return None
    if len(runs) != 1:
        return None
    whole = joined(runs[0])
    capability = capability_of(whole.capability) or capability_of(architecture)
    amounts = amounts_of(whole.table, set(whole.roles), capability)
    table = whole.table.with_columns(amounts.columns)
    origins = [c for c in table.columns if c.startswith(ORIGIN)]
    return table.select("name", *amount_columns(table), *origins)
