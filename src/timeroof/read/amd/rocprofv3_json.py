"""rocprofv3's JSON output (``rocprofiler-sdk-tool``): dispatches, copies, host calls, counters."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import msgspec
import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile, Source, SourceFile
from timeroof.read.amd.counters import with_amounts
from timeroof.read.amd.rocprof_csv import lend_counters, mark_lent, wide
from timeroof.read.events import COLLECTIVE, Whole, profile_of
from timeroof.read.formats import ReadOptions
from timeroof.read.idle import host_spans, link_launches
from timeroof.read.open import Entry, Input, short_name
from timeroof.read.sqlite import table_errors

# The records of rocprofv3's JSON as tables of events, counters and host calls.


# The parts of rocprofv3's JSON that a profile needs; all else in the file is passed over.


class Handle(msgspec.Struct, gc=False):
    """An id."""

    handle: int = 0


class Correlation(msgspec.Struct, gc=False):
    """What links a host call to its dispatch."""

    internal: int = 0


class Size(msgspec.Struct, gc=False):
    """A grid or a workgroup."""

    x: int = 1
    y: int = 1
    z: int = 1

    @property
    def text(self) -> str:
        """As labels show it."""
        return f"{self.x}x{self.y}x{self.z}"


class DispatchInfo(msgspec.Struct, gc=False):
    """What was dispatched, where and how large."""

    agent_id: Handle = msgspec.field(default_factory=Handle)
    queue_id: Handle = msgspec.field(default_factory=Handle)
    kernel_id: int = 0
    dispatch_id: int = 0
    workgroup_size: Size = msgspec.field(default_factory=Size)
    grid_size: Size = msgspec.field(default_factory=Size)


class Record(msgspec.Struct, gc=False):
    """A dispatch, a copy or a host call."""

    kind: int = 0
    operation: int = 0
    thread_id: int = 0
    correlation_id: Correlation = msgspec.field(default_factory=Correlation)
    start_timestamp: int = 0
    end_timestamp: int = 0
    dispatch_info: DispatchInfo | None = None
    stream_id: Handle | None = None
    src_agent_id: Handle | None = None
    dst_agent_id: Handle | None = None
    bytes: int | None = None


class Buffers(msgspec.Struct):
    """Records by what they are."""

    kernel_dispatch: list[Record] = []
    memory_copy: list[Record] = []
    hip_api: list[Record] = []


class CounterValue(msgspec.Struct, gc=False):
    """One counter's value, of one instance of its unit."""

    counter_id: Handle = msgspec.field(default_factory=Handle)
    value: float = 0.0


class DispatchData(msgspec.Struct, gc=False):
    """The dispatch that counters belong to."""

    dispatch_info: DispatchInfo = msgspec.field(default_factory=DispatchInfo)
    start_timestamp: int = 0
    end_timestamp: int = 0


class Counted(msgspec.Struct):
    """A dispatch with its counters."""

    dispatch_data: DispatchData = msgspec.field(default_factory=DispatchData)
    records: list[CounterValue] = []


class Callbacks(msgspec.Struct):
    """Records made in callbacks."""

    counter_collection: list[Counted] = []


class Agent(msgspec.Struct):
    """A CPU or GPU."""

    id: Handle = msgspec.field(default_factory=Handle)
    type: int = 0
    product_name: str = ""
    name: str = ""
    node_id: int = 0


class Symbol(msgspec.Struct):
    """A kernel's names."""

    kernel_id: int = 0
    kernel_name: str = ""
    formatted_kernel_name: str = ""
    truncated_kernel_name: str = ""


class Counter(msgspec.Struct):
    """A counter's name."""

    id: Handle = msgspec.field(default_factory=Handle)
    name: str = ""


class Operations(msgspec.Struct):
    """Names of a kind's operations."""

    kind: str = ""
    operations: list[str] = []


class Strings(msgspec.Struct):
    """Names of kinds."""

    buffer_records: list[Operations] = []


class Metadata(msgspec.Struct):
    """What ran."""

    command: list[str] = []


class Process(msgspec.Struct):
    """One process of the run."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    agents: list[Agent] = []
    counters: list[Counter] = []
    strings: Strings = msgspec.field(default_factory=Strings)
    kernel_symbols: list[Symbol] = []
    buffer_records: Buffers = msgspec.field(default_factory=Buffers)
    callback_records: Callbacks = msgspec.field(default_factory=Callbacks)


class Root(msgspec.Struct):
    """The whole file."""

    tool: list[Process] = msgspec.field(name="rocprofiler-sdk-tool", default_factory=list)


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


def kernels_of(process: Process, number: int) -> pl.DataFrame:
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


def copies_of(process: Process, number: int) -> pl.DataFrame:
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


def calls_of(process: Process, number: int) -> pl.DataFrame:
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


# The whole text is held in memory; larger traces come as rocpd or CSV.
MAX_JSON_BYTES = 2 * 2**30
_KEYS = ["name", "grid"]


class Rocprofv3Json:
    """rocprofv3, JSON."""

    name = "rocprofv3-json"
    title = "rocprofv3 JSON (rocprofiler-sdk-tool)"

    def sniff(self, found: Input) -> bool:
        """A JSON text whose first key is rocprofiler's."""
        head = found.entries[0].head[:4096] if len(found.entries) == 1 else b""
        return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and (
            b'"rocprofiler-sdk-tool"' in head
        )

    def read(self, found: Input, options: ReadOptions) -> Profile:
        """The profile of all processes in the file."""
        entry = found.only
        options.progress("decoding", 0.1)
        processes = _decoded(entry)
        options.progress("linking launches", 0.6)
        with table_errors(entry.name, "rocprofv3 JSON"):
            return _profile(processes, entry)


def _decoded(entry: Entry) -> list[Process]:
    text = bytearray()
    for chunk in entry.chunks():
        text += chunk
        if len(text) > MAX_JSON_BYTES:
            raise InputError(
                f"is JSON of more than {MAX_JSON_BYTES // 2**30} GiB",
                where=entry.name,
                advice="record it with --output-format rocpd or csv",
            )
    try:
        return msgspec.json.decode(bytes(text).removeprefix(b"\xef\xbb\xbf"), type=Root).tool
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(
            f"is no whole rocprofv3 JSON ({error})", where=entry.name, advice="record it again"
        ) from error


def _profile(processes: list[Process], entry: Entry) -> Profile:
    kernels = [kernels_of(process, n) for n, process in enumerate(processes)]
    copies = [copies_of(process, n) for n, process in enumerate(processes)]
    counted = [counters(process) for process in processes]
    kernels, counted = ([t for t in tables if t.height] for tables in (kernels, counted))
    notes: list[str] = []
    if not kernels and counted:
        kernels = [counted_dispatches(process, n) for n, process in enumerate(processes)]
        notes.append("times are from the run under counters, kernel by kernel")
    if not kernels and not any(c.height for c in copies):
        raise InputError(
            "has no kernel dispatches",
            where=entry.name,
            advice="record with --kernel-trace",
        )
    events = pl.concat(kernels, how="diagonal_relaxed") if kernels else pl.DataFrame()
    if counted:
        events, lent = lend_counters(events, wide(pl.concat(counted), _KEYS), _KEYS)
        events, missing = with_amounts(events)
        events, notes = mark_lent(events), [*notes, *lent, *missing]
    moved = [c for c in copies if c.height]
    events = pl.concat([events, *moved], how="diagonal_relaxed")
    calls = pl.concat([calls_of(process, n) for n, process in enumerate(processes)])
    events = link_launches(events, calls).drop("launch_thread", strict=False)
    device = _device(events)
    if device is None:
        notes.append("the file names no device or several")
    source = Source(
        tool="rocprofv3",
        files=[SourceFile(name=short_name(entry.name))],
        command=next(chain((" ".join(p.metadata.command) for p in processes), [""])) or None,
    )
    events = events.drop("correlation", "grid", strict=False)
    return profile_of(events, Whole(source, device, tuple(notes), host=host_spans(calls)))


def _device(events: pl.DataFrame) -> str | None:
    names = events["device"].drop_nulls().unique().to_list()
    return str(names[0]) if len(names) == 1 and names[0] else None


FORMAT = Rocprofv3Json()
