"""The text of a trace as UTF-8, whatever it was written in, in pieces."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from timeroof.core.errors import InputError
from timeroof.read.format import Progress
from timeroof.read.opening import Entry

# Small, because a damaged archive loses the piece in which the damage is.
_PIECE_BYTES = 64 * 1024
_SAY_EVERY_BYTES = 32 * 2**20
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass
class Text:
    """The pieces of an entry; damage after the first piece ends them and becomes a note."""

    entry: Entry
    progress: Progress
    notes: list[str] = field(default_factory=list)
    read_bytes: int = 0

    def pieces(self) -> Iterator[bytes]:
        """The text as UTF-8."""
        pieces = self._raw()
        first = next(pieces, b"")
        skip, name = encoding_of(first) or (0, "utf-8")
        if name == "utf-8":
            yield first[skip:]
            yield from pieces
            return
        decoder = codecs.getincrementaldecoder(name)("replace")
        for piece in chain([first], pieces):
            yield decoder.decode(piece).encode("utf-8", "replace")

    def _raw(self) -> Iterator[bytes]:
        try:
            for piece in self.entry.chunks(_PIECE_BYTES):
                self._say(len(piece))
                yield piece
        except InputError as error:
            # A size beyond what is allowed is refused; damage at the end is lived with.
            if not self.read_bytes or not error.what.startswith("is damaged"):
                raise
            self.notes.append(f"the file {error.what}: what could be unpacked was read")

    def _say(self, added: int) -> None:
        before = self.read_bytes // _SAY_EVERY_BYTES
        self.read_bytes += added
        if self.read_bytes // _SAY_EVERY_BYTES != before:
            size = self.entry.size_bytes
            share = min(self.read_bytes / size, 1.0) if size else 0.0
            self.progress(f"reading events, {self.read_bytes >> 20} MiB", 0.9 * share)


def encoding_of(head: bytes) -> tuple[int, str] | None:
    """The encoding that a byte order mark or the zeros of its first letters give away.

    >>> encoding_of(b"{\\x00}\\x00"), encoding_of(b"{}")
    ((0, 'utf-16-le'), None)
    """
    for mark, name in _MARKS:
        if head.startswith(mark):
            return len(mark), name
    if head[1:2] == b"\0" and head[:1] in b"{[ \r\n":
        return 0, "utf-16-le"
    return (0, "utf-16-be") if head[:1] == b"\0" and head[1:2] in b"{[" else None
