"""Text that profilers wrote: any encoding and line ends, in pieces of bounded size."""

from __future__ import annotations

import codecs
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from timeroof.core.errors import InputError
from timeroof.core.files import temporary_folder
from timeroof.read.open import Entry

# A line or a record longer than this is no text of a profiler.
MAX_RECORD_BYTES = 64 * 2**20

# So many bytes of UTF-16 without a mark are letters of ASCII and zeros in turn.
_TELLING_BYTES = 16
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    # Before UTF-16, whose mark is the first half of this one.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def encoding_of(head: bytes) -> tuple[str, int]:
    """The encoding that the first bytes announce, and how many bytes the announcement takes.

    PowerShell's `>` writes UTF-16, Windows tools like a BOM. Without one the zeros of the first
    letters give UTF-16 away.

    >>> [encoding_of(b) for b in (b"\\xff\\xfeI\\x00D\\x00", b"ID,Name", b"\\x00{\\x00}")]
    [('utf-16-le', 2), ('utf-8', 0), ('utf-16-be', 0)]
    """
    for bom, name in _BOMS:
        if head.startswith(bom):
            return name, len(bom)
    first = head[:_TELLING_BYTES]
    even, odd = first[::2], first[1::2]
    if odd and even.isascii() and not any(odd) and all(even):
        return "utf-16-le", 0
    if odd and odd.isascii() and not any(even) and all(odd):
        return "utf-16-be", 0
    return "utf-8", 0


def head_text(entry: Entry) -> str:
    """The first characters of an entry, for sniffing; bytes that are no text are replaced."""
    head = entry.head
    name, skip = encoding_of(head)
    return head[skip:].decode(name, errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def text_blocks(entry: Entry) -> Iterator[bytes]:
    """The whole text as UTF-8 with ``\\n`` at line ends, piece by piece."""
    decoder: codecs.IncrementalDecoder | None = None
    held, name = b"", "utf-8"
    for chunk in entry.chunks():
        piece = chunk
        if decoder is None:
            name, skip = encoding_of(piece)
            decoder = codecs.getincrementaldecoder(name)(errors="replace")
            piece = piece[skip:]
        # Most text is plain: nothing is to be decoded then, but for a letter that was cut before.
        plain = piece.isascii() and name == "utf-8" and not decoder.getstate()[0]
        data = held + (piece if plain else decoder.decode(piece).encode("utf-8", "replace"))
        held = b"\r" if data.endswith(b"\r") else b""
        yield _unix_lines(data[: len(data) - len(held)])
    if decoder is not None:
        yield _unix_lines(held + decoder.decode(b"", final=True).encode("utf-8", "replace"))


def _unix_lines(data: bytes) -> bytes:
    if b"\r" not in data:
        return data
    data = data.replace(b"\r\n", b"\n")
    # Old Macintosh line ends stand alone; inside other files a lone CR is no line end.
    return data.replace(b"\r", b"\n") if b"\n" not in data else data.replace(b"\r", b" ")


def lines(entry: Entry) -> Iterator[str]:
    """The lines of a text without their ends."""
    rest = b""
    for block in text_blocks(entry):
        *whole, rest = (rest + block).split(b"\n")
        for line in whole:
            yield line.decode()
        refuse_endless(rest, entry.name)
    if rest:
        yield rest.decode()


def refuse_endless(rest: bytes, where: str) -> None:
    """Refuse a line that does not end, before it fills the memory."""
    if len(rest) > MAX_RECORD_BYTES:
        advice = "it is no text of a profiler, or it is damaged"
        raise InputError(f"has a line of more than {MAX_RECORD_BYTES // 2**20} MiB", where, advice)


# An entry as a file on disk, for libraries that want a path.
# A copy must leave this much of the disk free.
FREE_BYTES = 512 * 2**20


@contextmanager
def plain_file(entry: Entry, suffix: str = "") -> Iterator[Path]:
    """The entry's bytes as a file on disk: itself, or a copy that is removed afterwards."""
    if entry.plain_path is not None:
        yield entry.plain_path
        return
    with temporary_folder() as folder:
        path = folder / f"plain{suffix}"
        room = shutil.disk_usage(folder).free - FREE_BYTES
        with path.open("wb") as out:
            for chunk in entry.chunks():
                room -= len(chunk)
                if room < 0:
                    what = "unpacks to more than the temporary folder can hold"
                    advice = "unpack it yourself, or set TMPDIR to a larger disk"
                    raise InputError(what, entry.name, advice)
                out.write(chunk)
        yield path
