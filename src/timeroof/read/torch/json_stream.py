"""Cut a trace of any size into lists of events, with memory for one piece of it.

JSON libraries want a whole document. A trace is an object whose ``traceEvents`` holds
nearly all of it, so the array is cut between two events and each piece is decoded alone.
The cut is found by looking for ``},{``; whether it really lay between two events is
decided by decoding: a piece that ends inside a string or a nested value never decodes.
Only then, and at the end of the array, the exact scanner is asked.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

import msgspec
import numpy as np

from timeroof.core.errors import DamagedError, InputError, Note
from timeroof.read.formats import Progress
from timeroof.read.open import Entry
from timeroof.read.text import encoding_of
from timeroof.read.torch.events import DECODE_ERRORS, Event

# Find the elements of a JSON array in text, aware of strings, without decoding them.
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_QUOTE, _OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = b'"{}[]'


class Scan(NamedTuple):
    """Where the whole objects of the array lie, where the rest begins, whether the array ended."""

    spans: list[tuple[int, int]]
    rest: int
    closed: bool


def scan_elements(text: bytes) -> Scan:
    """The objects in text that starts between two elements of an array (or members of an object).

    >>> scan_elements(b'{"a":"},{"}, {"b":[1]}]}tail')
    Scan(spans=[(0, 11), (13, 22)], rest=23, closed=True)
    >>> scan_elements(b'{"a":1},{"b":')
    Scan(spans=[(0, 7)], rest=7, closed=False)
    """
    places, depth, steps, letters = _brackets(text)
    ends = np.flatnonzero(depth == -1)
    closed = bool(len(ends))
    if closed:
        stop = int(ends[0])
        rest = int(places[stop]) + 1
        places, depth, steps, letters = (v[:stop] for v in (places, depth, steps, letters))
    lasts = places[(steps < 0) & (depth == 0)] + 1
    firsts = places[(steps > 0) & (depth == 1)][: len(lasts)]
    braces = letters[(steps > 0) & (depth == 1)][: len(lasts)] == _OPEN
    if not closed:
        rest = int(lasts[-1]) if len(lasts) else 0
    spans = list(zip(firsts[braces].tolist(), lasts[braces].tolist(), strict=True))
    return Scan(spans, rest, closed)


def _brackets(text: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Places of brackets outside strings, the depth after each, +1 or -1, and the bracket."""
    clean = _ESCAPE.sub(b"__", text) if b"\\" in text else text
    letters = np.frombuffer(clean, dtype=np.uint8)
    outside = ~np.logical_xor.accumulate(letters == _QUOTE)
    opens = ((letters == _OPEN) | (letters == _OPEN_LIST)) & outside
    closes = ((letters == _CLOSE) | (letters == _CLOSE_LIST)) & outside
    places = np.flatnonzero(opens | closes)
    steps = np.where(opens[places], 1, -1).astype(np.int32)
    return places, np.cumsum(steps, dtype=np.int32), steps, letters[places]


# Decode events out of damaged text: what is whole is kept, what is not is counted.
# What json.dumps and C++ streams write for numbers that JSON does not have.
_NO_NUMBER = re.compile(rb"([:,\[]\s*)[-+]?(?:NaN|nan|Infinity|inf)\b(?:\([a-z0-9]*\))?")
_ENDING = re.compile(rb"\}\s*\]")
BETWEEN = re.compile(rb"\}\s*,\s*\{")
# A value of an event may hold ``},{``: so many pieces are put together again.
_MAX_JOINED = 8

decode_events = msgspec.json.Decoder(list[Event]).decode
_decode_event = msgspec.json.Decoder(Event).decode


def repaired(text: bytes) -> bytes:
    """Text with null for NaN and Infinity, and with its wrong characters replaced.

    >>> repaired(b'{"a": NaN, "b": [-inf, 1]}')
    b'{"a": null, "b": [null, 1]}'
    """
    text = _NO_NUMBER.sub(rb"\1null", text)
    return text.decode("utf-8", "replace").encode()


def salvage(text: bytes) -> tuple[list[Event], int]:
    """The events of text that can be decoded one by one, and how many pieces could not."""
    if not text:
        return [], 0
    pieces = BETWEEN.sub(b"}\x00{", text).split(b"\x00")
    events: list[Event] = []
    lost = place = 0
    while place < len(pieces):
        event, used = _first_event(pieces, place)
        if event is None:
            lost += 1
        else:
            events.append(event)
        place += used
    return events, lost


def _first_event(pieces: list[bytes], place: int) -> tuple[Event | None, int]:
    joined = b""
    for used in range(1, min(_MAX_JOINED, len(pieces) - place) + 1):
        joined = joined + b"," + pieces[place + used - 1] if joined else pieces[place]
        try:
            return _decode_event(joined.strip(b", \r\n\t")), used
        except DECODE_ERRORS:
            continue
    return None, 1


def last_event(text: bytes) -> tuple[Event | None, int | None]:
    """The event before the array's end and where the text after it begins; None: cut off.

    >>> last_event(b'{"ph": "X"}], "traceName": "a"}')[1], last_event(b'{"ph": "X')[1]
    (12, None)
    """
    if text.lstrip(b", \r\n\t")[:1] == b"]":
        return None, text.index(b"]") + 1
    for end in islice(_ENDING.finditer(text), _MAX_JOINED):
        try:
            return _decode_event(text[: end.start() + 1].strip(b", \r\n\t")), end.end()
        except DECODE_ERRORS:
            continue
    return None, None


# A piece and its events stay in a processor's caches.
PIECE_BYTES = 2**20
# What is larger than this without an end is no event but damage.
MAX_EVENT_BYTES = 32 * 2**20
MAX_HEADER_BYTES = 64 * 2**20

_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_SEPARATORS = b", \r\n\t"


@dataclass
class EventStream:
    """The events of a trace in lists, and afterwards what stood around them."""

    pieces: Iterator[bytes]
    name: str
    top: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    damaged: int = 0
    _text: bytes = b""
    _more: bool = True

    def __iter__(self) -> Iterator[list[Event]]:
        """Lists of events, about one piece of text each."""
        is_list = self._find_array()
        closed = False
        while not closed and (self._more or self._text):
            self._fill()
            events = self._cut() if self._more else None
            if events is None:
                events, closed = self._scan()
            if events:
                yield events
        self._finish(is_list, closed)

    def _fill(self) -> None:
        """Add a piece to the text, or as much again where a piece brought no event to its end."""
        size = max(PIECE_BYTES, len(self._text))
        parts, added = [self._text], 0
        while added < size and self._more:
            piece = next(self.pieces, None)
            if piece is None:
                self._more = False
            else:
                parts.append(piece)
                added += len(piece)
        self._text = b"".join(parts)

    def _find_array(self) -> bool:
        """Go to the first event; what stood before it becomes `top`. Whether it is a bare list."""
        while True:
            self._fill()
            text = self._text.lstrip()
            if text[:1] == b"[":
                self._text = text[1:]
                return True
            if text[:1] != b"{":
                raise InputError("is no JSON", where=self.name, advice="record the trace again")
            found = _ARRAY.search(text)
            if found:
                self.top.update(_members(text[1 : found.start()]))
                self._text = text[found.end() :].lstrip(_SEPARATORS)
                return False
            if not self._more or len(text) > MAX_HEADER_BYTES:
                advice = "torch.profiler's export_chrome_trace writes them"
                raise InputError("has no traceEvents", self.name, advice)

    def _cut(self) -> list[Event] | None:
        """The events before the last cut in sight; None where that is not so easy."""
        between = _last_between(self._text)
        if between is None:
            return None
        piece = self._text[: between.start() + 1]
        events = _decoded(b"[%b]" % piece)
        if events is not None:
            self._text = self._text[between.end() - 1 :]
        return events

    def _scan(self) -> tuple[list[Event], bool]:
        """The whole events of the text, found by scanning it; and whether the array ended."""
        found = scan_elements(self._text)
        events = _decoded(b"[%b]" % b",".join(self._text[a:b] for a, b in found.spans))
        if events is None or not (found.spans or found.closed):
            return self._salvage(found)
        self._text = self._text[found.rest :].lstrip(_SEPARATORS)
        return events, found.closed

    def _salvage(self, found: Scan) -> tuple[list[Event], bool]:
        """Events out of text that makes no sense as a whole; or wait for more where it may yet."""
        if not found.spans and self._more and len(self._text) < MAX_EVENT_BYTES:
            return [], False
        last = _last_between(self._text)
        body = self._text[: last.start() + 1] if last else b""
        self._text = self._text[last.end() - 1 :] if last else self._text
        events, lost = salvage(body)
        self.damaged += lost
        if self._more:
            if not last:
                what = f"has no whole event within {MAX_EVENT_BYTES} bytes"
                raise InputError(what, self.name, "it is damaged or no trace")
            return events, False
        event, rest = last_event(self._text)
        self._text = b"" if rest is None else self._text[rest:]
        return [*events, event] if event is not None else events, rest is not None

    def _finish(self, is_list: bool, closed: bool) -> None:
        """Read what stands after the events, and say what is not as it should be."""
        while self._more and len(self._text) < MAX_HEADER_BYTES:
            self._fill()
        rest = self._text
        if closed and not is_list:
            found = scan_elements(rest)
            self.top.update(_members(rest[: found.rest - 1] if found.closed else rest))
            rest = rest[found.rest :] if found.closed else b""
            closed = found.closed
        if not closed and not is_list:
            text = "The trace is cut off: what was whole before the cut was read."
            self.notes.append(Note(text, "cut-off", "warning"))
        elif rest.strip(_SEPARATORS + b"]}\x00"):
            text = "More text follows the end of the trace and is left out."
            self.notes.append(Note(text, "left-out", "warning"))
        if self.damaged:
            text = f"{self.damaged} damaged events are left out."
            self.notes.append(Note(text, "damaged", "warning"))


def _decoded(text: bytes) -> list[Event] | None:
    """A list of events, mended where it must be; None where that does not help."""
    for mended in (bytes, repaired):
        try:
            return decode_events(mended(text))
        except DECODE_ERRORS:
            continue
    return None


def _last_between(text: bytes) -> re.Match[bytes] | None:
    """The last place between two objects; the search grows backwards from the end."""
    window = 1 << 16
    while True:
        start = max(0, len(text) - window)
        found = None
        for match in BETWEEN.finditer(text, start):
            found = match
        if found is not None or start == 0:
            return found
        window *= 16


def _members(text: bytes) -> dict[str, object]:
    """The members of an object, as far as they make sense."""
    try:
        whole = b"{%b}" % repaired(text.strip(_SEPARATORS))
        return msgspec.json.decode(whole, type=dict[str, object])
    except DECODE_ERRORS:
        return {}


# The text of a trace as UTF-8, whatever it was written in, in pieces.
# Small, because a damaged archive loses the piece in which the damage is.
_PIECE_BYTES = 64 * 1024
_SAY_EVERY_BYTES = 32 * 2**20


@dataclass
class Text:
    """The pieces of an entry; damage after the first piece ends them and becomes a note."""

    entry: Entry
    progress: Progress
    notes: list[str] = field(default_factory=list)
    read_bytes: int = 0

    def pieces(self) -> Iterator[bytes]:
        """The text as UTF-8."""
        pieces = self._raw()
        first = next(pieces, b"")
        name, skip = encoding_of(first)
        if name == "utf-8":
            yield first[skip:]
            yield from pieces
            return
        decoder = codecs.getincrementaldecoder(name)("replace")
        for piece in chain([first[skip:]], pieces):
            yield decoder.decode(piece).encode("utf-8", "replace")

    def _raw(self) -> Iterator[bytes]:
        try:
            for piece in self.entry.chunks(_PIECE_BYTES):
                self._say(len(piece))
                yield piece
        except DamagedError as error:
            # Damage at the end is lived with.
            if not self.read_bytes:
                raise
            text = f"The file {error.what}: what could be unpacked was read."
            self.notes.append(Note(text, "damaged", "warning"))

    def _say(self, added: int) -> None:
        before = self.read_bytes // _SAY_EVERY_BYTES
        self.read_bytes += added
        if self.read_bytes // _SAY_EVERY_BYTES != before:
            size = self.entry.size_bytes
            share = min(self.read_bytes / size, 1.0) if size else 0.0
            self.progress(f"reading events, {self.read_bytes >> 20} MiB", 0.9 * share)
