"""rocprofv3's CSV tables, alone or as the folder of a run."""

from __future__ import annotations

import re
from functools import reduce
from operator import mul
from pathlib import PurePosixPath

import polars as pl

from timeroof.core.errors import InputError, Note
from timeroof.core.profile import Profile, Source
from timeroof.read import csv
from timeroof.read.amd import counters as amd
from timeroof.read.amd.counters import amd_name
from timeroof.read.events import SUMMARY, Whole, kernel_kind, one_device, profile_of, shown_list
from timeroof.read.formats import ReadOptions, source_of
from timeroof.read.open import Entry, Input

# Statistics by kernel name (``*_kernel_stats.csv`` of rocprofv3, ``*.stats.csv`` of rocprof).
_HOST_CALL = r"^(?:hip[A-Z]|hsa_|__hip|roctx|rccl[A-Z]\w+$|nccl[A-Z]\w+$)"
_DOMAIN = r"^(?:KERNEL_DISPATCH|HIP_|HSA_|MARKER_|MEMORY_ALLOCATION|SCRATCH_MEMORY)"


def read_stats(table: Found, source: Source) -> Profile:
    """Rows of a summary by kernel name; statistics of host calls are refused."""
    entry, header = table
    raw = csv.read_table(entry, header, lambda _: True)
    rows = raw.select(
        amd_name("Name").alias("name"),
        csv.number("Calls").alias("calls"),
        (csv.number("TotalDurationNs") / 1e9).alias("time_s"),
        pl.lit("measured").alias("origin.time"),
    ).filter(pl.col("name").is_not_null() & (pl.col("time_s") >= 0) & (pl.col("calls") >= 0))
    if not rows.height:
        raise InputError("has a header but no kernels", entry.name, "record it again")
    if rows["name"].str.contains(f"{_HOST_CALL}|{_DOMAIN}").all():
        what = f"is a summary of host calls or domains ({rows['name'][0]} …), not of kernels"
        raise InputError(what, entry.name, "name the run's *_kernel_stats.csv")
    copies = pl.col("name").str.contains("^MEMORY_COPY_")
    kind = pl.when(copies).then(pl.lit("copy")).otherwise(kernel_kind())
    rows = rows.with_columns(kind.alias("kind"))
    return Profile.of(rows, source, notes=(SUMMARY, *one_device([])[1]))


# The CSV tables that rocprofv3 writes, told apart by their columns.
KERNELS, COUNTERS, COPIES, STATS = "kernel trace", "counters", "copy trace", "statistics"
CALLS, AGENTS = "host calls", "agents"

_COLUMNS: dict[str, frozenset[str]] = {
    KERNELS: frozenset({"kind", "kernel_name", "start_timestamp", "end_timestamp"}),
    COUNTERS: frozenset({"kernel_name", "counter_name", "counter_value", "dispatch_id"}),
    COPIES: frozenset({"direction", "source_agent_id", "destination_agent_id", "start_timestamp"}),
    STATS: frozenset({"name", "calls", "totaldurationns"}),
    CALLS: frozenset({"domain", "function", "correlation_id", "start_timestamp"}),
    AGENTS: frozenset({"node_id", "agent_type", "product_name"}),
}

# Of a trace's many columns these are read.
_NEEDED = re.compile(
    r"(Kernel_Name|Counter_(Name|Value)|(Start|End)_Timestamp|(Grid|Workgroup)_Size(_[XYZ])?"
    r"|(Agent|Stream|Queue|Correlation|Dispatch|Process)_Id)$"
)


Found = tuple[Entry, csv.Header]
# The tables of an input by their kind.
Tables = dict[str, list[Found]]


def sort_tables(found: Input) -> Tables:
    """Which of an input's files are which table; others are passed over."""
    tables: Tables = {}
    for entry in found.entries:
        header = csv.find_header(entry, lambda names: kind_of(names) is not None)
        if header is not None and (kind := kind_of(header.plain)) is not None:
            tables.setdefault(kind, []).append((entry, header))
    return tables


def kind_of(names: csv.Names) -> str | None:
    """The kind of table that has these columns."""
    return next((kind for kind, wanted in _COLUMNS.items() if wanted <= names), None)


def read_kernels(
    entry: Entry, header: csv.Header, process: int, devices: dict[str, str]
) -> pl.DataFrame:
    """Dispatches with their times, queue, agent and sizes."""
    table = csv.read_table(entry, header, lambda name: bool(_NEEDED.match(name)))
    grid, block = _sizes(table, "Grid_Size"), _sizes(table, "Workgroup_Size")
    stream = csv.first_of(table.columns, "Stream_Id", "Queue_Id")
    events = table.select(
        kernel_kind("Kernel_Name"),
        amd_name("Kernel_Name").alias("name"),
        *_times(table),
        _agent(table, "Agent_Id").alias("gpu"),
        (pl.col(stream) if stream else pl.lit(None, pl.String)).alias("stream"),
        _optional(table, "Correlation_Id").alias("correlation"),
        _product(grid).alias("grid"),
        _joined(grid).alias("label.grid"),
        _joined(block).alias("label.block"),
        pl.lit(process, pl.Int64).alias("process"),
    )
    return _with_device(events, devices)


def read_counters(entry: Entry, header: csv.Header) -> pl.DataFrame:
    """Counters in long form: name, grid, dispatch, counter, value, and the dispatch's times."""
    table = csv.read_table(entry, header, lambda name: bool(_NEEDED.match(name)))
    process = "Process_Id" if "Process_Id" in table.columns else "Dispatch_Id"
    return table.select(
        amd_name("Kernel_Name").alias("name"),
        _product(_sizes(table, "Grid_Size")).alias("grid"),
        pl.concat_str(process, "Dispatch_Id", separator=":", ignore_nulls=True).alias("dispatch"),
        _agent(table, "Agent_Id").alias("gpu"),
        pl.col("Counter_Name").alias("counter"),
        csv.number("Counter_Value").alias("value"),
        *_times(table),
    ).drop_nulls(["name", "counter"])


def read_copies(entry: Entry, header: csv.Header) -> pl.DataFrame:
    """Copies; rocprofv3 does not write how many bytes they moved."""
    table = csv.read_table(entry, header, lambda _: True)
    to_device = pl.col("Direction").str.contains("(?i)^(MEMORY_COPY_)?host")
    source, target = (_agent(table, f"{which}_Agent_Id") for which in ("Source", "Destination"))
    raw = table.select(
        pl.col("Direction").alias("way"),
        *_times(table),
        pl.when(to_device).then(target).otherwise(source).alias("gpu"),
        pl.lit("copies").alias("stream"),
        _optional(table, "Correlation_Id").alias("correlation"),
        pl.lit(None, pl.Int64).alias("size"),
    )
    return amd.copies_of(raw, 0)


def read_calls(entry: Entry, header: csv.Header) -> pl.DataFrame:
    """Calls of the host."""
    table = csv.read_table(entry, header, lambda _: True)
    return table.select(
        pl.lit(0, pl.Int64).alias("process"),
        _optional(table, "Correlation_Id").alias("correlation"),
        _optional(table, "Thread_Id").alias("thread"),
        *_times(table),
        pl.col("Function").fill_null("").alias("name"),
        pl.col("Domain").fill_null("").alias("category"),
    ).drop_nulls(["start_ns", "end_ns"])


def read_agents(entry: Entry, header: csv.Header) -> dict[str, str]:
    """Product names of GPUs by the number that other tables give them."""
    table = csv.read_table(entry, header, lambda _: True)
    gpus = table.filter(pl.col("Agent_Type") == "GPU").select("Node_Id", "Product_Name")
    return {node: name for node, name in gpus.drop_nulls().iter_rows() if name}


def _times(table: pl.DataFrame) -> list[pl.Expr]:
    columns = {"start_ns": "Start_Timestamp", "end_ns": "End_Timestamp"}
    known = {a: csv.ticks(table, c) for a, c in columns.items() if c in table.columns}
    return [known.get(alias, pl.lit(None, pl.Int64)).alias(alias) for alias in columns]


def _optional(table: pl.DataFrame, column: str) -> pl.Expr:
    return csv.whole_number(column) if column in table.columns else pl.lit(None, pl.Int64)


def _agent(table: pl.DataFrame, column: str) -> pl.Expr:
    """An agent's number, written as ``2`` or as ``Agent 2``."""
    if column not in table.columns:
        return pl.lit("0")
    return pl.col(column).str.extract(r"(\d+)\s*$").fill_null("0")


def _sizes(table: pl.DataFrame, what: str) -> list[pl.Expr]:
    axes = [f"{what}_{axis}" for axis in "XYZ"]
    names = axes if axes[0] in table.columns else [what]
    return [csv.whole_number(name).fill_null(1) for name in names if name in table.columns]


def _product(sizes: list[pl.Expr]) -> pl.Expr:
    return reduce(mul, sizes) if sizes else pl.lit(1, pl.Int64)


def _joined(sizes: list[pl.Expr]) -> pl.Expr:
    if not sizes:
        return pl.lit(None, pl.String)
    return pl.concat_str([size.cast(pl.String) for size in sizes], separator="x")


_PASS_FOLDER = re.compile(r"^(?:pmc|pass)_?\d+$")
UNKNOWN_COPIES = Note("rocprofv3 writes no bytes for copies: they are unknown.", "copy-bytes")


def sniff(found: Input) -> bool:
    """A table with rocprofv3's columns, or a folder of them."""
    kinds = set(sort_tables(found))
    return bool(kinds) if len(found.entries) == 1 else bool(kinds & {KERNELS, COUNTERS})


def read(found: Input, options: ReadOptions) -> Profile:
    """The profile of the run."""
    tables, source = sort_tables(found), source_of("rocprofv3", found)
    if KERNELS in tables:
        return _traced(tables, found, source)
    if COUNTERS in tables:
        return _counted(tables, source)
    if STATS in tables:
        return read_stats(tables[STATS][0], source)
    if COPIES in tables:
        whole = Whole(source, None, (UNKNOWN_COPIES,))
        copies = [read_copies(*copy) for copy in tables[COPIES]]
        return amd.profile_of_run([], None, copies, None, whole)
    what = "calls of the host" if CALLS in tables else "the machine's agents"
    advice = "name the run's *_kernel_trace.csv, or the folder with all its files"
    raise InputError(f"lists {what} and no kernels", found.name, advice)


def _traced(tables: Tables, found: Input, source: Source) -> Profile:
    """A run with a trace of its kernels, which lends the time."""
    traces, notes = _one_run(tables[KERNELS], found)
    names = _device_names(tables)
    kernels = [read_kernels(*trace, n, names) for n, trace in enumerate(traces)]
    runs = [amd.wide(read_counters(*table)) for table in tables.get(COUNTERS, [])]
    counters = amd.join_passes(runs) if runs else None
    copies = [_with_device(read_copies(*copy), names) for copy in tables.get(COPIES, [])]
    if any(c.height for c in copies):
        notes.append(UNKNOWN_COPIES)
    calls = [read_calls(*table) for table in tables.get(CALLS, [])]
    # Calls do not say of which process they are.
    joined = pl.concat(calls, how="vertical_relaxed") if calls and len(traces) == 1 else None
    whole = Whole(source, None, tuple(notes))
    return amd.profile_of_run(kernels, counters, copies, joined, whole)


def _counted(tables: Tables, source: Source) -> Profile:
    """Counters without a trace: the run with most dispatches lends the times."""
    runs = [read_counters(*table) for table in tables[COUNTERS]]
    base = max(runs, key=lambda run: run["dispatch"].n_unique())
    dispatches = base.unique("dispatch", keep="first", maintain_order=True)
    dispatches = dispatches.drop("dispatch", "counter", "value")
    counters = amd.join_passes([amd.wide(run) for run in runs])
    events, notes = amd.counted(dispatches, counters)
    kept = ("flop/", "byte/", "label.", "origin.", "sum.")
    events = events.select(
        pl.lit("kernel").alias("kind"),
        "gpu", "name", "start_ns", "end_ns",
        pl.col("grid").cast(pl.String).alias("label.grid"),
        *(c for c in events.columns if c.startswith(kept)),
    )  # fmt: skip
    events = _with_device(events, _device_names(tables))
    return profile_of(events, Whole(source, None, (*notes, amd.UNDER_COUNTERS), has_gaps=False))


def _one_run(traces: list[Found], found: Input) -> tuple[list[Found], list[str]]:
    """The traces of one run: all of one folder; of repeated passes the first."""
    folders: Tables = {}
    for trace in traces:
        parent = str(PurePosixPath(trace[0].name.replace("\\", "/")).parent)
        folders.setdefault(parent, []).append(trace)
    if len(folders) == 1:
        return traces, []
    names = sorted(folders)
    last = [PurePosixPath(name).name for name in names]
    if all(map(_PASS_FOLDER.match, last)):
        text = f"{len(names)} passes of one program: times are of {names[0]}."
        return folders[names[0]], [Note(text, "several-passes")]
    advice = "name the folder of one of them"
    raise InputError(f"holds several runs ({shown_list(last)})", found.name, advice)


def _device_names(tables: Tables) -> dict[str, str]:
    return {k: v for table in tables.get(AGENTS, []) for k, v in read_agents(*table).items()}


def _with_device(events: pl.DataFrame, names: dict[str, str]) -> pl.DataFrame:
    device = pl.col("gpu").replace_strict(names, default=None, return_dtype=pl.String)
    return events.with_columns(device.alias("device"))
