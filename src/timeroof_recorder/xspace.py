"""How many events an XSpace holds, XLA's format of traces, without decoding any."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_PLANE, _LINE, _EVENT = 1, 3, 4


def count_events(data: bytes) -> int:
    """Events of all lines of all planes.

    >>> event = bytes([4 << 3 | 2, 2, 8, 1])
    >>> line = bytes([3 << 3 | 2, 8]) + 2 * event
    >>> count_events(bytes([1 << 3 | 2, len(line)]) + line)
    2
    """
    total = 0
    for plane in _parts(data, (0, len(data)), _PLANE):
        for line in _parts(data, plane, _LINE):
            total += len(list(_parts(data, line, _EVENT)))
    return total


def _parts(data: bytes, span: tuple[int, int], wanted: int) -> "Iterator[tuple[int, int]]":
    """Where the messages of a field begin and end."""
    at, end = span
    while at < end:
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 2:
            size, at = _varint(data, at)
            if key >> 3 == wanted:
                yield at, at + size
            at += size
        elif kind == 0:
            _, at = _varint(data, at)
        elif kind == 1:
            at += 8
        elif kind == 5:
            at += 4
        else:
            return


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < 128:
        return byte, at
    value, shift = byte & 127, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
