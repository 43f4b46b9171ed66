"""How close a name that nobody knows comes to a name of the catalogue."""

from __future__ import annotations

import difflib
import re

# Below this likeness of letters two names have nothing to do with one another.
LEAST_LIKENESS = 0.7
# From here on a chip or a beginning is shared, not only like letters.
SHARED = 1
LONGEST = 80

_SIZE = re.compile(r"\d{1,2}|[\d.]+(gb|core|ghz)")
# The letter that is typed for a digit.
_SLIP = str.maketrans("o", "0")


def closeness(name: str, known: str) -> float:
    """How close a name comes to a known one, 0 where it does not; both plain, in lower case.

    A shared word that says which chip it is counts most, then a beginning, then like letters.

    >>> closeness("h100 96gb", "h100 80gb hbm3") > closeness("h10", "h100 nvl") > 1
    True
    >>> closeness("h1oo", "h100 nvl") > closeness("h1oo", "a100 pcie 40gb") > 0
    True
    >>> closeness("h10", "m2 10 core")
    0
    """
    asked, theirs = name[:LONGEST].split(), known.split()
    one, other = _joined(asked), _joined(theirs)
    like = _likeness(one, other)
    shared = set(asked) & set(theirs)
    if any(_tells(word) for word in shared):
        return SHARED + 1 + 0.1 * len(shared) + 0.05 * like
    if len(one) >= 2 and other.startswith(one):
        return SHARED + 0.05 * like
    # A slip in the beginning, or in one word of several.
    starts = [_likeness(one, other[: len(one)])] if len(one) >= 3 else []
    words = [_likeness(_joined([a]), t) for a in asked if _tells(a) for t in theirs if _tells(t)]
    nearest = max([like, *starts, *words])
    return nearest if nearest >= LEAST_LIKENESS else 0


def _tells(word: str) -> bool:
    """Whether a word says which chip it is: it has a digit and is no size, count or clock."""
    return re.search(r"\d", word) is not None and not _SIZE.fullmatch(word)


def _joined(words: list[str]) -> str:
    return "".join(words).translate(_SLIP)


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()
