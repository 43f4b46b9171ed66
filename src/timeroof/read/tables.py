"""CSV tables inside a profiler's text: found behind any preamble, read in bounded pieces."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence

import polars as pl

from timeroof.read.opening import Entry
from timeroof.read.text import MAX_RECORD_BYTES, refuse_endless, text_blocks

# Records are parsed in pieces of about this size.
PIECE_BYTES = 32 * 2**20
SEPARATORS = (",", ";", "\t")

# What ncu prints among the rows when the profiled program ends or fails.
_TOOL_LINE = re.compile(rb"(?m)^=+(\d+|PROF|ERROR|WARNING)?=+ .*\n?")


class Table:
    """A CSV table: its header, and its rows as frames whose columns are named 0, 1, 2, …

    Numbered columns let two columns have one name, and a name be anything.
    """

    def __init__(
        self, header: list[str], rest: bytes, blocks: Iterator[bytes], separator: str = ","
    ) -> None:
        self.header, self._rest, self._blocks, self._separator = header, rest, blocks, separator

    def position(self, *names: str) -> int | None:
        """Where the first of these columns is."""
        return next((self.header.index(n) for n in names if n in self.header), None)

    def frames(self, columns: Sequence[int] | None = None) -> Iterator[pl.DataFrame]:
        """Rows as text, only the wanted columns."""
        for piece in self._pieces():
            if piece and not piece.isspace():
                yield self._frame(piece, columns)

    def _pieces(self) -> Iterator[bytes]:
        """Whole records, about as many bytes at a time as a piece may have."""
        waiting, size = [self._rest], len(self._rest)
        for block in self._blocks:
            waiting.append(block)
            size += len(block)
            if size < PIECE_BYTES:
                continue
            held = b"".join(waiting)
            cut = record_end(held)
            if cut:
                yield held[:cut]
            waiting, size = [held[cut:]], len(held) - cut
        held = b"".join(waiting)
        cut = record_end(held)
        # What follows the last whole record is a record without line end, or was cut.
        yield held[:cut]
        yield held[cut:]

    def _frame(self, piece: bytes, columns: Sequence[int] | None) -> pl.DataFrame:
        if piece.startswith(b"==") or b"\n==" in piece:
            piece = _TOOL_LINE.sub(b"", piece)
        wanted = sorted(set(range(len(self.header)) if columns is None else columns))
        numbered = self._separator.join(str(i) for i in range(len(self.header))).encode() + b"\n"
        try:
            return pl.read_csv(
                io.BytesIO(numbered + piece),
                separator=self._separator,
                infer_schema=False,
                truncate_ragged_lines=True,
                encoding="utf8-lossy",
                columns=[str(i) for i in wanted],
                raise_if_empty=False,
            )
        except pl.exceptions.PolarsError:
            # Quotes that do not pair, as where two processes wrote into one file.
            return _frame_by_hand(piece, wanted, self._separator)


def find_table(entry: Entry, is_header: Callable[[list[str]], bool]) -> Table | None:
    """The first table of a text whose header is wanted, with all that follows it."""
    blocks = text_blocks(entry)
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        for index, line in enumerate(whole):
            for separator, fields in split_ways(line):
                if is_header(fields):
                    rest = b"\n".join([*whole[index + 1 :], rest])
                    return Table(fields, rest, blocks, separator)
        refuse_endless(rest, entry.name)
    for separator, fields in split_ways(rest):
        if is_header(fields):
            return Table(fields, b"", iter(()), separator)
    return None


def split_ways(line: bytes | str) -> Iterator[tuple[str, list[str]]]:
    """A line's fields by every separator that it has; spreadsheets of some countries use `;`."""
    text = line.decode(errors="replace") if isinstance(line, bytes) else line
    for separator in SEPARATORS:
        if separator in text:
            yield separator, fields_of(text, separator)


def fields_of(text: str, separator: str = ",") -> list[str]:
    """The fields of one line, none where it cannot be split.

    >>> fields_of('"a, b",c')
    ['a, b', 'c']
    """
    if len(text) > MAX_RECORD_BYTES // 4:
        return []
    try:
        row: list[str] = next(csv.reader([text], delimiter=separator), [])
    except csv.Error:
        # A cell beyond the csv module's limit, such as a kernel name of megabytes.
        row = text.split(separator)
    return [cell.strip() for cell in row]


def record_end(data: bytes) -> int:
    """Where the last whole record ends: behind a line end that is not inside quotes.

    >>> record_end(b'1,"a\\nb"\\n2,"c')
    8
    """
    quoted = data.count(b'"') % 2 == 1
    end = len(data)
    while (line_end := data.rfind(b"\n", 0, end)) >= 0:
        quoted ^= data.count(b'"', line_end, end) % 2 == 1
        if not quoted:
            return line_end + 1
        if len(data) - line_end > MAX_RECORD_BYTES:
            # A quote that never closes: go on line by line rather than hold everything.
            return data.rfind(b"\n") + 1
        end = line_end
    return len(data) if len(data) > MAX_RECORD_BYTES else 0


def _frame_by_hand(piece: bytes, wanted: Sequence[int], separator: str) -> pl.DataFrame:
    """Rows of a table that is no clean CSV, line by line."""
    columns: dict[str, list[str | None]] = {str(i): [] for i in wanted}
    for line in piece.decode(errors="replace").split("\n"):
        if cells := fields_of(line, separator):
            for i in wanted:
                columns[str(i)].append(cells[i] if i < len(cells) else None)
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))
