"""Decode events out of damaged text: what is whole is kept, what is not is counted."""

from __future__ import annotations

import re
from itertools import islice

import msgspec

from timeroof.read.torch.events import Event

# What json.dumps and C++ streams write for numbers that JSON does not have.
_NO_NUMBER = re.compile(rb"([:,\[]\s*)[-+]?(?:NaN|nan|Infinity|inf)\b(?:\([a-z0-9]*\))?")
_ENDING = re.compile(rb"\}\s*\]")
BETWEEN = re.compile(rb"\}\s*,\s*\{")
# A value of an event may hold ``},{``: so many pieces are put together again.
_MAX_JOINED = 8

DECODE_ERRORS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
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
