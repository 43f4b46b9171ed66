"""rocprof (v1) and rocprofv2 CSV: one row per dispatch, counters as columns.

Also reads what its relatives leave: one table of an Omniperf / rocprof-compute workload, the
latter's ``pmc_kernel_top.csv``, and counters rewritten in Nsight Compute's long form.
"""

from __future__ import annotations

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile, Source, SourceFile
from timeroof.read.amd.amd_counters import is_useful, merge_channels, with_amounts
from timeroof.read.amd.rocprof_csv_passes import same_counts_note
from timeroof.read.amd.rocprof_csv_rewritten import is_rewritten, read_rewritten
from timeroof.read.amd.rocprof_csv_table import (
    Header,
    Names,
    find_header,
    first_of,
    kernel_name,
    number,
    read_table,
    ticks,
)
from timeroof.read.database import table_errors
from timeroof.read.device_events import Whole, profile_of, rows_of
from timeroof.read.format import ReadOptions
from timeroof.read.opening import Entry, Input, short_name

_NAME = ("Kernel_Name", "KernelName")
_START, _END = ("Start_Timestamp", "BeginNs"), ("End_Timestamp", "EndNs")
_PLACE = frozenset({"gpu_id", "gpu-id", "queue-id", "dispatch_id", "index"})
_TOP = frozenset({"kernel_name", "count", "sum(ns)"})
ZERO_TIMES = (
    "all dispatches start and end at the same time: the timestamps were rounded when the table"
    " was saved, so times are unknown"
)


class RocprofCsv:
    """rocprof and rocprofv2, CSV."""

    name = "rocprof-csv"
    title = "rocprof v1/v2 CSV"

    def sniff(self, found: Input) -> bool:
        """A table of dispatches with rocprof's columns."""
        if len(found.entries) != 1:
            return False
        return find_header(found.only, is_dispatches) is not None or is_rewritten(found.only)

    def read(self, found: Input, options: ReadOptions) -> Profile:
        """The profile of the table."""
        entry = found.only
        source = Source(tool="rocprof", files=[SourceFile(name=short_name(entry.name))])
        options.progress("reading the table", 0.2)
        with table_errors(entry.name):
            header = find_header(entry, is_dispatches)
            if header is None:
                return read_rewritten(entry, source)
            if header.plain >= _TOP:
                return _top(entry, header, source)
            dispatches = read_dispatches(entry, header)
            _refuse_bare(dispatches, entry)
            return profile_of_dispatches(dispatches, Whole(source, notes=(NO_DEVICE,)))


NO_DEVICE = "the file names no device: name a machine, or the workload folder with sysinfo.csv"


def is_dispatches(names: Names) -> bool:
    """Whether a header is of a table of dispatches (or of rocprof-compute's top kernels)."""
    named = bool(names & {"kernel_name", "kernelname"})
    foreign = names & {"counter_name", "kind", "metric name"}
    return (named and bool(names & _PLACE) and not foreign) or names >= _TOP


def read_dispatches(entry: Entry, header: Header) -> pl.DataFrame:
    """Dispatches with gpu, stream, name, grid, their times and the counters that matter."""
    table = read_table(entry, header, lambda name: _is_field(name) or is_useful(name))
    name = first_of(table.columns, *_NAME)
    if name is None or not table.height:
        raise InputError("has no dispatches", where=entry.name, advice="record it again")
    counters = [c for c in table.columns if is_useful(c)]
    fields = {
        "gpu": first_of(table.columns, "GPU_ID", "gpu-id"),
        "stream": first_of(table.columns, "Queue_ID", "queue-id"),
        "grid": first_of(table.columns, "Grid_Size", "grd"),
        "block": first_of(table.columns, "Workgroup_Size", "wgr"),
    }
    read = table.select(
        kernel_name(name).alias("name"),
        *((pl.col(c) if c else pl.lit(None, pl.String)).alias(f) for f, c in fields.items()),
        *_times(table),
        *(number(c).alias(c) for c in counters),
    )
    return merge_channels(read.filter(pl.col("name").is_not_null()))


def has_times(dispatches: pl.DataFrame) -> bool:
    """Whether any dispatch lasted longer than nothing."""
    lengths = (dispatches["end_ns"] - dispatches["start_ns"]).cast(pl.Float64)
    return bool((lengths > 0).any())


def profile_of_dispatches(dispatches: pl.DataFrame, whole: Whole) -> Profile:
    """The profile of counted dispatches; without usable times these are unknown, not 0."""
    counters = [c for c in dispatches.columns if is_useful(c)]
    notes = same_counts_note(dispatches, counters)
    if notes:
        dispatches = dispatches.with_columns(pl.lit(None, pl.Float64).alias(c) for c in counters)
    events, missing = with_amounts(dispatches)
    notes += missing if counters else ["no counters that tell FLOPs or bytes are in the file"]
    events = events.rename({"grid": "label.grid", "block": "label.block"}).with_columns(
        pl.lit("kernel").alias("kind"), pl.col("gpu").fill_null("0")
    )
    timed = has_times(events)
    if not timed:
        unknown = events["end_ns"].null_count() == events.height
        notes.append("the table has no times: they are unknown" if unknown else ZERO_TIMES)
    full = Whole(whole.source, whole.device, (*whole.notes, *notes), has_gaps=False)
    return profile_of(events, full) if timed else _untimed(events, full)


def _untimed(events: pl.DataFrame, whole: Whole) -> Profile:
    events = events.with_columns(pl.lit(0).alias("start_ns"), pl.lit(0).alias("end_ns"))
    rows = rows_of(events).with_columns(
        pl.lit(None, pl.Float64).alias("time_s"),
        pl.lit(None, pl.Float64).alias("time_spread"),
        pl.lit(None, pl.String).alias("origin.time"),
    )
    return Profile.of(rows, whole.source, device=whole.device, notes=whole.notes)


def _is_field(name: str) -> bool:
    known = (*_NAME, *_START, *_END, "DurationNs", "GPU_ID", "gpu-id", "Queue_ID", "queue-id")
    return name in known or name in ("Grid_Size", "grd", "Workgroup_Size", "wgr")


def _times(table: pl.DataFrame) -> list[pl.Expr]:
    """Start and end; where only a duration is written, a start of 0."""
    start, end = first_of(table.columns, *_START), first_of(table.columns, *_END)
    if start and end:
        return [ticks(table, start).alias("start_ns"), ticks(table, end).alias("end_ns")]
    if "DurationNs" in table.columns:
        return [pl.lit(0.0).alias("start_ns"), number("DurationNs").alias("end_ns")]
    return [pl.lit(None, pl.Int64).alias("start_ns"), pl.lit(None, pl.Int64).alias("end_ns")]


def _refuse_bare(dispatches: pl.DataFrame, entry: Entry) -> None:
    """A list of names alone says nothing about time or work."""
    counted = any(is_useful(c) for c in dispatches.columns)
    if not counted and dispatches["end_ns"].null_count() == dispatches.height:
        raise InputError(
            "lists dispatches without times and without counters of FLOPs or bytes",
            where=entry.name,
            advice="name the workload's folder, or its pmc_perf.csv",
        )


def _top(entry: Entry, header: Header, source: Source) -> Profile:
    """rocprof-compute's summary by kernel name."""
    table = read_table(entry, header, lambda _: True)
    rows = table.select(
        kernel_name("Kernel_Name").alias("name"),
        number("Count").alias("calls"),
        (number("Sum(ns)") / 1e9).alias("time_s"),
        pl.lit("measured").alias("origin.time"),
    ).filter(pl.col("name").is_not_null() & (pl.col("time_s") >= 0) & (pl.col("calls") >= 0))
    return Profile.of(rows, source, notes=("a summary by kernel name, without counters", NO_DEVICE))


FORMAT = RocprofCsv()
