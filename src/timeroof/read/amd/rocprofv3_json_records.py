"""The records of rocprofv3's JSON as tables of events, counters and host calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from timeroof.read.amd.rocprofv3_json_schema import (
    Agent,
    DispatchInfo,
    Handle,
    Operations,
    Process,
    Record,
)
from timeroof.read.device_events import COLLECTIVE

GPU = 2

_EVENT = {
    "kind": pl.String,
    "name": pl.String,
    "short_name": pl.String,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "gpu": pl.String,
    "device": pl.String,
    "stream": pl.String,
    "correlation": pl.Int64,
    "grid": pl.Int64,
    "label.grid": pl.String,
    "label.block": pl.String,
}


def kernels(process: Process, number: int) -> pl.DataFrame:
    """Dispatches of the kernel trace."""
    found = [
        (r.dispatch_info, r.start_timestamp, r.end_timestamp, r.stream_id, r.correlation_id)
        for r in process.buffer_records.kernel_dispatch
        if r.dispatch_info is not None
    ]
    event = _event_of(process)
    rows = [event(i, s, e, stream, c.internal) for i, s, e, stream, c in found]
    return _kinds(pl.DataFrame(rows, schema=_EVENT, orient="row"), number)


def counted_dispatches(process: Process, number: int) -> pl.DataFrame:
    """Dispatches of a run that has counters and no trace."""
    event = _event_of(process)
    rows = []
    for record in process.callback_records.counter_collection:
        data = record.dispatch_data
        rows.append(event(data.dispatch_info, data.start_timestamp, data.end_timestamp, None, 0))
    return _kinds(pl.DataFrame(rows, schema=_EVENT, orient="row"), number)


def counters(process: Process) -> pl.DataFrame:
    """Counters in long form, summed over the instances of their unit."""
    names = {c.id.handle: c.name for c in process.counters}
    symbols = _names(process)
    rows = []
    for record in process.callback_records.counter_collection:
        info = record.dispatch_data.dispatch_info
        name = symbols.get(info.kernel_id, ("", ""))[0] or f"kernel {info.kernel_id}"
        for value in record.records:
            counter = names.get(value.counter_id.handle)
            rows.append((name, _volume(info), str(info.dispatch_id), counter, value.value))
    schema = {"name": pl.String, "grid": pl.Int64, "dispatch": pl.String}
    table = pl.DataFrame(
        rows, schema={**schema, "counter": pl.String, "value": pl.Float64}, orient="row"
    )
    keys = ["name", "grid", "dispatch", "counter"]
    return table.drop_nulls().group_by(keys, maintain_order=True).agg(pl.col("value").sum())


def copies(process: Process, number: int) -> pl.DataFrame:
    """Copies with their bytes and way."""
    agents = {a.id.handle: a for a in process.agents}
    operations = process.strings.buffer_records
    rows = []
    for record in process.buffer_records.memory_copy:
        way = _operation(operations, record).removeprefix("MEMORY_COPY_").lower()
        handle = record.dst_agent_id if way.startswith("host") else record.src_agent_id
        agent = agents.get(handle.handle if handle else 0)
        size = float(record.bytes) if record.bytes is not None else None
        over = size if "host" in way else 0.0
        rows.append(
            (
                "copy",
                f"Memcpy {way.replace('_', '-')}",
                record.start_timestamp,
                record.end_timestamp,
                _number(agent),
                agent.product_name if agent else None,
                "copies",
                record.correlation_id.internal,
                over,
                size if over or size is None else 2 * size,
            )
        )
    names = ("kind", "name", "start_ns", "end_ns", "gpu", "device", "stream", "correlation")
    schema = {**{n: _EVENT[n] for n in names}, "link/pcie": pl.Float64, "byte/dram": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        pl.lit(number, pl.Int64).alias("process")
    )


def calls(process: Process, number: int) -> pl.DataFrame:
    """Calls of HIP."""
    operations = process.strings.buffer_records
    rows = [
        (
            number,
            r.correlation_id.internal,
            r.thread_id,
            r.start_timestamp,
            r.end_timestamp,
            _operation(operations, r),
        )
        for r in process.buffer_records.hip_api
    ]
    numbers = ("process", "correlation", "thread", "start_ns", "end_ns")
    schema = {**dict.fromkeys(numbers, pl.Int64), "name": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _event_of(process: Process) -> Callable[..., tuple[Any, ...]]:
    """A function that makes an event's row."""
    symbols = _names(process)
    agents = {a.id.handle: a for a in process.agents if a.type == GPU}

    def event(
        info: DispatchInfo, start: int, end: int, stream: Handle | None, correlation: int
    ) -> tuple[Any, ...]:
        name, short = symbols.get(info.kernel_id, ("", ""))
        agent = agents.get(info.agent_id.handle)
        queue = stream.handle if stream is not None else info.queue_id.handle
        return (
            "kernel",
            name or f"kernel {info.kernel_id}",
            short or None,
            start,
            end,
            _number(agent),
            agent.product_name or agent.name if agent else None,
            str(queue),
            correlation,
            _volume(info),
            info.grid_size.text,
            info.workgroup_size.text,
        )

    return event


def _names(process: Process) -> dict[int, tuple[str, str]]:
    return {
        s.kernel_id: (s.formatted_kernel_name or s.kernel_name, s.truncated_kernel_name)
        for s in process.kernel_symbols
    }


def _kinds(table: pl.DataFrame, number: int) -> pl.DataFrame:
    collective = pl.col("name").str.contains(COLLECTIVE)
    kind = pl.when(collective).then(pl.lit("collective")).otherwise(pl.col("kind"))
    return table.with_columns(kind.alias("kind"), pl.lit(number, pl.Int64).alias("process"))


def _volume(info: DispatchInfo) -> int:
    size = info.grid_size
    return min(size.x * size.y * size.z, 2**62)


def _number(agent: Agent | None) -> str:
    return str(agent.node_id) if agent else "0"


def _operation(kinds: list[Operations], record: Record) -> str:
    if 0 <= record.kind < len(kinds) and 0 <= record.operation < len(kinds[record.kind].operations):
        return kinds[record.kind].operations[record.operation]
    return ""
