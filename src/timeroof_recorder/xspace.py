"""What the recorders of JAX and TensorFlow share: what they ask of an XSpace, XLA's format of
traces (how many events, how much is ops), and the lines in which a program waits for results.
"""

import _thread
import sys

from timeroof_recorder.instruments import union
from timeroof_recorder.process import Ignoring, time, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import Any

    Call = Callable[..., object]

_PLANE, _LINE, _EVENT = 1, 3, 4
_LINE_TIMESTAMP, _EVENT_METADATA, _EVENT_OFFSET, _EVENT_DURATION, _EVENT_STAT = 3, 1, 2, 3, 4
_METADATA_OF_EVENTS, _METADATA_OF_STATS, _VALUE, _ID, _NAME = 4, 5, 2, 1, 2
_STAT_METADATA = 1


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


def busy_ns(data: bytes) -> int:
    """How long ops ran: instructions of compiled programs, and nodes of a graph or eager ops, which
    are named `node:Op`. An instant in which several ran counts once."""
    spans: list[tuple[int, int]] = []
    for plane in _parts(data, (0, len(data)), _PLANE):
        names = _names(data, plane, _METADATA_OF_EVENTS)
        hlo = {key for key, name in _names(data, plane, _METADATA_OF_STATS).items() if name == _HLO}
        ops = {key for key, name in names.items() if _is_op(name)}
        for line in _parts(data, plane, _LINE):
            spans += _op_spans(data, line, ops, hlo)
    return union(spans) // 1000


_HLO = b"hlo_op"
# TensorFlow's eager ops and calls of functions run inside of this.
_EAGER_RUN = b"KernelAndDeviceFunc::Run"


def _is_op(name: bytes) -> bool:
    """Whether a name is that of an executed node.

    >>> _is_op(b"model/dense/MatMul:MatMul"), _is_op(b"tsl::Run"), _is_op(b"a b:c")
    (True, False, False)
    """
    if name == _EAGER_RUN:
        return True
    node, colon, op = name.rpartition(b":")
    is_word = op.replace(b"_", b"").isalnum()
    return bool(colon and node and is_word) and not node.endswith(b":") and b" " not in name


def _names(data: bytes, plane: tuple[int, int], field: int) -> dict[int, bytes]:
    """Names by their numbers, of events or of stats."""
    found: dict[int, bytes] = {}
    for entry in _parts(data, plane, field):
        for value in _parts(data, entry, _VALUE):
            number = _number(data, value, _ID)
            for low, high in _parts(data, value, _NAME):
                found[number] = data[low:high]
    return found


def _op_spans(
    data: bytes, line: tuple[int, int], ops: set[int], hlo: set[int]
) -> "Iterator[tuple[int, int]]":
    """Begin and end of a line's ops, in picoseconds."""
    begin = 1000 * _number(data, line, _LINE_TIMESTAMP)
    for event in _parts(data, line, _EVENT):
        is_op = _number(data, event, _EVENT_METADATA) in ops
        if not is_op:
            stats = _parts(data, event, _EVENT_STAT)
            is_op = any(_number(data, stat, _STAT_METADATA) in hlo for stat in stats)
        if is_op:
            start = begin + _number(data, event, _EVENT_OFFSET)
            yield start, start + _number(data, event, _EVENT_DURATION)


def _number(data: bytes, span: tuple[int, int], wanted: int) -> int:
    """A field that is a number; 0 where it is not there."""
    at, end = span
    while at < end:
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            if key >> 3 == wanted:
                return value
        elif kind == 2:
            size, at = _varint(data, at)
            at += size
        else:
            at += 8 if kind == 1 else 4
    return 0


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


# Lines in which a program waits for results, or copies them.


_MOST_WAITS = 10_000
# Frames up to the program's own that are looked at.
_FARTHEST = 60
_OWN = __file__.rpartition("/")[0]


def program_line(frame: "FrameType | None", libraries: "tuple[str, ...]") -> str | None:
    """The line of the program above the frames of libraries: ``train.py:31``."""
    for _ in range(_FARTHEST):
        if frame is None:
            return None
        name = frame.f_code.co_filename
        if not name.startswith((*libraries, _OWN, "<")) and "/site-packages/" not in name:
            return f"{name.rpartition('/')[2]}:{frame.f_lineno}"
        frame = frame.f_back
    return None


class Waits:
    """Hears, in a timed pass, where the stepping thread reads arrays of a type or waits for them:
    begin, length and line. What it is put into is as it was when the pass has ended."""

    def __init__(self, kind: "type | tuple[()]", libraries: "tuple[str, ...]") -> None:
        self._kind, self._libraries = kind, libraries
        self._spans: list[tuple[int, int, str]] = []
        self._backs: list[Callable[[], None]] = []
        self._thread = 0
        self._is_inside = False

    def start(self, places: "tuple[tuple[object, str], ...]") -> None:
        """Hear from now on of these functions, methods and properties, and of NumPy's copies."""
        self._spans, self._thread = [], _thread.get_ident()
        numpy = sys.modules.get("numpy")
        # Numba knows NumPy's functions by what they are.
        if numpy is not None and "numba" not in sys.modules:
            places = (*places, (numpy, "asarray"), (numpy, "array"))
        for owner, name in places:
            with Ignoring("waits for results are not seen"):
                self._put(owner, name)

    def stop(self) -> list[tuple[int, int, str]]:
        """Hear no more; what was heard."""
        while self._backs:
            with Ignoring("a function is still heard of"):
                self._backs.pop()()
        found, self._spans = self._spans, []
        return found

    def _put(self, owner: object, name: str) -> None:
        original = vars(owner)[name]
        read = original.fget if isinstance(original, property) else None
        if read is None:
            self._backs.append(wrap(owner, name, self._heard))
            return
        made = property(lambda array: self._heard(read, array))

        def back() -> None:
            if vars(owner)[name] is made:
                setattr(owner, name, original)

        setattr(owner, name, made)
        self._backs.append(back)

    def _heard(self, original: "Call", *args: object, **kwargs: object) -> object:
        is_heard = not self._is_inside and _thread.get_ident() == self._thread
        if not is_heard or not args or not self._holds(args[0]) or len(self._spans) >= _MOST_WAITS:
            return original(*args, **kwargs)
        line = program_line(sys._getframe(1), self._libraries)
        self._is_inside = True
        begin = time.perf_counter_ns()
        try:
            return original(*args, **kwargs)
        finally:
            self._is_inside = False
            if line is not None:
                self._spans.append((begin, time.perf_counter_ns() - begin, line))

    def _holds(self, value: "Any") -> bool:
        """Whether it is such an array, or a list or dictionary that begins with one."""
        if isinstance(value, (list, tuple, dict)):
            value = next(iter(value.values() if isinstance(value, dict) else value), None)
        return isinstance(value, self._kind)
