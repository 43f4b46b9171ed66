"""What a file's first bytes must hold to be of a format: asked before its reader is imported.

A hint is a necessary condition, cheap and without any reader. It may let other files through,
since the format's own `sniff` decides; it never holds back a file that the sniff accepts
(`tests/unit/sources/test_formats.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from timeroof.errors import InputError
from timeroof.sources.files.opening import Entry

SQLITE = b"SQLite format 3\x00"
SNIFF_BYTES = 64 * 2**20
# Tables of Nsight Systems and of rocprofv3, as regular expressions.
NSYS_TABLES = (
    r"StringIds|CUPTI_ACTIVITY_KIND_|META_DATA_EXPORT|EXPORT_META_DATA|TARGET_INFO_SESSION"
)
ROCPD_TABLES = r"rocpd_"


@dataclass(frozen=True)
class Start:
    """The beginning of an entry, in the forms that hints ask for."""

    entry: Entry

    @cached_property
    def words(self) -> bytes:
        """Lower case without zeros, so that UTF-16 shows its words like any other text."""
        return self.entry.head.replace(b"\x00", b"").lower()


Hint = Callable[[Start], bool]


def anything(_start: Start) -> bool:
    """For formats that have no mark: their sniff is always asked."""
    return True


def begins(*magics: bytes) -> Hint:
    """The first bytes are one of these."""
    return lambda start: start.entry.head.startswith(magics)


def has(*alternatives: tuple[bytes, ...]) -> Hint:
    """All words of one of the alternatives occur; words are in lower case."""
    return lambda start: any(all(w in start.words for w in words) for words in alternatives)


def matches(*patterns: bytes) -> Hint:
    """One of these patterns is found; letters are in lower case."""
    return lambda start: any(re.search(pattern, start.words) for pattern in patterns)


def both(one: Hint, other: Hint) -> Hint:
    """Two hints hold."""
    return lambda start: one(start) and other(start)


def creates(tables: str) -> Hint:
    """An SQLite file with a table of such a name."""
    return lambda start: holds_table(start.entry, tables)


def holds_table(entry: Entry, tables: str) -> bool:
    """Whether an SQLite file creates a table whose name matches the pattern; never raises."""
    if not entry.head.startswith(SQLITE):
        return False
    pattern = re.compile(rb"CREATE TABLE [`\"']?(?:" + tables.encode() + rb")")
    if pattern.search(entry.head):
        return True
    try:
        seen, tail = 0, b""
        for chunk in entry.chunks():
            if pattern.search(tail + chunk):
                return True
            seen, tail = seen + len(chunk), chunk[-256:]
            if seen > SNIFF_BYTES:
                return False
    except InputError:
        return False
    return False
