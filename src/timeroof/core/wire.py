"""Protobuf's wire format, as far as our readers need it: bounded, and safe with hostile bytes.

A message is a row of (field number, value); a value is an integer or a span of bytes. Nothing
nests by itself: every level is decoded by a call that knows its message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from timeroof.core.errors import InputError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10
_SIGN = 1 << 63

Span = tuple[int, int]


class BrokenMessageError(InputError):
    """Bytes that are no protobuf message, or one that is cut."""

    def __init__(self, at: int) -> None:
        super().__init__(f"is cut or damaged (no protobuf at byte {at})")


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """An integer and where it ends."""
    value = shift = 0
    for position in range(at, min(at + _MAX_VARINT_BYTES, end)):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
    raise BrokenMessageError(at)


def fields(data: bytes, span: Span) -> Iterator[tuple[int, int | Span]]:
    """The fields of a message: integers as they are, everything else as a span."""
    at, end = span
    while at < end:
        tag, at = read_varint(data, at, end)
        kind = tag & 7
        if kind == VARINT:
            value, at = read_varint(data, at, end)
            yield tag >> 3, value
            continue
        if kind == BYTES:
            size, at = read_varint(data, at, end)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise BrokenMessageError(at)
        if size > end - at:
            raise BrokenMessageError(at)
        yield tag >> 3, (at, at + size)
        at += size


def text(data: bytes, value: int | Span) -> str:
    """A string field."""
    return data[value[0] : value[1]].decode("utf-8", "replace") if isinstance(value, tuple) else ""


def signed(value: int | Span) -> int:
    """An int64 field."""
    if isinstance(value, tuple):
        return 0
    return value - (1 << 64) if value >= _SIGN else value


def double(data: bytes, value: int | Span) -> float:
    """A double field."""
    if isinstance(value, tuple) and value[1] - value[0] == 8:
        return float(struct.unpack("<d", data[value[0] : value[1]])[0])
    return 0.0


def integers(data: bytes, value: int | Span) -> list[int]:
    """A repeated int64 field: packed, or one number of it.

    >>> integers(bytes([1, 172, 2]), (0, 3)), integers(b"", 7)
    ([1, 300], [7])
    """
    if not isinstance(value, tuple):
        return [signed(value)]
    found, (at, end) = [], value
    while at < end:
        number, at = read_varint(data, at, end)
        found.append(signed(number))
    return found
