"""XSpace: planes (devices and hosts) with lines (streams, threads) of events with statistics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from timeroof.core.wire import Span, double, fields, signed, text

Value = int | float | str | bytes
# A duration beyond a year or a time beyond int64 is no measurement.
MAX_PS = 2**62


@dataclass
class Plane:
    """A device or a host; its lines are decoded when asked for."""

    name: str = ""
    stats: dict[str, Value] = field(default_factory=dict)
    data: bytes = b""
    line_spans: list[Span] = field(default_factory=list)
    event_names: dict[int, str] = field(default_factory=dict)
    # Where an event is shown under another name than its own: its own.
    full_names: dict[int, str] = field(default_factory=dict)
    event_stats: dict[int, dict[str, Value]] = field(default_factory=dict)
    stat_names: dict[int, str] = field(default_factory=dict)

    def lines(self) -> Iterator[Line]:
        """The plane's streams or threads."""
        for span in self.line_spans:
            yield _line(self, span)


@dataclass
class Line:
    """A stream or a thread."""

    plane: Plane
    name: str = ""
    id: int = 0
    timestamp_ns: int = 0
    event_spans: list[Span] = field(default_factory=list)

    def events(self) -> Iterator[Event]:
        """What happened on the line."""
        for span in self.event_spans:
            yield _event(self.plane, span)


@dataclass(slots=True)
class Event:
    """One event; its offset counts from its line's timestamp."""

    name: str = ""
    offset_ps: int = 0
    duration_ps: int = 0
    stats: dict[str, Value] = field(default_factory=dict)
    # TensorFlow shows "MatMul" and keeps "layer/MatMul:MatMul".
    full_name: str = ""


def planes(data: bytes) -> Iterator[Plane]:
    """The planes of a file."""
    for number, value in fields(data, (0, len(data))):
        if number == 1 and isinstance(value, tuple):
            yield _plane(data, value)


def _plane(data: bytes, span: Span) -> Plane:
    plane = Plane(data=data)
    own_stats: list[Span] = []
    events: list[Span] = []
    for number, value in fields(data, span):
        if number == 2:
            plane.name = text(data, value)
        elif not isinstance(value, tuple):
            continue
        elif number == 3:
            plane.line_spans.append(value)
        elif number == 4:
            events.append(value)
        elif number == 5:
            key, message = _entry(data, value)
            plane.stat_names[key] = _shown_name(data, message)
        elif number == 6:
            own_stats.append(value)
    plane.stats = _stats(plane, own_stats)
    for entry in events:
        key, message = _entry(data, entry)
        full, shown = _names(data, message)
        plane.event_names[key] = shown or full
        plane.full_names[key] = full
        of_event = [v for n, v in fields(data, message) if n == 5 and isinstance(v, tuple)]
        if of_event:
            plane.event_stats[key] = _stats(plane, of_event)
    return plane


def _entry(data: bytes, span: Span) -> tuple[int, Span]:
    """Key and value of a map's entry."""
    key, message = 0, (span[1], span[1])
    for number, value in fields(data, span):
        if number == 1:
            key = signed(value)
        elif number == 2 and isinstance(value, tuple):
            message = value
    return key, message


def _names(data: bytes, span: Span) -> tuple[str, str]:
    """The name of a metadata message, and the name that is shown, if it has one."""
    name = shown = ""
    for number, value in fields(data, span):
        if number == 2:
            name = text(data, value)
        elif number == 4:
            shown = text(data, value)
    return name, shown


def _shown_name(data: bytes, span: Span) -> str:
    name, shown = _names(data, span)
    return shown or name


def _line(plane: Plane, span: Span) -> Line:
    line = Line(plane)
    for number, value in fields(plane.data, span):
        if number == 1:
            line.id = signed(value)
        elif number in (2, 11):
            line.name = text(plane.data, value) or line.name
        elif number == 3:
            line.timestamp_ns = signed(value)
        elif number == 4 and isinstance(value, tuple):
            line.event_spans.append(value)
    return line


def _event(plane: Plane, span: Span) -> Event:
    event = Event()
    stats: list[Span] = []
    for number, value in fields(plane.data, span):
        if number == 1:
            key = signed(value)
            event.name = plane.event_names.get(key, "")
            event.full_name = plane.full_names.get(key, "")
            event.stats = plane.event_stats.get(key, {})
        elif number == 2:
            event.offset_ps = signed(value)
        elif number == 3:
            event.duration_ps = signed(value)
        elif number == 4 and isinstance(value, tuple):
            stats.append(value)
    if stats:
        event.stats = {**event.stats, **_stats(plane, stats)}
    return event


def _stats(plane: Plane, spans: list[Span]) -> dict[str, Value]:
    """Statistics by name; a reference points to another name."""
    found: dict[str, Value] = {}
    for span in spans:
        name = ""
        value: Value | None = None
        for number, raw in fields(plane.data, span):
            if number == 1:
                name = plane.stat_names.get(signed(raw), "")
            else:
                told = _value(plane, number, raw)
                value = value if told is None else told
        if name and value is not None:
            found[name] = value
    return found


def _value(plane: Plane, number: int, raw: int | Span) -> Value | None:
    """A statistic's value by the field that holds it."""
    data = plane.data
    found: Value | None = None
    if number == 2:
        found = double(data, raw)
    elif number == 3 and isinstance(raw, int):
        found = raw
    elif number == 4:
        found = signed(raw)
    elif number == 5:
        found = text(data, raw)
    elif number == 6 and isinstance(raw, tuple):
        found = data[raw[0] : raw[1]]
    elif number == 7:
        found = plane.stat_names.get(signed(raw), "")
    return found
