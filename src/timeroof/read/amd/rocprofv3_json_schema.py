"""The parts of rocprofv3's JSON that a profile needs; all else in the file is passed over."""

from __future__ import annotations

import msgspec


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
