"""Texts and other values as small numbers, so that columns of millions stay small."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Codes32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

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


def codes_of(codes: Codes, values: list[Any]) -> list[int]:
    """The codes of many values; one that cannot be a key goes by its text.

    >>> codes_of(Codes(), [1, (0, 2), 1, [3], (0, [2])])
    [0, 1, 0, 2, 3]
    """
    try:
        return [codes[v] for v in values]
    except TypeError:
        return [codes[_key(v)] for v in values]


def _key(value: Any) -> Hashable:
    try:
        hash(value)
    except TypeError:
        return str(value) if not isinstance(value, tuple) else tuple(_key(v) for v in value)
    return value  # type: ignore[no-any-return]


def name_of(value: object) -> str:
    """A name as text, whatever was recorded, cut where it is absurdly long."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return text if len(text) <= MAX_NAME else text[: MAX_NAME - 1] + "…"


def numbers(values: list[Any]) -> Floats:
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
