"""rocpd: rocprofv3's SQLite database. Its tables end in the run's id, one set per process."""

from __future__ import annotations

import re

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile, Source, SourceFile
from timeroof.read.amd import rocpd_tables as of
from timeroof.read.amd.amd_counters import with_amounts
from timeroof.read.amd.rocprof_csv_passes import lend_counters, mark_lent, wide
from timeroof.read.database import Database, open_database, table_errors
from timeroof.read.device_events import Whole, profile_of
from timeroof.read.format import ReadOptions
from timeroof.read.hints import ROCPD_TABLES, holds_table
from timeroof.read.idle import link_launches
from timeroof.read.opening import Input, short_name
from timeroof.read.ranges import Places

_DISPATCHES = re.compile(r"^rocpd_kernel_dispatch(_?[0-9a-fA-F_]*)$")
_KEYS = ["name", "grid"]


class Rocpd:
    """rocprofv3's database."""

    name = "rocpd"
    title = "rocpd (rocprofv3's SQLite database)"

    def sniff(self, found: Input) -> bool:
        """An SQLite file with rocpd's tables."""
        return len(found.entries) == 1 and holds_table(found.only, ROCPD_TABLES)

    def read(self, found: Input, options: ReadOptions) -> Profile:
        """The profile of all processes in the database."""
        entry = found.only
        with open_database(entry) as database, table_errors(entry.name, "rocpd database"):
            options.progress("reading tables", 0.2)
            return _read(database, entry.name)


def _read(database: Database, where: str) -> Profile:
    suffixes = sorted(m.group(1) for t in database.tables if (m := _DISPATCHES.match(t)))
    runs = [of.Run(database, suffix) for suffix in suffixes]
    parts = [run.kernels(number) for number, run in enumerate(runs)]
    parts = [part for part in parts if part.height]
    if not parts:
        raise InputError(
            "has no kernel dispatches", where=where, advice="record with --kernel-trace"
        )
    events, notes = pl.concat(parts, how="diagonal_relaxed"), []
    counted = [c for c in (run.counters() for run in runs) if c.height]
    if counted:
        events, lent = lend_counters(events, wide(pl.concat(counted), _KEYS), _KEYS)
        events, missing = with_amounts(events)
        events, notes = mark_lent(events), [*lent, *missing]
    copies = [c for c in (run.copies(n) for n, run in enumerate(runs)) if c.height]
    events = pl.concat([events, *copies], how="diagonal_relaxed")
    events = _linked(events, pl.concat([run.calls(n) for n, run in enumerate(runs)]))
    names = events["device"].drop_nulls().unique().to_list()
    if len(names) != 1:
        notes.append("the file names no device or several")
    source = Source(
        tool="rocprofv3",
        files=[SourceFile(name=short_name(where))],
        command=runs[0].command(),
    )
    events = events.drop("process", "correlation", "grid", strict=False)
    device = str(names[0]) if len(names) == 1 else None
    return profile_of(events, Whole(source, device, tuple(notes)))


def _linked(events: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Events with their launches and the ranges (roctx) around them."""
    is_mark = pl.col("category").str.contains("MARKER")
    events = link_launches(events, calls.filter(~is_mark).drop("category"))
    marks = calls.filter(is_mark).rename({"name": "text"})
    if marks.height and "launch_thread" in events.columns:
        places = Places(marks.select("thread", "start_ns", "end_ns", "text"))
        events = events.hstack(places.at(events["launch_thread"], events["launch_start_ns"]))
    return events.drop("launch_thread", strict=False)


FORMAT = Rocpd()
