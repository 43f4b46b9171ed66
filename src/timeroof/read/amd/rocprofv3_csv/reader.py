"""rocprofv3's CSV output: one file, or the folder of a run with its traces and counters."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile, Source, SourceFile
from timeroof.read.amd.amd_counters import with_amounts
from timeroof.read.amd.rocprof_csv_passes import join_passes, lend_counters, mark_lent, wide
from timeroof.read.amd.rocprof_csv_table import Header
from timeroof.read.amd.rocprofv3_csv import tables as of
from timeroof.read.amd.rocprofv3_csv.stats import read_stats
from timeroof.read.database import table_errors
from timeroof.read.device_events import Whole, profile_of
from timeroof.read.format import ReadOptions
from timeroof.read.idle import link_launches
from timeroof.read.opening import Entry, Input, short_name
from timeroof.read.ranges import Places

_PASS_FOLDER = re.compile(r"^(?:pmc|pass)_?\d+$")
_KEYS = ["name", "grid"]
NO_DEVICE = "the file names no device: add the run's agent_info.csv or name a machine"


class Rocprofv3Csv:
    """rocprofv3, CSV."""

    name = "rocprofv3-csv"
    title = "rocprofv3 CSV (kernel_trace, counter_collection, stats)"

    def sniff(self, found: Input) -> bool:
        """A table with rocprofv3's columns, or a folder of them."""
        kinds = set(of.sort_tables(found).found)
        if len(found.entries) == 1:
            return bool(kinds)
        return bool(kinds & {of.KERNELS, of.COUNTERS})

    def read(self, found: Input, options: ReadOptions) -> Profile:
        """The profile of the run."""
        tables = of.sort_tables(found)
        options.progress("reading tables", 0.1)
        with table_errors(found.name):
            if tables.of(of.KERNELS):
                return _traced(tables, found)
            if tables.of(of.COUNTERS):
                return _counted(tables, found)
            if tables.of(of.STATS):
                return read_stats(tables.of(of.STATS)[0], _source(found))
            return _only_copies(tables, found)


def _traced(tables: of.Tables, found: Input) -> Profile:
    """A run with a trace of its kernels, which lends the time."""
    traces, notes = _one_run(tables.of(of.KERNELS), found)
    parts = [
        of.read_kernels(*trace).with_columns(pl.lit(n, pl.Int64).alias("process"))
        for n, trace in enumerate(traces)
    ]
    events = pl.concat(parts, how="vertical_relaxed")
    if tables.of(of.COUNTERS):
        counters = _counters(tables.of(of.COUNTERS))
        events, lent = lend_counters(events, counters, _KEYS)
        events, missing = with_amounts(events)
        events = mark_lent(events)
        notes += lent + missing
    copies = [of.read_copies(*copy) for copy in tables.of(of.COPIES)]
    copies = [c.with_columns(pl.lit(0, pl.Int64).alias("process")) for c in copies if c.height]
    events = pl.concat([events, *copies], how="diagonal_relaxed")
    if copies:
        notes.append("rocprofv3 writes no bytes for copies: what they moved is unknown")
    events = _linked(events, tables)
    events, device, device_notes = _with_device(events, tables)
    dropped = [c for c in ("process", "correlation", "grid") if c in events.columns]
    whole = Whole(_source(found), device, tuple(notes + device_notes))
    return profile_of(events.drop(dropped), whole)


def _counted(tables: of.Tables, found: Input) -> Profile:
    """Counters without a trace: the run with most dispatches lends the times."""
    runs = [of.read_counters(*table) for table in tables.of(of.COUNTERS)]
    base = max(runs, key=lambda run: run["dispatch"].n_unique())
    dispatches = base.unique("dispatch", keep="first", maintain_order=True)
    dispatches = dispatches.drop("dispatch", "counter", "value")
    counters = join_passes([wide(run, _KEYS) for run in runs], _KEYS)
    events, notes = lend_counters(dispatches, counters, _KEYS)
    events, missing = with_amounts(events)
    events = mark_lent(events).with_columns(pl.lit("kernel").alias("kind"))
    kept = ("kind", "gpu", "name", "start_ns", "end_ns")
    events = events.select(
        *kept,
        pl.col("grid").cast(pl.String).alias("label.grid"),
        *(c for c in events.columns if c not in (*kept, "grid") and _belongs(c)),
    )
    events, device, device_notes = _with_device(events, tables)
    notes += [*missing, *device_notes, "times are from the run under counters, kernel by kernel"]
    return profile_of(events, Whole(_source(found), device, tuple(notes), has_gaps=False))


def _belongs(column: str) -> bool:
    return column.startswith(("flop/", "byte/", "label.", "origin.", "sum."))


def _only_copies(tables: of.Tables, found: Input) -> Profile:
    if tables.of(of.COPIES):
        events = pl.concat([of.read_copies(*copy) for copy in tables.of(of.COPIES)])
        notes = ("rocprofv3 writes no bytes for copies: what they moved is unknown", NO_DEVICE)
        return profile_of(events.drop("correlation"), Whole(_source(found), None, notes))
    what = "calls of the host" if tables.of(of.CALLS) else "the machine's agents"
    raise InputError(
        f"lists {what} and no kernels",
        where=found.name,
        advice="name the run's *_kernel_trace.csv, or the folder with all its files",
    )


def _counters(found: list[tuple[Entry, Header]]) -> pl.DataFrame:
    return join_passes([wide(of.read_counters(*table), _KEYS) for table in found], _KEYS)


def _one_run(
    traces: list[tuple[Entry, Header]], found: Input
) -> tuple[list[tuple[Entry, Header]], list[str]]:
    """The traces of one run: all of one folder; of repeated passes the first."""
    folders: dict[str, list[tuple[Entry, Header]]] = {}
    for trace in traces:
        parent = str(PurePosixPath(trace[0].name.replace("\\", "/")).parent)
        folders.setdefault(parent, []).append(trace)
    if len(folders) == 1:
        return traces, []
    names = sorted(folders)
    if all(_PASS_FOLDER.match(PurePosixPath(name).name) for name in names):
        return folders[names[0]], [f"{len(names)} passes of one program: times are of {names[0]}"]
    raise InputError(
        f"holds several runs ({', '.join(names[:5])}{' …' if len(names) > 5 else ''})",
        where=found.name,
        advice="name the folder of one of them",
    )


def _linked(events: pl.DataFrame, tables: of.Tables) -> pl.DataFrame:
    """Events with their launches and the ranges (roctx) around them, where these were traced."""
    calls = [of.read_calls(*table) for table in tables.of(of.CALLS)]
    if not calls or events["process"].n_unique() > 1:
        return events
    joined = pl.concat(calls, how="vertical_relaxed")
    joined = joined.with_columns(pl.lit(0, pl.Int64).alias("process"))
    is_mark = pl.col("domain").str.contains("MARKER")
    events = link_launches(events, joined.filter(~is_mark).drop("domain"))
    marks = joined.filter(is_mark).rename({"name": "text"})
    if marks.height and "launch_thread" in events.columns:
        places = Places(marks.select("thread", "start_ns", "end_ns", "text"))
        events = events.hstack(places.at(events["launch_thread"], events["launch_start_ns"]))
    return events.drop("launch_thread", strict=False)


def _with_device(
    events: pl.DataFrame, tables: of.Tables
) -> tuple[pl.DataFrame, str | None, list[str]]:
    names: dict[str, str] = {}
    for table in tables.of(of.AGENTS):
        names.update(of.read_agents(*table))
    device = pl.col("gpu").replace_strict(names, default=None, return_dtype=pl.String)
    events = events.with_columns(device.alias("device"))
    used = events["device"].drop_nulls().unique().to_list()
    return events, (used[0] if len(used) == 1 else None), ([] if used else [NO_DEVICE])


def _source(found: Input) -> Source:
    return Source(
        tool="rocprofv3", files=[SourceFile(name=short_name(entry.name)) for entry in found.entries]
    )


FORMAT = Rocprofv3Csv()
