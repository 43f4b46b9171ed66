"""What is collected of a trace, and how: columns of frames, launches and device work.

Everything that repeats (names, threads, recorded signatures) is a code into one of
the trace's `Codes`; times stay in microseconds until rows are made of them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from timeroof.core.errors import Note
from timeroof.read.idle import Floats
from timeroof.read.torch import events as ev
from timeroof.read.torch.events import DECODE_ERRORS, Event

# Texts and other values as small numbers, so that columns of millions stay small.
NONE = -1
# No C++ template needs more; what is longer is cut, so that no name fills the memory.
MAX_NAME = 20_000
# Nor has a program so many names; from here on they go by one.
MAX_LETTERS = 1 << 28
MORE_NAMES = "(more names than can be kept)"


class Codes(dict[Hashable, int]):
    """Numbers values in the order in which they are first asked for.

    >>> codes = Codes(); codes["a"], codes["b"], codes["a"], codes.values_in_order()
    (0, 1, 0, ['a', 'b'])
    """

    def __missing__(self, value: Hashable) -> int:
        code = self[value] = len(self)
        return code

    def values_in_order(self) -> list[Any]:
        """The values by their number."""
        return list(self)


class Names(Codes):
    """Codes of names: what is no text becomes one, and what is absurdly long is cut."""

    letters = 0

    def __missing__(self, value: Hashable) -> int:
        name = name_of(value)
        if name is not value:
            return self[name]
        self.letters += len(name)
        if self.letters > MAX_LETTERS and name != MORE_NAMES:
            return self[MORE_NAMES]
        return super().__missing__(name)


def codes_of(codes: Codes, values: Sequence[Hashable]) -> list[int]:
    """The codes of many values; one that cannot be a key goes by its text.

    >>> codes_of(Codes(), [1, (0, 2), 1, [3], (0, [2])])
    [0, 1, 0, 2, 3]
    """
    try:
        return [codes[v] for v in values]
    except TypeError:
        return [codes[_key(v)] for v in values]


def _key(value: object) -> Hashable:
    try:
        hash(value)
    except TypeError:
        return str(value) if not isinstance(value, tuple) else tuple(_key(v) for v in value)
    return value


def name_of(value: object) -> str:
    """A name as text, whatever was recorded, cut where it is absurdly long."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return text if len(text) <= MAX_NAME else text[: MAX_NAME - 1] + "…"


def numbers(values: Sequence[object]) -> Floats:
    """Numbers of what was recorded: text is parsed, what is no number is NaN.

    >>> numbers([1, "2.5", None, "x", [3]]).tolist()
    [1.0, 2.5, nan, nan, nan]
    """
    try:
        found = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        found = None
    if found is None or found.ndim != 1:
        found = np.array([_number(v) for v in values], dtype=np.float64)
    return found


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return float("nan")


# Kinds of device work, and kinds of frame.
KERNEL, COPY, MEMSET, COLLECTIVE = range(4)
KIND_NAMES = ["kernel", "copy", "memset", "collective"]
OP, ANNOTATION, MODULE = range(3)
MODULE_PREFIX = "nn.Module: "


class Table:
    """Columns that grow by pieces: codes as small integers, the rest as floats."""

    def __init__(self, codes: str, numbers: str) -> None:
        small = dict.fromkeys(codes.split(), np.int32)
        self._dtypes = small | dict.fromkeys(numbers.split(), np.float64)
        self._pieces: dict[str, list[np.ndarray]] = {c: [] for c in self._dtypes}
        self.height = 0

    def add(self, **columns: npt.ArrayLike) -> None:
        """Add rows; every column is given, each as long as the others."""
        for name, dtype in self._dtypes.items():
            self._pieces[name].append(np.asarray(columns[name], dtype=dtype))
        self.height += len(self._pieces[name][-1])

    def __getitem__(self, column: str) -> Any:
        pieces, dtype = self._pieces[column], self._dtypes[column]
        if len(pieces) != 1:
            pieces[:] = [np.concatenate([np.empty(0, dtype), *pieces])]
        return pieces[0]

    def __setitem__(self, column: str, values: npt.ArrayLike) -> None:
        self._pieces[column] = [np.asarray(values, dtype=self._dtypes[column])]


_FRAMES = ("thread kind name signature collective", "start end external_id record_id sequence")
# The duration on its own: the difference of two times of day has lost digits.
_TIMES = "start end duration correlation external_id bytes"
_DEVICE = ("kind name device stream grid collective", _TIMES)
_LAUNCHES = ("thread name", "start end correlation size")


@dataclass
class Trace:
    """The columns of one trace, and what their codes mean."""

    names: Names = field(default_factory=Names)
    # (process, thread) of the host, and devices and their streams.
    threads: Codes = field(default_factory=Codes)
    devices: Codes = field(default_factory=Codes)
    streams: Codes = field(default_factory=Codes)
    # What ops were called with: dims, types, strides, values, as recorded.
    signatures: Codes = field(default_factory=Codes)
    # What XLA says of an event: op, module and framework op.
    scopes: Codes = field(default_factory=Codes)
    grids: Codes = field(default_factory=Codes)
    collectives: Codes = field(default_factory=Codes)
    # Everything that has a begin and an end on a host thread: ops, annotations, modules.
    frames: Table = field(default_factory=partial(Table, *_FRAMES))
    launches: Table = field(default_factory=partial(Table, *_LAUNCHES))
    device: Table = field(default_factory=partial(Table, *_DEVICE))
    overheads: Table = field(default_factory=lambda: Table("name", "start end"))
    # Traces without categories that we know.
    plain: Table = field(default_factory=lambda: Table("thread name scope", "start end"))
    process_names: dict[str, str] = field(default_factory=dict)
    thread_names: dict[tuple[str, str], str] = field(default_factory=dict)
    # Counters per kernel: name, device, counters.
    ranges: list[tuple[str, str, dict[str, object]]] = field(default_factory=list)
    bad: int = 0
    unpaired: int = 0

    @property
    def is_op(self) -> npt.NDArray[np.bool_]:
        """Which of the frames are ops."""
        return cast("npt.NDArray[np.bool_]", self.frames["kind"] == OP)

    @property
    def notes(self) -> list[Note]:
        """What was left out."""
        said = [
            (self.bad, "events have no possible duration and are left out."),
            (self.unpaired, "begin and end events (ph B, E) are left out."),
        ]
        return [Note(f"{count} {text}", "left-out", "warning") for count, text in said if count]


# Events sorted into tables.


T = TypeVar("T")
# Longer than this (30 years, in microseconds) no event is and no clock reaches further.
_MAX_DURATION_US, _MAX_TIME_US = 1e15, 1e18


def collect(trace: Trace, events: list[Event]) -> None:
    """Add events to the columns of a trace."""
    try:
        groups = _by_category(events)
    except TypeError:
        # A category that is a list or an object is none.
        known = [e if isinstance(e.cat, str) else replace(e, cat=None) for e in events]
        groups = _by_category(known)
    for category, group in groups.items():
        adding = _ADDING.get(category)
        if adding is not None:
            adding(trace, group)
        elif category not in ev.UNUSED:
            _add_plain(trace, group)


def _by_category(events: list[Event]) -> dict[Hashable, list[Event]]:
    groups: dict[Hashable, list[Event]] = defaultdict(list)
    for event in events:
        groups[event.cat].append(event)
    return groups


def _timed(trace: Trace, group: list[Event]) -> tuple[list[Event], dict[str, Floats]]:
    """The complete events of a group that have a possible time, with start and end."""
    group = [e for e in group if e.ph == "X"]
    start, duration = numbers([e.ts for e in group]), numbers([e.dur for e in group])
    with np.errstate(invalid="ignore"):
        good = (duration >= 0) & (duration < _MAX_DURATION_US) & (abs(start) < _MAX_TIME_US)
    if not good.all():
        trace.bad += int((~good).sum())
        group = [e for e, keep in zip(group, good.tolist(), strict=True) if keep]
        start, duration = start[good], duration[good]
    return group, {"start": start, "end": start + duration}


def _decoder(kind: type[T], nothing: T) -> Callable[[list[Event]], list[T]]:
    """A function that decodes the arguments of events in one go, or one by one if it must."""
    many, one = msgspec.json.Decoder(list[kind]).decode, msgspec.json.Decoder(kind).decode  # type: ignore[valid-type]

    def lenient(raw: msgspec.Raw) -> T:
        try:
            return one(raw)
        except DECODE_ERRORS:
            return nothing

    def decode(events: list[Event]) -> list[T]:
        try:
            return many(b"[%b]" % b",".join([e.args or b"{}" for e in events]))
        except DECODE_ERRORS:
            return [lenient(e.args) for e in events]

    return decode


_op_args = _decoder(ev.OpArgs, ev.NO_OP_ARGS)
_launch_args = _decoder(ev.LaunchArgs, ev.NO_LAUNCH_ARGS)
_device_args = _decoder(ev.DeviceArgs, ev.NO_DEVICE_ARGS)
_plain_args = _decoder(ev.PlainArgs, ev.NO_PLAIN_ARGS)


def _collective(trace: Trace, args: ev.MessageArgs) -> int:
    if args.collective is None:
        return NONE
    values = [getattr(args, name) for name in ev.MessageArgs.__struct_fields__]
    return trace.collectives[tuple(v if isinstance(v, int | float | str) else None for v in values)]


def _signature(trace: Trace, args: ev.OpArgs) -> int:
    dims = args.dims or args.old_dims
    if not dims:
        return NONE
    return trace.signatures[tuple(map(bytes, (dims, args.types, args.strides, args.values)))]


def _add_frames(trace: Trace, group: list[Event], kind: int = OP) -> None:
    """Ops with their arguments; annotations and modules have none of interest."""
    group, times = _timed(trace, group)
    args = _op_args(group) if kind == OP else [ev.NO_OP_ARGS] * len(group)
    trace.frames.add(
        thread=codes_of(trace.threads, [(e.pid, e.tid) for e in group]),
        kind=[kind] * len(group),
        name=codes_of(trace.names, [e.name for e in group]),
        signature=[_signature(trace, a) for a in args],
        collective=[_collective(trace, a) for a in args],
        **times,
        external_id=numbers([a.external_id for a in args]),
        record_id=numbers([a.record_id for a in args]),
        sequence=numbers([a.sequence for a in args]),
    )


def _add_modules(trace: Trace, group: list[Event]) -> None:
    """Of a Python stack only the modules: the rest is many times more and says less."""
    modules = [e for e in group if type(e.name) is str and e.name.startswith(MODULE_PREFIX)]
    if modules:
        _add_frames(trace, modules, MODULE)


def _add_launches(trace: Trace, group: list[Event]) -> None:
    group, times = _timed(trace, group)
    args = _launch_args(group)
    trace.launches.add(
        thread=codes_of(trace.threads, [(e.pid, e.tid) for e in group]),
        name=codes_of(trace.names, [e.name for e in group]),
        **times,
        correlation=numbers([a.correlation for a in args]),
        size=numbers([a.size for a in args]),
    )


def _add_device(trace: Trace, group: list[Event], kind: int) -> None:
    group, times = _timed(trace, group)
    args = _device_args(group)
    both = list(zip(group, args, strict=True))
    devices = [e.pid if a.device is None else a.device for e, a in both]
    streams = [e.tid if a.stream is None else a.stream for e, a in both]
    trace.device.add(
        kind=[kind] * len(group),
        name=codes_of(trace.names, [e.name for e in group]),
        device=codes_of(trace.devices, devices),
        stream=codes_of(trace.streams, streams),
        grid=codes_of(trace.grids, [bytes(a.grid) for a in args]),
        collective=[_collective(trace, a) for a in args],
        **times,
        duration=numbers([e.dur for e in group]),
        correlation=numbers([a.correlation for a in args]),
        external_id=numbers([a.external_id for a in args]),
        bytes=numbers([a.bytes for a in args]),
    )


def _add_overheads(trace: Trace, group: list[Event]) -> None:
    group, times = _timed(trace, group)
    trace.overheads.add(name=codes_of(trace.names, [e.name for e in group]), **times)


def _add_ranges(trace: Trace, group: list[Event]) -> None:
    for event in group:
        try:
            counters = msgspec.json.decode(event.args, type=dict[str, object])
        except DECODE_ERRORS:
            trace.bad += 1
            continue
        trace.ranges.append((name_of(event.name), str(event.pid), counters))


def _add_plain(trace: Trace, group: list[Event]) -> None:
    """Events without a category that we know: names of processes, and traces of other tools."""
    named = [e for e in group if e.ph == "M"]
    for event, said in zip(named, _plain_args(named), strict=True):
        if event.name == "process_name":
            trace.process_names[str(event.pid)] = name_of(said.name)
        elif event.name == "thread_name":
            trace.thread_names[str(event.pid), str(event.tid)] = name_of(said.name)
    trace.unpaired += sum(1 for e in group if e.ph in ("B", "E"))
    group = _without_tasks(trace, group)
    if trace.frames.height or trace.device.height:
        return
    group, times = _timed(trace, group)
    if not group:
        return
    scopes = [(a.hlo_op, a.hlo_module, a.tf_op) for a in _plain_args(group)]
    trace.plain.add(
        thread=codes_of(trace.threads, [(e.pid, e.tid) for e in group]),
        name=codes_of(trace.names, [e.name for e in group]),
        scope=[trace.scopes[tuple(map(name_of, scope))] for scope in scopes],
        **times,
    )


# Tasks of an Ascend NPU that compute nothing, and those of its copy engines.
_NO_WORK = re.compile(r"(?i)wait|record|notify|event|profiling|dump|label|model|capture")
_COPY_TASK = re.compile(r"(?i)memcpy|dma")


def _without_tasks(trace: Trace, group: list[Event]) -> list[Event]:
    """The events that are no task of an Ascend NPU; its tasks and collectives are device work.

    `torch_npu` writes one NPU a file, and the collectives in a process of their own.
    """
    tasks = [b'"Task Type"' in bytes(e.args) or str(e.name).startswith("hcom_") for e in group]
    if not any(tasks):
        return group
    work = [replace(e, pid="NPU") for e, task in zip(group, tasks, strict=True) if task]
    kinds: dict[int, list[Event]] = {KERNEL: [], COPY: []}
    for event, said in zip(work, _plain_args(work), strict=True):
        if not _NO_WORK.search(name_of(said.task)):
            kinds[COPY if _COPY_TASK.search(name_of(said.task)) else KERNEL].append(event)
    for kind, chosen in kinds.items():
        _add_device(trace, chosen, kind)
    return [e for e, task in zip(group, tasks, strict=True) if not task]


_ADDING: dict[Hashable, Callable[[Trace, list[Event]], None]] = {
    **dict.fromkeys(ev.OPS, _add_frames),
    **dict.fromkeys(ev.LAUNCHES, _add_launches),
    **dict.fromkeys(ev.KERNELS, partial(_add_device, kind=KERNEL)),
    **dict.fromkeys(ev.COPIES, partial(_add_device, kind=COPY)),
    **dict.fromkeys(ev.MEMSETS, partial(_add_device, kind=MEMSET)),
    ev.ANNOTATION: partial(_add_frames, kind=ANNOTATION),
    ev.PYTHON: _add_modules,
    ev.OVERHEAD: _add_overheads,
    ev.RANGE: _add_ranges,
}
