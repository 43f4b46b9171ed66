"""XLA's xplane.pb, as JAX and TensorFlow write it."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable

import polars as pl

from timeroof.core import wire
from timeroof.core.errors import InputError, Note
from timeroof.core.profile import Profile
from timeroof.read.events import Whole, fitting_device, profile_of
from timeroof.read.formats import ReadOptions, source_of
from timeroof.read.idle import host_spans, link_launches
from timeroof.read.open import Entry, Input
from timeroof.read.xla import space
from timeroof.read.xla.pieces import Piece, share_costs, table_of
from timeroof.read.xla.programs import (
    Key,
    Programs,
    key_of_event,
    key_of_name,
    op_of_event,
    thunks_of,
)


def _self_ps(events: list[space.Event]) -> list[int]:
    """Durations without those of the events inside: loops and calls contain their ops."""
    own = [e.duration_ps for e in events]
    order = sorted(range(len(events)), key=lambda i: (events[i].offset_ps, -own[i]))
    stack: list[tuple[int, int]] = []
    for i in order:
        start, end = events[i].offset_ps, events[i].offset_ps + events[i].duration_ps
        while stack and stack[-1][0] <= start:
            stack.pop()
        if stack and end <= stack[-1][0]:
            own[stack[-1][1]] -= events[i].duration_ps
        stack.append((end, i))
    return [max(value, 0) for value in own]


def launches(plane: space.Plane, base_ns: int) -> list[tuple[int, int, int, float, float, str]]:
    """Host calls that carry a correlation: process, correlation, thread, start, end, name."""
    found = []
    for line in plane.lines():
        start_ns = line.timestamp_ns - base_ns
        for event in line.events():
            correlation = event.stats.get("correlation_id")
            if isinstance(correlation, int) and 0 <= event.duration_ps < space.MAX_PS > abs(
                event.offset_ps
            ):
                start = start_ns + event.offset_ps / 1e3
                end = start + event.duration_ps / 1e3
                found.append((0, correlation, line.id % 2**62, start, end, event.name))
    return found


MAX_BYTES = 4 * 2**30
_PLANE = re.compile(r"^(?:/[\w-]+:[\w:#.-]+|Task Environment|/host:metadata|#Chip.*)")
_DEVICE = re.compile(r"^/device:(?!CPU)(\w+):(\d+)")
# Derived lines show the same time once more, by module, step or source.
_STREAM = re.compile(r"^Stream")
_OPS, _MODULES = "XLA Ops", "XLA Modules"


def sniff(found: Input) -> bool:
    """A protobuf whose first field is a plane with a name of XLA's."""
    return _starts_with_plane(found.only.head)


def read(found: Input, options: ReadOptions) -> Profile:
    """The profile of all devices in the file; of the host if there are none."""
    data = _bytes(found.only)
    options.progress("decoding", 0.2)
    try:
        return _profile(list(space.planes(data)), found)
    except wire.BrokenMessageError as error:
        raise InputError(error.what, where=found.name, advice="copy it again") from error


def _starts_with_plane(head: bytes) -> bool:
    if not head.startswith(b"\x0a"):
        return False
    try:
        size, at = wire.read_varint(head, 1, len(head))
        for number, value in wire.fields(head, (at, min(at + size, len(head)))):
            if number == 2:
                return bool(_PLANE.match(wire.text(head, value)))
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
            raise InputError(
                f"is larger than {MAX_BYTES // 2**30} GiB", entry.name, "record fewer steps"
            )
    return bytes(data)


def _profile(found: list[space.Plane], named: Input) -> Profile:
    devices = [plane for plane in found if _DEVICE.match(plane.name)]
    device, notes = device_of(devices)
    tpu = any(plane.name.startswith("/device:TPU") for plane in devices)
    programs = Programs(found, tpu=tpu)
    chosen = _device_lines(devices)
    host = [plane for plane in found if plane.name.startswith("/host:CPU")]
    lines = [line for line, _, _ in chosen] or [line for plane in host for line in plane.lines()]
    base_ns = min((line.timestamp_ns for line in lines), default=0)
    if chosen:
        pieces = _device_pieces(chosen, programs, base_ns)
    else:
        pieces = _host_pieces(lines, programs, base_ns)
        text = "No device is in the file: rows are XLA's ops on the host's threads."
        notes = [Note(text, "host-rows"), *notes]
    if not pieces:
        raise InputError(
            "has neither device events nor XLA ops of the host", named.name, _advice(lines)
        )
    events, recorded = table_of(pieces, device)
    calls = [c for plane in host for c in launches(plane, base_ns)]
    names = ("process", "correlation", "thread", "start_ns", "end_ns", "name")
    types = (pl.Int64, pl.Int64, pl.Int64, pl.Float64, pl.Float64, pl.String)
    table = pl.DataFrame(calls, schema=dict(zip(names, types, strict=True)), orient="row")
    events = events.with_columns(pl.lit(0, pl.Int64).alias("process"))
    events = link_launches(events, table).drop("launch_thread", "correlation", strict=False)
    notes += _program_notes(programs, pieces)
    whole = Whole(
        source_of("XLA", named), device, tuple(notes), host=host_spans(table), calls=recorded
    )
    return profile_of(events, whole)


# What TensorFlow's host threads show where no XLA is at work.
_PLAIN_TENSORFLOW = ("ExecutorState::", "EagerExecute", "TFE_Py_Execute", "KernelAndDevice")


def _advice(lines: list[space.Line]) -> str:
    """What to do about a file without work in it."""
    if any(e.name.startswith(_PLAIN_TENSORFLOW) for line in lines for e in line.events()):
        return (
            "TensorFlow ran on the CPU without XLA, and its trace has no sizes: use `timeroof run`,"
            " or tf.function(jit_compile=True)"
        )
    return "profile while the program runs on the device"


def _program_notes(programs: Programs, pieces: list[Piece]) -> list[Note]:
    """Where FLOPs and bytes come from, and what could not be read."""
    notes = []
    if programs:
        whole = sum(piece.duration_ns for piece in pieces)
        tied = sum(piece.duration_ns for piece in pieces if piece.linked is not None)
        text = (
            f"FLOPs and bytes come from the compiled programs (HLO) in the file, which"
            f" {tied / whole if whole else 0.0:.1%} of the time is tied to."
        )
        notes.append(Note(text, "hlo-work"))
    if programs.broken:
        text = f"{programs.broken} compiled programs in the file are damaged and left out."
        notes.append(Note(text, "broken-hlo", "warning"))
    return notes


def _device_lines(devices: list[space.Plane]) -> list[tuple[space.Line, str, bool]]:
    """The lines whose events are the work, with their device: streams, else XLA ops, which nest."""
    chosen: list[tuple[space.Line, str, bool]] = []
    for plane in devices:
        device = _DEVICE.match(plane.name)
        lines = list(plane.lines())
        streams = [line for line in lines if _STREAM.match(line.name)]
        nested = not streams
        streams = streams or [line for line in lines if line.name == _OPS]
        chosen += [(line, device.group(2) if device else "0", nested) for line in streams]
    return chosen


def _device_pieces(
    chosen: list[tuple[space.Line, str, bool]], programs: Programs, base_ns: int
) -> list[Piece]:
    pieces: list[Piece] = []
    keys: list[Key] = []
    for line, gpu, nested in chosen:
        start_ns = line.timestamp_ns - base_ns
        events = _possible(line)
        module_at = _modules(line) if nested else None
        for event, self_ps in zip(events, _self_ps(events), strict=True):
            start = start_ns + event.offset_ps / 1e3
            own = self_ps / 1e3 if nested else None
            op = op_of_event(event, by_name=nested)
            end = start + event.duration_ps / 1e3
            pieces.append(Piece(event, line, gpu, "kernel", start, end, op, self_ns=own))
            key = key_of_event(event)
            if key == Key(None, "") and module_at is not None:
                key = module_at(event.offset_ps)
            keys.append(key)
    named = [(key, piece.op) for key, piece in zip(keys, pieces, strict=True)]
    programs.choose((key, op) for key, op in named if op is not None)
    for key, piece in zip(keys, pieces, strict=True):
        if piece.op is not None:
            piece.linked = programs.find(key, piece.op, piece.event.name.removesuffix(".kd"))
    share_costs([piece for piece in pieces if piece.self_ns is None])
    return pieces


def _modules(line: space.Line) -> Callable[[int], Key]:
    """Which program ran when, by the line of modules beside a TPU's line of ops."""
    spans = sorted(
        (event.offset_ps + (other.timestamp_ns - line.timestamp_ns) * 1000, event.name)
        for other in line.plane.lines()
        if other.name == _MODULES
        for event in _possible(other)
    )
    starts = [start for start, _ in spans]

    def at(offset_ps: int) -> Key:
        place = bisect.bisect_right(starts, offset_ps) - 1
        return key_of_name(spans[place][1]) if place >= 0 else Key(None, "")

    return at


def _host_pieces(lines: list[space.Line], programs: Programs, base_ns: int) -> list[Piece]:
    """XLA's ops on the host's threads: with the ends of their work where the program is known."""
    if programs:
        return [
            Piece(
                thunk.event, thunk.line, thunk.device, "op", thunk.start_ps / 1e3 - base_ns,
                thunk.end_ps / 1e3 - base_ns, thunk.op, thunk.linked, is_whole=thunk.is_whole,
            )
            for thunk in thunks_of(lines, programs)
        ]  # fmt: skip
    pieces = []
    for line in lines:
        events = [event for event in _possible(line) if op_of_event(event) is not None]
        start_ns = line.timestamp_ns - base_ns
        for event, self_ps in zip(events, _self_ps(events), strict=True):
            start, op = start_ns + event.offset_ps / 1e3, op_of_event(event)
            end = start + event.duration_ps / 1e3
            pieces.append(Piece(event, line, "host", "op", start, end, op, self_ns=self_ps / 1e3))
    return pieces


def _possible(line: space.Line) -> list[space.Event]:
    """Events whose times can be true."""
    return [e for e in line.events() if 0 <= e.duration_ps < space.MAX_PS > abs(e.offset_ps)]


def device_of(planes: list[space.Plane]) -> tuple[str | None, list[Note]]:
    """The device's name as far as the planes tell it, and a note on how it is known."""
    # Parts of a device (a TPU's sparse cores) have planes that say nothing of it.
    names = {_named(plane) for plane in planes} - {None}
    if len(names) == 1:
        return names.pop(), []
    facts = {_facts(plane) for plane in planes} - {_NO_FACTS}
    return fitting_device(None, *facts.pop()) if len(facts) == 1 else (None, [])


def _named(plane: space.Plane) -> str | None:
    for key in ("device_name", "device_type_string", "device_type"):
        value = plane.stats.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None


_NO_FACTS = (None, None, None)


def _facts(plane: space.Plane) -> tuple[str | None, float | None, int | None]:
    """Architecture, memory and cores."""
    keys = ("compute_cap_major", "compute_cap_minor", "memory_size", "core_count")
    values = (plane.stats.get(key) for key in keys)
    major, minor, memory, cores = (v if isinstance(v, int) else None for v in values)
    vendor = str(plane.stats.get("device_vendor", "")).upper()
    if major is None or minor is None:
        return _NO_FACTS
    capability = f"gfx{major}{minor}" if "AMD" in vendor else f"{major}.{minor}"
    return capability, memory, cores
