"""Find the elements of a JSON array in text, aware of strings, without decoding them."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

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
