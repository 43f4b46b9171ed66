"""XLA's profile (``*.xplane.pb`` of JAX and TensorFlow): kernels with their HLO op and module."""

from __future__ import annotations

import re

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile, Source, SourceFile
from timeroof.read.database import table_errors
from timeroof.read.device_events import Whole, profile_of
from timeroof.read.format import ReadOptions
from timeroof.read.idle import link_launches
from timeroof.read.opening import Entry, Input, short_name
from timeroof.read.xla.xplane.devices import device_of
from timeroof.read.xla.xplane.events import launches, table_of
from timeroof.read.xla.xplane.space import Line, Plane, planes
from timeroof.read.xla.xplane.wire import BrokenMessageError, fields, read_varint, text

MAX_BYTES = 4 * 2**30
_PLANE = re.compile(r"^(?:/[\w-]+:[\w:#.-]+|Task Environment|/host:metadata|#Chip.*)")
_DEVICE = re.compile(r"^/device:(?!CPU)(\w+):(\d+)")
# Derived lines show the same time once more, by module, step or source.
_STREAM = re.compile(r"^Stream")
_OPS = "XLA Ops"


class XPlane:
    """XLA's xplane."""

    name = "xplane"
    title = "XLA xplane.pb (JAX, TensorFlow)"

    def sniff(self, found: Input) -> bool:
        """A protobuf whose first field is a plane with a name of XLA's."""
        return len(found.entries) == 1 and _starts_with_plane(found.only.head)

    def read(self, found: Input, options: ReadOptions) -> Profile:
        """The profile of all devices in the file; of the host if there are none."""
        entry = found.only
        data = _bytes(entry)
        options.progress("decoding", 0.2)
        try:
            with table_errors(entry.name, "XSpace"):
                return _profile(list(planes(data)), entry)
        except BrokenMessageError as error:
            raise InputError(error.what, where=entry.name, advice="copy it again") from error


def _starts_with_plane(head: bytes) -> bool:
    if not head.startswith(b"\x0a"):
        return False
    try:
        size, at = read_varint(head, 1, len(head))
        for number, value in fields(head, (at, min(at + size, len(head)))):
            if number == 2:
                return bool(_PLANE.match(text(head, value)))
            if number > 2:
                return False
    except InputError:
        return False
    return False


def _bytes(entry: Entry) -> bytes:
    data = bytearray()
    for chunk in entry.chunks():
        data += chunk
        if len(data) > MAX_BYTES:
            raise InputError(f"is larger than {MAX_BYTES // 2**30} GiB", where=entry.name)
    return bytes(data)


def _profile(found: list[Plane], entry: Entry) -> Profile:
    lines, notes = _chosen(found)
    if not lines:
        raise InputError(
            "has neither device events nor XLA ops of the host",
            where=entry.name,
            advice="profile while the program runs on the device",
        )
    base_ns = min(line.timestamp_ns for line, _, _ in lines)
    events = table_of(lines, base_ns)
    calls = [c for p in found if p.name.startswith("/host:CPU") for c in launches(p, base_ns)]
    names = ("process", "correlation", "thread", "start_ns", "end_ns", "name")
    types = (pl.Int64, pl.Int64, pl.Int64, pl.Float64, pl.Float64, pl.String)
    table = pl.DataFrame(calls, schema=dict(zip(names, types, strict=True)), orient="row")
    events = events.with_columns(pl.lit(0, pl.Int64).alias("process"))
    events = link_launches(events, table).drop(
        "launch_thread", "process", "correlation", strict=False
    )
    device, device_notes = device_of([p for p in found if _DEVICE.match(p.name)])
    source = Source(tool="XLA", files=[SourceFile(name=short_name(entry.name))])
    notes += [*device_notes, "no counters are in the file: FLOPs and bytes of kernels are unknown"]
    return profile_of(events, Whole(source, device, tuple(notes)))


def _chosen(found: list[Plane]) -> tuple[list[tuple[Line, str, str]], list[str]]:
    """The lines whose events are the work: streams, else XLA ops, else ops on the host."""
    chosen: list[tuple[Line, str, str]] = []
    for plane in found:
        device = _DEVICE.match(plane.name)
        if device is None:
            continue
        lines = list(plane.lines())
        streams = [line for line in lines if _STREAM.match(line.name)]
        streams = streams or [line for line in lines if line.name == _OPS]
        chosen += [(line, device.group(2), "kernel") for line in streams]
    if chosen:
        return chosen, []
    host = [p for p in found if p.name.startswith("/host:CPU")]
    for line in (line for p in host for line in p.lines()):
        if any("hlo_op" in event.stats for event in line.events()):
            chosen.append((line, "host", "op"))
    return chosen, ["no device in the file: rows are XLA's ops on the host's threads"]


FORMAT = XPlane()
