"""rocprofv3's JSON output (``rocprofiler-sdk-tool``): dispatches, copies, host calls, counters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.read.amd import counters as amd
from timeroof.read.events import Whole, kernel_kind
from timeroof.read.formats import ReadOptions, source_of
from timeroof.read.open import Entry, Input

# The parts of the JSON that a profile needs, under the names that they have there; all else in
# the file is passed over.


class _Handle(msgspec.Struct, frozen=True, gc=False):
    handle: int = 0


class _Correlation(msgspec.Struct, frozen=True, gc=False):
    internal: int = 0


class _Size(msgspec.Struct, frozen=True, gc=False):
    x: int = 1
    y: int = 1
    z: int = 1

    @property
    def text(self) -> str:
        return f"{self.x}x{self.y}x{self.z}"


NO_HANDLE, NO_CORRELATION, NO_SIZE = _Handle(), _Correlation(), _Size()


class _DispatchInfo(msgspec.Struct, frozen=True, gc=False):
    agent_id: _Handle = NO_HANDLE
    queue_id: _Handle = NO_HANDLE
    kernel_id: int = 0
    dispatch_id: int = 0
    workgroup_size: _Size = NO_SIZE
    grid_size: _Size = NO_SIZE

    @property
    def volume(self) -> int:
        size = self.grid_size
        return min(size.x * size.y * size.z, 2**62)


NO_DISPATCH = _DispatchInfo()


class _Record(msgspec.Struct, gc=False):
    """A dispatch, a copy or a host call."""

    kind: int = 0
    operation: int = 0
    thread_id: int = 0
    correlation_id: _Correlation = NO_CORRELATION
    start_timestamp: int = 0
    end_timestamp: int = 0
    dispatch_info: _DispatchInfo | None = None
    stream_id: _Handle | None = None
    src_agent_id: _Handle | None = None
    dst_agent_id: _Handle | None = None
    bytes: int | None = None


class _Buffers(msgspec.Struct):
    kernel_dispatch: list[_Record] = []
    memory_copy: list[_Record] = []
    hip_api: list[_Record] = []


class _CounterValue(msgspec.Struct, gc=False):
    """One counter's value, of one instance of its unit."""

    counter_id: _Handle = NO_HANDLE
    value: float = 0.0


class _DispatchData(msgspec.Struct, gc=False):
    dispatch_info: _DispatchInfo = NO_DISPATCH
    start_timestamp: int = 0
    end_timestamp: int = 0


class _Counted(msgspec.Struct):
    dispatch_data: _DispatchData = msgspec.field(default_factory=_DispatchData)
    records: list[_CounterValue] = []


class _Callbacks(msgspec.Struct):
    counter_collection: list[_Counted] = []


class _Agent(msgspec.Struct):
    """A CPU or GPU."""

    id: _Handle = NO_HANDLE
    type: int = 0
    product_name: str = ""
    name: str = ""
    node_id: int = 0


class _Symbol(msgspec.Struct):
    kernel_id: int = 0
    kernel_name: str = ""
    formatted_kernel_name: str = ""
    truncated_kernel_name: str = ""


class _Counter(msgspec.Struct):
    id: _Handle = NO_HANDLE
    name: str = ""


class _Operations(msgspec.Struct):
    """Names of a kind's operations."""

    operations: list[str] = []


class _Strings(msgspec.Struct):
    buffer_records: list[_Operations] = []


class _Metadata(msgspec.Struct):
    command: list[str] = []


class _Process(msgspec.Struct):
    """One process of the run."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    agents: list[_Agent] = []
    counters: list[_Counter] = []
    strings: _Strings = msgspec.field(default_factory=_Strings)
    kernel_symbols: list[_Symbol] = []
    buffer_records: _Buffers = msgspec.field(default_factory=_Buffers)
    callback_records: _Callbacks = msgspec.field(default_factory=_Callbacks)

    def operation(self, record: _Record) -> str:
        """What a record did, "" where the file does not name it."""
        kinds = self.strings.buffer_records
        named = kinds[record.kind].operations if 0 <= record.kind < len(kinds) else []
        return named[record.operation] if 0 <= record.operation < len(named) else ""


class _Root(msgspec.Struct):
    tool: list[_Process] = msgspec.field(name="rocprofiler-sdk-tool", default_factory=list)


# The whole text is held in memory; larger traces come as rocpd or CSV.
MAX_JSON_BYTES = 2 * 2**30
_GPU = 2
_EVENT = {
    **dict.fromkeys(("name", "short_name"), pl.String),
    **dict.fromkeys(("start_ns", "end_ns"), pl.Int64),
    **dict.fromkeys(("gpu", "device", "stream"), pl.String),
    **dict.fromkeys(("correlation", "grid"), pl.Int64),
    **dict.fromkeys(("label.grid", "label.block"), pl.String),
}


class _Dispatch(NamedTuple):
    """One dispatch, of the kernel trace or of a run with counters alone."""

    info: _DispatchInfo
    start: int
    end: int
    stream: _Handle | None = None
    correlation: int = 0


def _traced(process: _Process) -> Iterable[_Dispatch]:
    for r in process.buffer_records.kernel_dispatch:
        if (info := r.dispatch_info) is not None:
            times = (r.start_timestamp, r.end_timestamp)
            yield _Dispatch(info, *times, r.stream_id, r.correlation_id.internal)


def _counted(process: _Process) -> Iterable[_Dispatch]:
    for record in process.callback_records.counter_collection:
        data = record.dispatch_data
        yield _Dispatch(data.dispatch_info, data.start_timestamp, data.end_timestamp)


def _kernels(process: _Process, dispatches: Iterable[_Dispatch], number: int) -> pl.DataFrame:
    names = _names(process)
    agents = {a.id.handle: a for a in process.agents if a.type == _GPU}
    rows = []
    for info, start, end, stream, correlation in dispatches:
        name, short = names.get(info.kernel_id, ("", ""))
        agent = agents.get(info.agent_id.handle)
        rows.append(
            (
                name or f"kernel {info.kernel_id}", short or None, start, end, _number(agent),
                agent.product_name or agent.name if agent else None,
                str((stream or info.queue_id).handle), correlation, info.volume,
                info.grid_size.text, info.workgroup_size.text,
            )
        )  # fmt: skip
    table = pl.DataFrame(rows, schema=_EVENT, orient="row")
    return table.with_columns(kernel_kind(), pl.lit(number, pl.Int64).alias("process"))


def _counters(process: _Process) -> pl.DataFrame:
    counters, names = {c.id.handle: c.name for c in process.counters}, _names(process)
    rows = []
    for record in process.callback_records.counter_collection:
        info = record.dispatch_data.dispatch_info
        name = names.get(info.kernel_id, ("", ""))[0] or f"kernel {info.kernel_id}"
        of_dispatch = (name, info.volume, str(info.dispatch_id))
        rows += [(*of_dispatch, counters.get(v.counter_id.handle), v.value) for v in record.records]
    texts = dict.fromkeys(("dispatch", "counter"), pl.String)
    schema = {"name": pl.String, "grid": pl.Int64, **texts, "value": pl.Float64}
    return amd.summed_instances(pl.DataFrame(rows, schema=schema, orient="row"))


def _copies(process: _Process, number: int) -> pl.DataFrame:
    agents = {a.id.handle: a for a in process.agents}
    rows = []
    for r in process.buffer_records.memory_copy:
        way = process.operation(r)
        to_device = way.removeprefix("MEMORY_COPY_").lower().startswith("host")
        ends = (r.dst_agent_id, r.src_agent_id) if to_device else (r.src_agent_id, r.dst_agent_id)
        agent = _gpu_of(agents.get(end.handle) for end in ends if end is not None)
        place = (_number(agent), agent.product_name if agent else None, "copies")
        times = (r.start_timestamp, r.end_timestamp)
        rows.append((way, *times, *place, r.correlation_id.internal, r.bytes))
    names = ("start_ns", "end_ns", "gpu", "device", "stream", "correlation")
    schema = {"way": pl.String, **{n: _EVENT[n] for n in names}, "size": pl.Int64}
    return amd.copies_of(pl.DataFrame(rows, schema=schema, orient="row"), number)


def _gpu_of(ends: Iterable[_Agent | None]) -> _Agent | None:
    """The first end of a copy that is a GPU: names of its operations may be missing."""
    known = [agent for agent in ends if agent is not None]
    return next((agent for agent in known if agent.type == _GPU), next(iter(known), None))


def _calls(process: _Process, number: int) -> pl.DataFrame:
    rows = [
        (number, r.correlation_id.internal, r.thread_id, r.start_timestamp, r.end_timestamp,
         process.operation(r), "")
        for r in process.buffer_records.hip_api
    ]  # fmt: skip
    numbers = ("process", "correlation", "thread", "start_ns", "end_ns")
    schema = {**dict.fromkeys(numbers, pl.Int64), "name": pl.String, "category": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _names(process: _Process) -> dict[int, tuple[str, str]]:
    return {
        s.kernel_id: (s.formatted_kernel_name or s.kernel_name, s.truncated_kernel_name)
        for s in process.kernel_symbols
    }


def _number(agent: _Agent | None) -> str:
    return str(agent.node_id) if agent else "0"


def sniff(found: Input) -> bool:
    """A JSON text whose first key is rocprofiler's."""
    head = found.only.head[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    return head.startswith(b"{") and b'"rocprofiler-sdk-tool"' in head


def read(found: Input, options: ReadOptions) -> Profile:
    """The profile of all processes in the file."""
    processes = list(enumerate(_decoded(found.only)))
    options.progress("linking launches", 0.6)
    kernels = [k for n, p in processes if (k := _kernels(p, _traced(p), n)).height]
    counted = [c for _, p in processes if (c := _counters(p)).height]
    copies = [_copies(p, n) for n, p in processes]
    notes: tuple[str, ...] = ()
    if not kernels and counted:
        kernels = [_kernels(p, _counted(p), n) for n, p in processes]
        notes = (amd.UNDER_COUNTERS,)
    if not kernels and not any(c.height for c in copies):
        raise InputError("has no kernel dispatches", found.name, "record with --kernel-trace")
    command = " ".join(processes[0][1].metadata.command) or None
    source = source_of("rocprofv3", found, command=command)
    calls = pl.concat([_calls(p, n) for n, p in processes])
    counters = amd.wide(pl.concat(counted)) if counted else None
    return amd.profile_of_run(kernels, counters, copies, calls, Whole(source, None, notes))


def _decoded(entry: Entry) -> list[_Process]:
    text = bytearray()
    for chunk in entry.chunks():
        text += chunk
        if len(text) > MAX_JSON_BYTES:
            what = f"is JSON of more than {MAX_JSON_BYTES // 2**30} GiB"
            raise InputError(what, entry.name, "record it with --output-format rocpd or csv")
    try:
        return msgspec.json.decode(bytes(text).removeprefix(b"\xef\xbb\xbf"), type=_Root).tool
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        advice = "record it again"
        raise InputError(f"is no whole rocprofv3 JSON ({error})", entry.name, advice) from error
