"""XLA's xplane.pb, as JAX and TensorFlow write it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.notes import Note
from timeroof.core.profile import Profile
from timeroof.read.events import Whole, fitting_device, kernel_kind, profile_of
from timeroof.read.formats import ReadOptions, source_of
from timeroof.read.idle import host_spans, link_launches
from timeroof.read.open import Entry, Input
from timeroof.read.xla import space


# Which device an xplane is of. The file holds its properties, seldom its name.
def device_of(planes: list[space.Plane]) -> tuple[str | None, list[Note]]:
    """The device's name as far as the planes tell it, and a note on how it is known."""
    names = {_named(plane) for plane in planes}
    if len(names) == 1 and (name := names.pop()):
        return name, []
    facts = {_facts(plane) for plane in planes}
    return fitting_device(None, *facts.pop()) if len(facts) == 1 else (None, [])


def _named(plane: space.Plane) -> str | None:
    for key in ("device_name", "device_type_string", "device_type"):
        value = plane.stats.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None


def _facts(plane: space.Plane) -> tuple[str | None, float | None, int | None]:
    """Architecture, memory and cores."""
    keys = ("compute_cap_major", "compute_cap_minor", "memory_size", "core_count")
    values = (plane.stats.get(key) for key in keys)
    major, minor, memory, cores = (v if isinstance(v, int) else None for v in values)
    vendor = str(plane.stats.get("device_vendor", "")).upper()
    if major is None or minor is None:
        return None, None, None
    capability = f"gfx{major}{minor}" if "AMD" in vendor else f"{major}.{minor}"
    return capability, memory, cores


# Events of an XSpace as the table that every trace ends in.
# A duration beyond a year or a time beyond int64 is no measurement.
_MAX_PS = 2**62
_GRID = re.compile(r"\b(grid|block):([\d,]+)")
_SIZE = re.compile(r"\bsize:(\d+)")
_COPY = re.compile(r"(?i)^mem(?:cpy|set)|^copy-?(?:start|done)?$")
_SCHEMA = {
    "kind": pl.String, "name": pl.String,
    "start_ns": pl.Float64, "end_ns": pl.Float64, "self_ns": pl.Float64,
    "gpu": pl.String, "stream": pl.String, "correlation": pl.Int64,
    "op": pl.String, "module": pl.String, "phase": pl.String,
    "link/pcie": pl.Float64, "byte/dram": pl.Float64,
    "label.grid": pl.String, "label.block": pl.String,
    "label.tf_op": pl.String, "label.hlo_category": pl.String,
}  # fmt: skip
# A cell of such a row.
Cell = str | float | int | None


def table_of(lines: list[tuple[space.Line, str, str]], base_ns: int) -> pl.DataFrame:
    """The events of lines, each with the device and the kind of its rows."""
    rows = [row for line, gpu, kind in lines for row in _rows(line, gpu, kind, base_ns)]
    table = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    kind = pl.when(pl.col("kind") == "kernel").then(kernel_kind()).otherwise(pl.col("kind"))
    empty = [c for c in ("link/pcie", "byte/dram") if table[c].null_count() == table.height]
    return table.with_columns(kind.alias("kind")).drop(empty)


def _rows(line: space.Line, gpu: str, kind: str, base_ns: int) -> Iterator[tuple[Cell, ...]]:
    start_ns = line.timestamp_ns - base_ns
    events = [e for e in line.events() if 0 <= e.duration_ps < _MAX_PS > abs(e.offset_ps)]
    if kind == "op":
        events = [e for e in events if "hlo_op" in e.stats]
    for event, self_ps in zip(events, _self_ps(events), strict=True):
        start = start_ns + event.offset_ps / 1e3
        yield _row(event, start, self_ps / 1e3, gpu, line, kind)


def _row(
    event: space.Event, start: float, self_ns: float, gpu: str, line: space.Line, kind: str
) -> tuple[Cell, ...]:
    stats = event.stats
    tf_op = _known(stats.get("tf_op"))
    is_copy = kind == "kernel" and bool(_COPY.match(event.name))
    link, dram = _moved(event) if is_copy else (None, None)
    sizes = dict(_GRID.findall(str(stats.get("kernel_details", ""))))
    memset = is_copy and "set" in event.name.lower()
    return (
        "memset" if memset else "copy" if is_copy else kind,
        (event.name or "unnamed").removesuffix(".kd"),
        start,
        start + event.duration_ps / 1e3,
        self_ns,
        gpu,
        line.name or str(line.id),
        _integer(stats.get("correlation_id")),
        _known(stats.get("hlo_op")),
        _known(stats.get("hlo_module")),
        _phase(tf_op),
        link,
        dram,
        *(sizes[w].replace(",", "x") if w in sizes else None for w in ("grid", "block")),
        tf_op,
        _known(stats.get("hlo_category")),
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


def _moved(event: space.Event) -> tuple[float | None, float | None]:
    """Bytes over PCI Express and in device memory of a copy or memset."""
    found = _SIZE.search(str(event.stats.get("memcpy_details", event.stats.get("memset_details"))))
    size = float(found.group(1)) if found else None
    if not size:
        return None, None
    name = event.name.lower()
    over = "h2d" in name or "d2h" in name or "htod" in name or "dtoh" in name
    inside = "d2d" in name or "dtod" in name
    return (size if over else 0.0), (2 * size if inside else size)


def launches(plane: space.Plane, base_ns: int) -> list[tuple[int, int, int, float, float, str]]:
    """Host calls that carry a correlation: process, correlation, thread, start, end, name."""
    found = []
    for line in plane.lines():
        start_ns = line.timestamp_ns - base_ns
        for event in line.events():
            correlation = _integer(event.stats.get("correlation_id"))
            if correlation is not None and 0 <= event.duration_ps < _MAX_PS > abs(event.offset_ps):
                start = start_ns + event.offset_ps / 1e3
                end = start + event.duration_ps / 1e3
                found.append((0, correlation, line.id % 2**62, start, end, event.name))
    return found


def _phase(tf_op: str | None) -> str | None:
    """JAX names what autodiff made: a transpose is the backward pass."""
    if tf_op is None:
        return None
    return "backward" if "transpose(" in tf_op else "forward" if "jvp(" in tf_op else None


def _known(value: object) -> str | None:
    text = str(value).strip() if value is not None else ""
    return text if text and text != "XlaModule:" else None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and abs(value) < 2**62 else None


MAX_BYTES = 4 * 2**30
_PLANE = re.compile(r"^(?:/[\w-]+:[\w:#.-]+|Task Environment|/host:metadata|#Chip.*)")
_DEVICE = re.compile(r"^/device:(?!CPU)(\w+):(\d+)")
# Derived lines show the same time once more, by module, step or source.
_STREAM = re.compile(r"^Stream")
_OPS = "XLA Ops"


def sniff(found: Input) -> bool:
    """A protobuf whose first field is a plane with a name of XLA's."""
    return _starts_with_plane(found.only.head)


def read(found: Input, options: ReadOptions) -> Profile:
    """The profile of all devices in the file; of the host if there are none."""
    data = _bytes(found.only)
    options.progress("decoding", 0.2)
    try:
        return _profile(list(space.planes(data)), found)
    except space.BrokenMessageError as error:
        raise InputError(error.what, where=found.name, advice="copy it again") from error


def _starts_with_plane(head: bytes) -> bool:
    if not head.startswith(b"\x0a"):
        return False
    try:
        size, at = space.read_varint(head, 1, len(head))
        for number, value in space.fields(head, (at, min(at + size, len(head)))):
            if number == 2:
                return bool(_PLANE.match(space.text(head, value)))
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


def _profile(found: list[space.Plane], named: Input) -> Profile:
    lines, notes = _chosen(found)
    if not lines:
        advice = "profile while the program runs on the device"
        raise InputError("has neither device events nor XLA ops of the host", named.name, advice)
    base_ns = min(line.timestamp_ns for line, _, _ in lines)
    events = table_of(lines, base_ns)
    calls = [c for p in found if p.name.startswith("/host:CPU") for c in launches(p, base_ns)]
    names = ("process", "correlation", "thread", "start_ns", "end_ns", "name")
    types = (pl.Int64, pl.Int64, pl.Int64, pl.Float64, pl.Float64, pl.String)
    table = pl.DataFrame(calls, schema=dict(zip(names, types, strict=True)), orient="row")
    events = events.with_columns(pl.lit(0, pl.Int64).alias("process"))
    events = link_launches(events, table).drop("launch_thread", "correlation", strict=False)
    device, inferred = device_of([p for p in found if _DEVICE.match(p.name)])
    whole = Whole(source_of("XLA", named), device, (*notes, *inferred), host=host_spans(table))
    return profile_of(events, whole)


def _chosen(found: list[space.Plane]) -> tuple[list[tuple[space.Line, str, str]], list[Note]]:
    """The lines whose events are the work: streams, else XLA ops, else ops on the host."""
    chosen: list[tuple[space.Line, str, str]] = []
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
    text = "No device is in the file: rows are XLA's ops on the host's threads."
    return chosen, [Note(text, "host-rows")]
