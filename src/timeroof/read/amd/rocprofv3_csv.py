"""rocprofv3's CSV tables, alone or as the folder of a run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile, Source, SourceFile
from timeroof.read.amd.counters import with_amounts
from timeroof.read.amd.rocprof_csv import join_passes, lend_counters, mark_lent, wide
from timeroof.read.csv import (
    Header,
    Names,
    find_header,
    first_of,
    kernel_name,
    number,
    read_table,
    ticks,
    whole_number,
)
from timeroof.read.events import COLLECTIVE, Whole, profile_of
from timeroof.read.formats import ReadOptions
from timeroof.read.open import Entry, Input, short_name
from timeroof.read.ranges import linked
from timeroof.read.sqlite import table_errors

# Statistics by kernel name (``*_kernel_stats.csv`` of rocprofv3, ``*.stats.csv`` of rocprof).


_HOST_CALL = r"^(?:hip[A-Z]|hsa_|__hip|roctx|rccl[A-Z]\w+$|nccl[A-Z]\w+$)"
_DOMAIN = r"^(?:KERNEL_DISPATCH|HIP_|HSA_|MARKER_|MEMORY_ALLOCATION|SCRATCH_MEMORY)"


def read_stats(table: tuple[Entry, Header], source: Source) -> Profile:
    """Rows of a summary by kernel name; statistics of host calls are refused."""
    entry, header = table
    raw = read_table(entry, header, lambda _: True)
    rows = raw.select(
        kernel_name("Name").alias("name"),
        number("Calls").alias("calls"),
        (number("TotalDurationNs") / 1e9).alias("time_s"),
        pl.lit("measured").alias("origin.time"),
    ).filter(pl.col("name").is_not_null() & (pl.col("time_s") >= 0) & (pl.col("calls") >= 0))
    if not rows.height:
        raise InputError("has a header but no kernels", where=entry.name)
    if rows["name"].str.contains(f"{_HOST_CALL}|{_DOMAIN}").all():
        raise InputError(
            f"is a summary of host calls or domains ({rows['name'][0]} …), not of kernels",
            where=entry.name,
            advice="name the run's *_kernel_stats.csv",
        )
    copies = pl.col("name").str.contains("^MEMORY_COPY_")
    kind = (
        pl.when(copies)
        .then(pl.lit("copy"))
        .when(pl.col("name").str.contains(COLLECTIVE))
        .then(pl.lit("collective"))
        .otherwise(pl.lit("kernel"))
    )
    notes = ["a summary by kernel name: no timestamps, so idle time is unknown"]
    return Profile.of(
        rows.with_columns(kind.alias("kind")), source, notes=(*notes, "the file names no device")
    )


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


@dataclass
class Tables:
    """The tables of an input by their kind."""

    found: dict[str, list[tuple[Entry, Header]]] = field(default_factory=dict)

    def of(self, kind: str) -> list[tuple[Entry, Header]]:
        """All tables of one kind."""
        return self.found.get(kind, [])


def sort_tables(found: Input) -> Tables:
    """Which of an input's files are which table; others are passed over."""
    tables = Tables()
    for entry in found.entries:
        header = find_header(entry, lambda names: kind_of(names) is not None)
        kind = kind_of(header.plain) if header else None
        if header is not None and kind is not None:
            tables.found.setdefault(kind, []).append((entry, header))
    return tables


def kind_of(names: Names) -> str | None:
    """The kind of table that has these columns."""
    return next((kind for kind, wanted in _COLUMNS.items() if wanted <= names), None)


def read_kernels(entry: Entry, header: Header) -> pl.DataFrame:
    """Dispatches with their times, queue, agent and sizes."""
    table = read_table(entry, header, lambda name: bool(_NEEDED.match(name)))
    grid, block = _sizes(table, "Grid_Size"), _sizes(table, "Workgroup_Size")
    stream = first_of(table.columns, "Stream_Id", "Queue_Id")
    return table.select(
        pl.when(pl.col("Kernel_Name").str.contains(COLLECTIVE))
        .then(pl.lit("collective"))
        .otherwise(pl.lit("kernel"))
        .alias("kind"),
        kernel_name("Kernel_Name").alias("name"),
        ticks(table, "Start_Timestamp").alias("start_ns"),
        ticks(table, "End_Timestamp").alias("end_ns"),
        _agent(table, "Agent_Id").alias("gpu"),
        (pl.col(stream) if stream else pl.lit(None, pl.String)).alias("stream"),
        _optional(table, "Correlation_Id").alias("correlation"),
        _product(grid).alias("grid"),
        _joined(grid).alias("label.grid"),
        _joined(block).alias("label.block"),
    )


def read_counters(entry: Entry, header: Header) -> pl.DataFrame:
    """Counters in long form: name, grid, dispatch, counter, value, and the dispatch's times."""
    table = read_table(entry, header, lambda name: bool(_NEEDED.match(name)))
    times = [
        (ticks(table, c) if c in table.columns else pl.lit(None, pl.Int64)).alias(alias)
        for c, alias in (("Start_Timestamp", "start_ns"), ("End_Timestamp", "end_ns"))
    ]
    process = "Process_Id" if "Process_Id" in table.columns else "Dispatch_Id"
    return table.select(
        kernel_name("Kernel_Name").alias("name"),
        _product(_sizes(table, "Grid_Size")).alias("grid"),
        pl.concat_str(process, "Dispatch_Id", separator=":", ignore_nulls=True).alias("dispatch"),
        _agent(table, "Agent_Id").alias("gpu"),
        pl.col("Counter_Name").alias("counter"),
        number("Counter_Value").alias("value"),
        *times,
    ).drop_nulls(["name", "counter"])


def read_copies(entry: Entry, header: Header) -> pl.DataFrame:
    """Copies; rocprofv3 does not write how many bytes they moved."""
    table = read_table(entry, header, lambda _: True)
    way = pl.col("Direction").str.replace("^MEMORY_COPY_", "").str.to_lowercase()
    device = (
        pl.when(way.str.starts_with("host"))
        .then(_agent(table, "Destination_Agent_Id"))
        .otherwise(_agent(table, "Source_Agent_Id"))
    )
    return table.select(
        pl.lit("copy").alias("kind"),
        pl.format("Memcpy {}", way.str.replace_all("_", "-")).alias("name"),
        ticks(table, "Start_Timestamp").alias("start_ns"),
        ticks(table, "End_Timestamp").alias("end_ns"),
        device.alias("gpu"),
        pl.lit("copies").alias("stream"),
        _optional(table, "Correlation_Id").alias("correlation"),
        pl.lit(None, pl.Float64).alias("link/pcie"),
        pl.lit(None, pl.Float64).alias("byte/dram"),
    )


def read_calls(entry: Entry, header: Header) -> pl.DataFrame:
    """Calls of the host."""
    table = read_table(entry, header, lambda _: True)
    return table.select(
        _optional(table, "Correlation_Id").alias("correlation"),
        _optional(table, "Thread_Id").alias("thread"),
        ticks(table, "Start_Timestamp").alias("start_ns"),
        ticks(table, "End_Timestamp").alias("end_ns"),
        pl.col("Function").fill_null("").alias("name"),
        pl.col("Domain").fill_null("").alias("category"),
    ).drop_nulls(["start_ns", "end_ns"])


def read_agents(entry: Entry, header: Header) -> dict[str, str]:
    """Product names of GPUs by the number that other tables give them."""
    table = read_table(entry, header, lambda _: True)
    gpus = table.filter(pl.col("Agent_Type") == "GPU").select("Node_Id", "Product_Name")
    return {node: name for node, name in gpus.drop_nulls().iter_rows() if name}


def _optional(table: pl.DataFrame, column: str) -> pl.Expr:
    return whole_number(column) if column in table.columns else pl.lit(None, pl.Int64)


def _agent(table: pl.DataFrame, column: str) -> pl.Expr:
    """An agent's number, written as ``2`` or as ``Agent 2``."""
    if column not in table.columns:
        return pl.lit("0")
    return pl.col(column).str.extract(r"(\d+)\s*$").fill_null("0")


def _sizes(table: pl.DataFrame, what: str) -> list[pl.Expr]:
    axes = [f"{what}_{axis}" for axis in "XYZ"]
    names = axes if axes[0] in table.columns else [what]
    return [whole_number(name).fill_null(1) for name in names if name in table.columns]


def _product(sizes: list[pl.Expr]) -> pl.Expr:
    product = pl.lit(1, pl.Int64) if not sizes else sizes[0]
    for size in sizes[1:]:
        product = product * size
    return product


def _joined(sizes: list[pl.Expr]) -> pl.Expr:
    if not sizes:
        return pl.lit(None, pl.String)
    return pl.concat_str([size.cast(pl.String) for size in sizes], separator="x")


# rocprofv3's CSV output: one file, or the folder of a run with its traces and counters.


_PASS_FOLDER = re.compile(r"^(?:pmc|pass)_?\d+$")
_KEYS = ["name", "grid"]
NO_DEVICE = "the file names no device: add the run's agent_info.csv or name a machine"


class Rocprofv3Csv:
    """rocprofv3, CSV."""

    name = "rocprofv3-csv"
    title = "rocprofv3 CSV (kernel_trace, counter_collection, stats)"

    def sniff(self, found: Input) -> bool:
        """A table with rocprofv3's columns, or a folder of them."""
        kinds = set(sort_tables(found).found)
        if len(found.entries) == 1:
            return bool(kinds)
        return bool(kinds & {KERNELS, COUNTERS})

    def read(self, found: Input, options: ReadOptions) -> Profile:
        """The profile of the run."""
        tables = sort_tables(found)
        options.progress("reading tables", 0.1)
        with table_errors(found.name):
            if tables.of(KERNELS):
                return _traced(tables, found)
            if tables.of(COUNTERS):
                return _counted(tables, found)
            if tables.of(STATS):
                return read_stats(tables.of(STATS)[0], _source(found))
            return _only_copies(tables, found)


def _traced(tables: Tables, found: Input) -> Profile:
    """A run with a trace of its kernels, which lends the time."""
    traces, notes = _one_run(tables.of(KERNELS), found)
    parts = [
        read_kernels(*trace).with_columns(pl.lit(n, pl.Int64).alias("process"))
        for n, trace in enumerate(traces)
    ]
    events = pl.concat(parts, how="vertical_relaxed")
    if tables.of(COUNTERS):
        counters = _counters(tables.of(COUNTERS))
        events, lent = lend_counters(events, counters, _KEYS)
        events, missing = with_amounts(events)
        events = mark_lent(events)
        notes += lent + missing
    copies = [read_copies(*copy) for copy in tables.of(COPIES)]
    copies = [c.with_columns(pl.lit(0, pl.Int64).alias("process")) for c in copies if c.height]
    events = pl.concat([events, *copies], how="diagonal_relaxed")
    if copies:
        notes.append("rocprofv3 writes no bytes for copies: what they moved is unknown")
    events, host = _linked(events, tables)
    events, device, device_notes = _with_device(events, tables)
    dropped = [c for c in ("correlation", "grid") if c in events.columns]
    whole = Whole(_source(found), device, tuple(notes + device_notes), host=host)
    return profile_of(events.drop(dropped), whole)


def _counted(tables: Tables, found: Input) -> Profile:
    """Counters without a trace: the run with most dispatches lends the times."""
    runs = [read_counters(*table) for table in tables.of(COUNTERS)]
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


def _only_copies(tables: Tables, found: Input) -> Profile:
    if tables.of(COPIES):
        events = pl.concat([read_copies(*copy) for copy in tables.of(COPIES)])
        notes = ("rocprofv3 writes no bytes for copies: what they moved is unknown", NO_DEVICE)
        return profile_of(events.drop("correlation"), Whole(_source(found), None, notes))
    what = "calls of the host" if tables.of(CALLS) else "the machine's agents"
    raise InputError(
        f"lists {what} and no kernels",
        where=found.name,
        advice="name the run's *_kernel_trace.csv, or the folder with all its files",
    )


def _counters(found: list[tuple[Entry, Header]]) -> pl.DataFrame:
    return join_passes([wide(read_counters(*table), _KEYS) for table in found], _KEYS)


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


def _linked(events: pl.DataFrame, tables: Tables) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Events with their launches and the ranges (roctx) around them, where these were traced."""
    calls = [read_calls(*table) for table in tables.of(CALLS)]
    if not calls or events["process"].n_unique() > 1:
        return events, None
    joined = pl.concat(calls, how="vertical_relaxed")
    return linked(events, joined.with_columns(pl.lit(0, pl.Int64).alias("process")))


def _with_device(
    events: pl.DataFrame, tables: Tables
) -> tuple[pl.DataFrame, str | None, list[str]]:
    names: dict[str, str] = {}
    for table in tables.of(AGENTS):
        names.update(read_agents(*table))
    device = pl.col("gpu").replace_strict(names, default=None, return_dtype=pl.String)
    events = events.with_columns(device.alias("device"))
    used = events["device"].drop_nulls().unique().to_list()
    return events, (used[0] if len(used) == 1 else None), ([] if used else [NO_DEVICE])


def _source(found: Input) -> Source:
    return Source(
        tool="rocprofv3", files=[SourceFile(name=short_name(entry.name)) for entry in found.entries]
    )


FORMAT = Rocprofv3Csv()


__all__ = ["FORMAT"]
