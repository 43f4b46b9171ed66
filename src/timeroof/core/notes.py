"""Notes: what a reader has to know of how the numbers came about, as values with a code.

A note is its sentence, so it prints and joins as text does; programs tell notes apart by `code`
and `level`, never by words.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

Level = Literal["info", "warning", "error"]

# What a reader of files says of its file.
SOURCE = "source"
PARTIAL = "partial"
# Other programs had the CPUs: some of the time, or so much that times say nothing.
CONTENDED, UNTRUSTED = "cpu-contended", "cpu-untrusted"
# Threads of the program itself had them.
CROWDED = "own-threads"


class Note(str):
    """A sentence with a code that names its kind and a level.

    >>> note = Note("No step was seen.", "no-step", "warning")
    >>> note.code, note.level, f"{note}"
    ('no-step', 'warning', 'No step was seen.')
    """

    __slots__ = ("code", "level")

    code: str
    level: Level

    def __new__(cls, text: str, code: str = SOURCE, level: Level = "info") -> Note:
        """A note; without a code it is a source's own remark."""
        note = super().__new__(cls, text)
        note.code, note.level = code, level
        return note

    def __getnewargs__(self) -> tuple[str, str, Level]:  # type: ignore[override]
        """What makes an equal note, for pickles and copies."""
        return str(self), self.code, self.level


class NoteDocument(msgspec.Struct, kw_only=True, frozen=True):
    """A note in JSON."""

    code: str
    level: Level
    text: str


def as_notes(texts: Iterable[str]) -> tuple[Note, ...]:
    """Sentences as notes; those that have a code keep it."""
    return tuple(t if isinstance(t, Note) else Note(t) for t in texts)


def note_documents(texts: Iterable[str]) -> list[NoteDocument]:
    """Notes as they stand in JSON."""
    return [NoteDocument(code=n.code, level=n.level, text=str(n)) for n in as_notes(texts)]


def notes_of_documents(documents: Iterable[NoteDocument]) -> tuple[Note, ...]:
    """Notes from JSON."""
    return tuple(Note(d.text, d.code, d.level) for d in documents)
