"""What is collected of a trace: columns of frames, launches and device work.

Everything that repeats (names, threads, recorded signatures) is a code into one of
the trace's `Codes`; times stay in microseconds until rows are made of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from timeroof.core.notes import Note
from timeroof.read.idle import Floats

# Texts and other values as small numbers, so that columns of millions stay small.
NONE = -1
# No C++ template needs more; what is longer is cut, so that no name fills the memory.
MAX_NAME = 20_000
# Nor has a program so many names; from here on they go by one.
MAX_LETTERS = 1 << 28
MORE_NAMES = "(more names than can be kept)"


class Codes(dict[Hashable, int]):
    """Numbers values in the order in which they are first asked for.

    >>> codes = Codes(); codes["a"], codes["b"], codes["a"], codes.values_in_order()
    (0, 1, 0, ['a', 'b'])
    """

    def __missing__(self, value: Hashable) -> int:
        code = self[value] = len(self)
        return code

    def values_in_order(self) -> list[Any]:
        """The values by their number."""
        return list(self)


class Names(Codes):
    """Codes of names: what is no text becomes one, and what is absurdly long is cut."""

    letters = 0

    def __missing__(self, value: Hashable) -> int:
        name = name_of(value)
        if name is not value:
            return self[name]
        self.letters += len(name)
        if self.letters > MAX_LETTERS and name != MORE_NAMES:
            return self[MORE_NAMES]
        return super().__missing__(name)


def codes_of(codes: Codes, values: Sequence[Hashable]) -> list[int]:
    """The codes of many values; one that cannot be a key goes by its text.

    >>> codes_of(Codes(), [1, (0, 2), 1, [3], (0, [2])])
    [0, 1, 0, 2, 3]
    """
    try:
        return [codes[v] for v in values]
    except TypeError:
        return [codes[_key(v)] for v in values]


def _key(value: object) -> Hashable:
    try:
        hash(value)
    except TypeError:
        return str(value) if not isinstance(value, tuple) else tuple(_key(v) for v in value)
    return value


def name_of(value: object) -> str:
    """A name as text, whatever was recorded, cut where it is absurdly long."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return text if len(text) <= MAX_NAME else text[: MAX_NAME - 1] + "…"


def numbers(values: Sequence[object]) -> Floats:
    """Numbers of what was recorded: text is parsed, what is no number is NaN.

    >>> numbers([1, "2.5", None, "x", [3]]).tolist()
    [1.0, 2.5, nan, nan, nan]
    """
    try:
        found = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        found = None
    if found is None or found.ndim != 1:
        found = np.array([_number(v) for v in values], dtype=np.float64)
    return found


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return float("nan")


# Kinds of device work, and kinds of frame.
KERNEL, COPY, MEMSET, COLLECTIVE = range(4)
KIND_NAMES = ["kernel", "copy", "memset", "collective"]
OP, ANNOTATION, MODULE = range(3)
MODULE_PREFIX = "nn.Module: "


class Table:
    """Columns that grow by pieces: codes as small integers, the rest as floats."""

    def __init__(self, codes: str, numbers: str) -> None:
        small = dict.fromkeys(codes.split(), np.int32)
        self._dtypes = small | dict.fromkeys(numbers.split(), np.float64)
        self._pieces: dict[str, list[np.ndarray]] = {c: [] for c in self._dtypes}
        self.height = 0

    def add(self, **columns: npt.ArrayLike) -> None:
        """Add rows; every column is given, each as long as the others."""
        for name, dtype in self._dtypes.items():
            self._pieces[name].append(np.asarray(columns[name], dtype=dtype))
        self.height += len(self._pieces[name][-1])

    def __getitem__(self, column: str) -> Any:
        pieces, dtype = self._pieces[column], self._dtypes[column]
        if len(pieces) != 1:
            pieces[:] = [np.concatenate([np.empty(0, dtype), *pieces])]
        return pieces[0]

    def __setitem__(self, column: str, values: npt.ArrayLike) -> None:
        self._pieces[column] = [np.asarray(values, dtype=self._dtypes[column])]


_FRAMES = ("thread kind name signature collective", "start end external_id record_id sequence")
# The duration on its own: the difference of two times of day has lost digits.
_TIMES = "start end duration correlation external_id bytes"
_DEVICE = ("kind name device stream grid collective", _TIMES)
_LAUNCHES = ("thread name", "start end correlation size")


@dataclass
class Trace:
    """The columns of one trace, and what their codes mean."""

    names: Names = field(default_factory=Names)
    # (process, thread) of the host, and devices and their streams.
    threads: Codes = field(default_factory=Codes)
    devices: Codes = field(default_factory=Codes)
    streams: Codes = field(default_factory=Codes)
    # What ops were called with: dims, types, strides, values, as recorded.
    signatures: Codes = field(default_factory=Codes)
    # What XLA says of an event: op, module and framework op.
    scopes: Codes = field(default_factory=Codes)
    grids: Codes = field(default_factory=Codes)
    collectives: Codes = field(default_factory=Codes)
    # Everything that has a begin and an end on a host thread: ops, annotations, modules.
    frames: Table = field(default_factory=partial(Table, *_FRAMES))
    launches: Table = field(default_factory=partial(Table, *_LAUNCHES))
    device: Table = field(default_factory=partial(Table, *_DEVICE))
    overheads: Table = field(default_factory=lambda: Table("name", "start end"))
    # Traces without categories that we know.
    plain: Table = field(default_factory=lambda: Table("thread name scope", "start end"))
    process_names: dict[str, str] = field(default_factory=dict)
    thread_names: dict[tuple[str, str], str] = field(default_factory=dict)
    # Counters per kernel: name, device, counters.
    ranges: list[tuple[str, str, dict[str, object]]] = field(default_factory=list)
    bad: int = 0
    unpaired: int = 0

    @property
    def notes(self) -> list[Note]:
        """What was left out."""
        said = [
            (self.bad, "events have no possible duration and are left out."),
            (self.unpaired, "begin and end events (ph B, E) are left out."),
        ]
        return [Note(f"{count} {text}", "left-out", "warning") for count, text in said if count]
