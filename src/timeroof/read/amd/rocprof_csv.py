"""rocprof (v1) and rocprofv2 CSV: one row per dispatch, counters as columns.

Also reads what its relatives leave: one table of an Omniperf / rocprof-compute workload, the
latter's ``pmc_kernel_top.csv``, and counters rewritten in Nsight Compute's long form.
"""

from __future__ import annotations

import re

import polars as pl

from timeroof.core.errors import InputError, Note
from timeroof.core.profile import Profile, Source
from timeroof.read.amd.counters import KIB, amd_name, is_useful, merge_channels, with_amounts
from timeroof.read.csv import Header, Names, find_header, first_of, number, read_table, ticks
from timeroof.read.events import SUMMARY, Whole, one_device, profile_of, rows_of
from timeroof.read.formats import ReadOptions, source_of
from timeroof.read.open import Entry, Input
from timeroof.read.text import head_text


def same_counts_note(table: pl.DataFrame, counters: list[str]) -> list[Note]:
    """A warning where kernels of different names all show the very same counts."""
    if table["name"].n_unique() < 3 or len(counters) < 3:
        return []
    distinct = table.select(pl.col(c).drop_nulls().n_unique() for c in counters).row(0)
    above_zero = table.select((pl.col(c) > 0).any() for c in counters).row(0)
    text = "All kernels show the same counts, which cannot be theirs: amounts are unknown."
    same = any(above_zero) and max(distinct) <= 1
    return [Note(text, "same-counts", "warning")] if same else []


# rocprof counters rewritten by hand into Nsight Compute's long form (one row per metric).
_LONG = frozenset({"id", "kernel name", "metric name", "metric value"})
_AMD = re.compile(r"[,;\t]\"?(?:SQ_INSTS_\w+|(?:Fetch|Write)Size|FETCH_SIZE|TC[CP]_\w+)\"?[,;\t]")
_TIME_NS = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "s": 1e9}
_BYTES = {"byte": 1.0, "bytes": 1.0, "kb": KIB, "mb": KIB**2}


def is_rewritten(entry: Entry) -> bool:
    """Whether a long table names AMD's counters."""
    return find_header(entry, _is_long) is not None and bool(_AMD.search(head_text(entry)))


def read_rewritten(entry: Entry, source: Source) -> Profile:
    """The profile of such a table; units are those of each row."""
    header = find_header(entry, _is_long)
    if header is None:
        raise InputError("has no table of rocprof", entry.name, "record it again")
    table = read_table(entry, header, lambda _: True)
    unit = pl.col("Metric Unit").str.to_lowercase()
    long = table.select(
        "ID",
        pl.col("Kernel Name").alias("name"),
        pl.col("Metric Name").alias("metric"),
        number("Metric Value").alias("value"),
        unit.replace_strict(_TIME_NS, default=None, return_dtype=pl.Float64).alias("ns"),
        unit.replace_strict(_BYTES, default=None, return_dtype=pl.Float64).alias("bytes"),
    ).drop_nulls(["name", "metric"])
    is_time = (pl.col("metric").str.to_lowercase() == "time") & pl.col("ns").is_not_null()
    # The amounts expect sizes in units of 1024 bytes, as the counters are defined.
    value = (
        pl.when(is_time)
        .then(pl.col("value") * pl.col("ns"))
        .when(pl.col("metric").str.contains("(?i)size$") & pl.col("bytes").is_not_null())
        .then(pl.col("value") * pl.col("bytes") / KIB)
        .otherwise(pl.col("value"))
    )
    wide = long.with_columns(value.alias("value")).pivot(
        "metric", index=["ID", "name"], values="value", aggregate_function="first"
    )
    return _profile(wide, source)


def _profile(wide: pl.DataFrame, source: Source) -> Profile:
    if "time" not in wide.columns:
        wide = wide.with_columns(pl.lit(None, pl.Float64).alias("time"))
    kept = [c for c in wide.columns if is_useful(c)]
    events, notes = with_amounts(wide.select("name", "time", *kept))
    events = events.rename({"time": "end_ns"})
    events = events.with_columns(kind=pl.lit("kernel"), start_ns=pl.lit(0.0))
    return profile_of(events, Whole(source, None, tuple(notes), has_gaps=False))


def _is_long(names: Names) -> bool:
    return names >= _LONG


_NAME = ("Kernel_Name", "KernelName")
_START, _END = ("Start_Timestamp", "BeginNs"), ("End_Timestamp", "EndNs")
_PLACES = {
    "gpu": ("GPU_ID", "gpu-id"), "stream": ("Queue_ID", "queue-id"),
    "grid": ("Grid_Size", "grd"), "block": ("Workgroup_Size", "wgr"),
}  # fmt: skip
_PLACE = frozenset({"gpu_id", "gpu-id", "queue-id", "dispatch_id", "index"})
_TOP = frozenset({"kernel_name", "count", "sum(ns)"})
NO_COUNTERS = "No counters that tell FLOPs or bytes are in the file."
NO_TIMES = "The table has no times: they are unknown."
ZERO_TIMES = (
    "All dispatches start and end at the same time: the timestamps were rounded when the table"
    " was saved, so times are unknown."
)


def sniff(found: Input) -> bool:
    """A table of dispatches with rocprof's columns."""
    return find_header(found.only, is_dispatches) is not None or is_rewritten(found.only)


def read(found: Input, options: ReadOptions) -> Profile:
    """The profile of the table."""
    entry, source = found.only, source_of("rocprof", found)
    header = find_header(entry, is_dispatches)
    if header is None:
        return read_rewritten(entry, source)
    if header.plain >= _TOP:
        return _top(entry, header, source)
    dispatches = read_dispatches(entry, header)
    counted = any(is_useful(c) for c in dispatches.columns)
    if not counted and dispatches["end_ns"].null_count() == dispatches.height:
        what = "lists dispatches without times and without counters of FLOPs or bytes"
        raise InputError(what, entry.name, "name the workload's folder, or its pmc_perf.csv")
    return profile_of_dispatches(dispatches, Whole(source))


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
    fields = {field: first_of(table.columns, *names) for field, names in _PLACES.items()}
    read = table.select(
        amd_name(name).alias("name"),
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
    notes: list[str] = [*same_counts_note(dispatches, counters)]
    if notes:
        dispatches = dispatches.with_columns(pl.lit(None, pl.Float64).alias(c) for c in counters)
    events, missing = with_amounts(dispatches)
    notes += missing if counters else [Note(NO_COUNTERS, "not-collected", "warning")]
    events = events.rename({"grid": "label.grid", "block": "label.block"}).with_columns(
        pl.lit("kernel").alias("kind"), pl.col("gpu").fill_null("0")
    )
    timed = has_times(events)
    if not timed:
        unknown = events["end_ns"].null_count() == events.height
        notes.append(Note(NO_TIMES if unknown else ZERO_TIMES, "no-times", "warning"))
    full = Whole(whole.source, whole.device, (*whole.notes, *notes), has_gaps=False)
    return profile_of(events, full) if timed else _untimed(events, full)


_OF_TIME = ("time_s", "time_spread", "origin.time")


def _untimed(events: pl.DataFrame, whole: Whole) -> Profile:
    rows = rows_of(events.with_columns(start_ns=pl.lit(0), end_ns=pl.lit(0)))
    rows = rows.with_columns(pl.lit(None).cast(rows[c].dtype).alias(c) for c in _OF_TIME)
    device, unnamed = (whole.device, []) if whole.device else one_device([])
    return Profile.of(rows, whole.source, device=device, notes=(*whole.notes, *unnamed))


def _is_field(name: str) -> bool:
    places = [column for columns in _PLACES.values() for column in columns]
    return name in (*_NAME, *_START, *_END, "DurationNs", *places)


def _times(table: pl.DataFrame) -> list[pl.Expr]:
    """Start and end; where only a duration is written, a start of 0."""
    start, end = first_of(table.columns, *_START), first_of(table.columns, *_END)
    if start and end:
        return [ticks(table, start).alias("start_ns"), ticks(table, end).alias("end_ns")]
    if "DurationNs" in table.columns:
        return [pl.lit(0.0).alias("start_ns"), number("DurationNs").alias("end_ns")]
    return [pl.lit(None, pl.Int64).alias("start_ns"), pl.lit(None, pl.Int64).alias("end_ns")]


def _top(entry: Entry, header: Header, source: Source) -> Profile:
    """rocprof-compute's summary by kernel name."""
    table = read_table(entry, header, lambda _: True)
    rows = table.select(
        amd_name("Kernel_Name").alias("name"),
        number("Count").alias("calls"),
        (number("Sum(ns)") / 1e9).alias("time_s"),
        pl.lit("measured").alias("origin.time"),
    ).filter(pl.col("name").is_not_null() & (pl.col("time_s") >= 0) & (pl.col("calls") >= 0))
    return Profile.of(rows, source, notes=(SUMMARY, *one_device([])[1]))
