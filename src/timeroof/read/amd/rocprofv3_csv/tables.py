"""The CSV tables that rocprofv3 writes, told apart by their columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import polars as pl

from timeroof.read.amd.rocprof_csv_table import (
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
from timeroof.read.device_events import COLLECTIVE
from timeroof.read.opening import Entry, Input

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
        pl.col("Domain").fill_null("").alias("domain"),
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
