"""Cut a trace of any size into lists of events, with memory for one piece of it.

JSON libraries want a whole document. A trace is an object whose ``traceEvents`` holds
nearly all of it, so the array is cut between two events and each piece is decoded alone.
The cut is found by looking for ``},{``; whether it really lay between two events is
decided by decoding: a piece that ends inside a string or a nested value never decodes.
Only then, and at the end of the array, the exact scanner is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from timeroof.core.errors import InputError
from timeroof.read.torch.events import Event
from timeroof.read.torch.repairing import (
    BETWEEN,
    DECODE_ERRORS,
    decode_events,
    last_event,
    repaired,
    salvage,
)
from timeroof.read.torch.scanning import Scan, scan_elements

PIECE_BYTES = 8 * 2**20
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
    top: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    damaged: int = 0
    _text: bytes = b""
    _more: bool = True

    def __iter__(self) -> Iterator[list[Event]]:
        """Lists of events, about one piece of text each."""
        is_list = self._find_array()
        closed = False
        while not closed and (self._more or self._text):
            self._fill(PIECE_BYTES)
            events = self._cut() if self._more else None
            if events is None:
                events, closed = self._scan()
            if events:
                yield events
        self._finish(is_list, closed)

    def _fill(self, size: int) -> None:
        """Add at least `size` bytes to the text where there are so many."""
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
            self._fill(PIECE_BYTES)
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
                raise InputError(
                    "has no traceEvents",
                    where=self.name,
                    advice="torch.profiler's export_chrome_trace writes them",
                )

    def _cut(self) -> list[Event] | None:
        """The events before the last cut in sight; None where that is not so easy."""
        between = _last_between(self._text)
        if between is None:
            return None
        piece = self._text[: between.start() + 1]
        for mended in (bytes, repaired):
            try:
                events = decode_events(b"[%b]" % mended(piece))
            except DECODE_ERRORS:
                continue
            self._text = self._text[between.end() - 1 :]
            return events
        return None

    def _scan(self) -> tuple[list[Event], bool]:
        """The whole events of the text, found by scanning it; and whether the array ended."""
        found = scan_elements(self._text)
        events = self._decode_spans(found)
        if events is None or not (found.spans or found.closed):
            return self._salvage(found)
        self._text = self._text[found.rest :].lstrip(_SEPARATORS)
        return events, found.closed

    def _decode_spans(self, found: Scan) -> list[Event] | None:
        text = b"[%b]" % b",".join(self._text[a:b] for a, b in found.spans)
        for mended in (bytes, repaired):
            try:
                return decode_events(mended(text))
            except DECODE_ERRORS:
                continue
        return None

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
                raise InputError(
                    f"has no whole event within {MAX_EVENT_BYTES} bytes",
                    where=self.name,
                    advice="it is damaged or no trace",
                )
            return events, False
        event, rest = last_event(self._text)
        self._text = b"" if rest is None else self._text[rest:]
        return [*events, event] if event is not None else events, rest is not None

    def _finish(self, is_list: bool, closed: bool) -> None:
        """Read what stands after the events, and say what is not as it should be."""
        while self._more and len(self._text) < MAX_HEADER_BYTES:
            self._fill(PIECE_BYTES)
        rest = self._text
        if closed and not is_list:
            found = scan_elements(rest)
            self.top.update(_members(rest[: found.rest - 1] if found.closed else rest))
            rest = rest[found.rest :] if found.closed else b""
            closed = found.closed
        if not closed and not is_list:
            self._say_cut_off()
        elif rest.strip(_SEPARATORS + b"]}\x00"):
            self.notes.append("more text follows the end of the trace and was left out")
        if self.damaged:
            self.notes.append(f"{self.damaged} damaged events were left out")

    def _say_cut_off(self) -> None:
        note = "the trace is cut off: what was whole before the cut was read"
        if note not in self.notes:
            self.notes.append(note)


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


def _members(text: bytes) -> dict[str, Any]:
    """The members of an object, as far as they make sense."""
    try:
        return msgspec.json.decode(b"{%b}" % repaired(text.strip(_SEPARATORS)), type=dict[str, Any])
    except DECODE_ERRORS:
        return {}
