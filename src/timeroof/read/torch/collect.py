"""Sort events by category and add them to the columns of a trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from functools import partial
from typing import TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from timeroof.read.idle import Floats
from timeroof.read.torch import events as ev, tables
from timeroof.read.torch.events import Event
from timeroof.read.torch.json_stream import DECODE_ERRORS

T = TypeVar("T")
# Longer than this (30 years, in microseconds) no event is and no clock reaches further.
_MAX_DURATION_US, _MAX_TIME_US = 1e15, 1e18


def collect(trace: tables.Trace, events: list[Event]) -> None:
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


def _timed(trace: tables.Trace, group: list[Event]) -> tuple[list[Event], dict[str, Floats]]:
    """The complete events of a group that have a possible time, with start and end."""
    group = [e for e in group if e.ph == "X"]
    start, duration = tables.numbers([e.ts for e in group]), tables.numbers([e.dur for e in group])
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


def _collective(trace: tables.Trace, args: ev.Message) -> int:
    if args.collective is None:
        return tables.NONE
    values = [getattr(args, name) for name in ev.Message.__struct_fields__]
    return trace.collectives[tuple(v if isinstance(v, int | float | str) else None for v in values)]


def _signature(trace: tables.Trace, args: ev.OpArgs) -> int:
    if not args.dims:
        return tables.NONE
    return trace.signatures[tuple(map(bytes, (args.dims, args.types, args.strides, args.values)))]


def _add_frames(trace: tables.Trace, group: list[Event], kind: int = tables.OP) -> None:
    """Ops with their arguments; annotations and modules have none of interest."""
    group, times = _timed(trace, group)
    args = _op_args(group) if kind == tables.OP else [ev.NO_OP_ARGS] * len(group)
    trace.frames.add(
        thread=tables.codes_of(trace.threads, [(e.pid, e.tid) for e in group]),
        kind=[kind] * len(group),
        name=tables.codes_of(trace.names, [e.name for e in group]),
        signature=[_signature(trace, a) for a in args],
        collective=[_collective(trace, a) for a in args],
        **times,
        external_id=tables.numbers([a.external_id for a in args]),
        record_id=tables.numbers([a.record_id for a in args]),
        sequence=tables.numbers([a.sequence for a in args]),
    )


def _add_modules(trace: tables.Trace, group: list[Event]) -> None:
    """Of a Python stack only the modules: the rest is many times more and says less."""
    modules = [e for e in group if type(e.name) is str and e.name.startswith(tables.MODULE_PREFIX)]
    if modules:
        _add_frames(trace, modules, tables.MODULE)


def _add_launches(trace: tables.Trace, group: list[Event]) -> None:
    group, times = _timed(trace, group)
    args = _launch_args(group)
    trace.launches.add(
        thread=tables.codes_of(trace.threads, [(e.pid, e.tid) for e in group]),
        name=tables.codes_of(trace.names, [e.name for e in group]),
        **times,
        correlation=tables.numbers([a.correlation for a in args]),
        size=tables.numbers([a.size for a in args]),
    )


def _add_device(trace: tables.Trace, group: list[Event], kind: int) -> None:
    group, times = _timed(trace, group)
    args = _device_args(group)
    both = list(zip(group, args, strict=True))
    devices = [e.pid if a.device is None else a.device for e, a in both]
    streams = [e.tid if a.stream is None else a.stream for e, a in both]
    trace.device.add(
        kind=[kind] * len(group),
        name=tables.codes_of(trace.names, [e.name for e in group]),
        device=tables.codes_of(trace.devices, devices),
        stream=tables.codes_of(trace.streams, streams),
        grid=tables.codes_of(trace.grids, [bytes(a.grid) for a in args]),
        collective=[_collective(trace, a) for a in args],
        **times,
        duration=tables.numbers([e.dur for e in group]),
        correlation=tables.numbers([a.correlation for a in args]),
        external_id=tables.numbers([a.external_id for a in args]),
        bytes=tables.numbers([a.bytes for a in args]),
    )


def _add_overheads(trace: tables.Trace, group: list[Event]) -> None:
    group, times = _timed(trace, group)
    trace.overheads.add(name=tables.codes_of(trace.names, [e.name for e in group]), **times)


def _add_ranges(trace: tables.Trace, group: list[Event]) -> None:
    for event in group:
        try:
            counters = msgspec.json.decode(event.args, type=dict[str, object])
        except DECODE_ERRORS:
            trace.bad += 1
            continue
        trace.ranges.append((tables.name_of(event.name), str(event.pid), counters))


def _add_plain(trace: tables.Trace, group: list[Event]) -> None:
    """Events without a category that we know: names of processes, and traces of other tools."""
    named = [e for e in group if e.ph == "M"]
    for event, said in zip(named, _plain_args(named), strict=True):
        if event.name == "process_name":
            trace.process_names[str(event.pid)] = tables.name_of(said.name)
        elif event.name == "thread_name":
            trace.thread_names[str(event.pid), str(event.tid)] = tables.name_of(said.name)
    trace.unpaired += sum(1 for e in group if e.ph in ("B", "E"))
    if trace.frames.height or trace.device.height:
        return
    group, times = _timed(trace, group)
    if not group:
        return
    scopes = [(a.hlo_op, a.hlo_module, a.tf_op) for a in _plain_args(group)]
    trace.plain.add(
        thread=tables.codes_of(trace.threads, [(e.pid, e.tid) for e in group]),
        name=tables.codes_of(trace.names, [e.name for e in group]),
        scope=[trace.scopes[tuple(map(tables.name_of, scope))] for scope in scopes],
        **times,
    )


_ADDING: dict[Hashable, Callable[[tables.Trace, list[Event]], None]] = {
    **dict.fromkeys(ev.OPS, _add_frames),
    **dict.fromkeys(ev.LAUNCHES, _add_launches),
    **dict.fromkeys(ev.KERNELS, partial(_add_device, kind=tables.KERNEL)),
    **dict.fromkeys(ev.COPIES, partial(_add_device, kind=tables.COPY)),
    **dict.fromkeys(ev.MEMSETS, partial(_add_device, kind=tables.MEMSET)),
    ev.ANNOTATION: partial(_add_frames, kind=tables.ANNOTATION),
    ev.PYTHON: _add_modules,
    ev.OVERHEAD: _add_overheads,
    ev.RANGE: _add_ranges,
}
