"""CSV tables inside a profiler's text: found behind any preamble, read in bounded pieces."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.vocabulary import remembered
from timeroof.read.open import Entry
from timeroof.read.text import MAX_RECORD_BYTES, head_text, refuse_endless, text_blocks

# Records are parsed in pieces of about this size.
PIECE_BYTES = 32 * 2**20
SEPARATORS = (",", ";", "\t")
# More rows than the largest counter file has; a small compressed file may unpack to any number.
MAX_ROWS = 20_000_000
MAX_COLUMNS = 20_000

# What ncu prints among the rows when the profiled program ends or fails.
_TOOL_LINE = re.compile(rb"(?m)^=+(\d+|PROF|ERROR|WARNING)?=+ .*\n?")


class Table:
    """A CSV table: its header, and its rows as frames whose columns are named 0, 1, 2, …

    Numbered columns let two columns have one name, and a name be anything.
    """

    def __init__(
        self,
        header: list[str],
        rest: bytes,
        blocks: Iterator[bytes],
        separator: str = ",",
        where: str = "the table",
    ) -> None:
        self.header, self._rest, self._blocks, self._separator = header, rest, blocks, separator
        self._where = where
        if len(header) > MAX_COLUMNS:
            advice = f"keep at most {MAX_COLUMNS} of them"
            raise InputError(f"has {len(header)} columns", where, advice)

    def position(self, *names: str) -> int | None:
        """Where the first of these columns is."""
        return next((self.header.index(n) for n in names if n in self.header), None)

    def frames(self, columns: Sequence[int] | None = None) -> Iterator[pl.DataFrame]:
        """Rows as text, only the wanted columns."""
        rows = 0
        for piece in self._pieces():
            if piece and not piece.isspace():
                frame = self._frame(piece, columns)
                rows += frame.height
                if rows > MAX_ROWS:
                    advice = "export fewer kernels or fewer metrics"
                    raise InputError(f"has more than {MAX_ROWS} rows", self._where, advice)
                yield frame

    def _pieces(self) -> Iterator[bytes]:
        """Whole records, about as many bytes at a time as a piece may have."""
        waiting, size = [self._rest], len(self._rest)
        for block in self._blocks:
            waiting.append(block)
            size += len(block)
            if size < PIECE_BYTES:
                continue
            held = b"".join(waiting)
            if b"\n" not in held:
                refuse_endless(held, self._where)
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
        text, at = rest + block, 0
        while (line_end := text.find(b"\n", at)) >= 0:
            line, at = text[at:line_end], line_end + 1
            for separator, fields in split_ways(line):
                if is_header(fields):
                    return Table(fields, text[at:], blocks, separator, entry.name)
        rest = text[at:]
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
        row: list[str] = next(csv.reader([text], delimiter=separator, skipinitialspace=True), [])
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


# The same tables by the names of their columns, whole: rocprof's, Nsight Systems' and Omniperf's.
MAX_PREAMBLE_LINES = 400
_NOTHING = ("", "N/A", "n/a", "NA", "nan", "NaN")

Names = frozenset[str]


class Header(NamedTuple):
    """A table's columns as they are written."""

    names: tuple[str, ...]

    @property
    def plain(self) -> Names:
        """The columns in lower case, for recognising a table."""
        return frozenset(name.lower() for name in self.names)


def find_header(entry: Entry, is_header: Callable[[Names], bool]) -> Header | None:
    """The first line of the head that is such a header; never raises."""
    text = head_text(entry)
    if "\x00" in text[:1024]:
        return None
    for line in text.split("\n")[:MAX_PREAMBLE_LINES]:
        for _, names in split_ways(line):
            if is_header(frozenset(name.lower() for name in names)):
                return Header(tuple(names))
    return None


def read_table(entry: Entry, header: Header, wanted: Callable[[str], bool]) -> pl.DataFrame:
    """The wanted columns of a table as text; empty cells are null, all-empty rows are left out."""
    table = find_table(entry, lambda fields: tuple(fields) == header.names)
    # Of two columns with one name the first counts.
    places: dict[str, int] = {}
    for place, name in enumerate(header.names):
        if name not in places and wanted(name):
            places[name] = place
    frames = [pl.DataFrame(schema=dict.fromkeys(places, pl.String))]
    found = table.frames(list(places.values())) if table and places else ()
    frames += [
        pl.DataFrame({name: _cells(frame[str(place)]) for name, place in places.items()})
        for frame in found
    ]
    return pl.concat(frames).filter(~pl.all_horizontal(pl.all().is_null()))


def _cells(column: pl.Series) -> pl.Series:
    """Cells without spaces around them, null where they say nothing; plain numbers say all."""
    if column.cast(pl.Int64, strict=False).null_count() == column.null_count():
        return column
    text = column.str.strip_chars()
    return text.set(text.is_in(_NOTHING), None)


def number(column: str) -> pl.Expr:
    """A column's numbers, as `numbers` reads them."""
    return pl.col(column).map_batches(numbers, return_dtype=pl.Float64)


def whole_number(column: str) -> pl.Expr:
    """A column's integers, exact to the last digit; what is no integer is null."""
    return pl.col(column).map_batches(_integers, return_dtype=pl.Int64)


def _integers(cells: pl.Series) -> pl.Series:
    found = cells.cast(pl.Int64, strict=False)
    if found.null_count() == cells.null_count():
        return found
    return cells.str.replace_all(",", "", literal=True).cast(pl.Int64, strict=False)


def ticks(table: pl.DataFrame, column: str) -> pl.Expr:
    """A column of nanoseconds: integers if all are (epoch times need every digit), else floats."""
    cells = table[column]
    found = cells.cast(pl.Int64, strict=False)
    return pl.lit(found) if found.null_count() == cells.null_count() else number(column)


def first_of(names: Names | list[str], *wanted: str) -> str | None:
    """The first of these column names, case aside, that a table has, as it is written there."""
    by_plain = {name.lower(): name for name in names}
    return next((by_plain[w.lower()] for w in wanted if w.lower() in by_plain), None)


# Numbers and units as profilers print them, turned into plain numbers of base units.
# Decimal prefixes; nvprof alone means powers of 1024 by them.
_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_SMALL = {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9, "p": 1e-12}
_SECOND = re.compile(r"(m|u|µ|n|p)?s(?:ec|econd)?s?")
_HERTZ = re.compile(r"(k|m|g|t)?hz")
_AMOUNT = re.compile(r"(k|m|g|t|p)?(byte|b|cycle|inst|sector|request|op|flop|thread|warp)s?")
# 1.234,5 or 12,34: a comma that cannot separate thousands. 1.234.567: dots that do.
_COMMA_DECIMAL = r"^-?\d+(\.\d{3})*,(\d{1,2}|\d{4,})$|\.\d{3},\d|^-?\d{1,3}(\.\d{3}){2,}$"
# What else separates thousands: narrow and plain unbreakable spaces (French), apostrophes (Swiss).
_SPACES = "[\u00a0\u202f\u2009'\u2019]"


def comma_decimals(columns: Iterable[pl.Series]) -> bool:
    """Whether some cell of a table can only be read with a comma before its decimals."""
    return any(_bare(column).str.contains(_COMMA_DECIMAL).any() for column in columns)


def _bare(cells: pl.Series) -> pl.Series:
    """Cells without instance counts and spaces."""
    text = cells.str.strip_chars().str.replace(r"\s*\{[\d,.]+\}$", "")
    return text.str.replace_all(_SPACES, "")


def numbers(column: pl.Series, *, comma: bool | None = None) -> pl.Series:
    """Cells as numbers: thousands separators and instance counts off; what is no number is null.

    Whether a comma stands before decimals the whole table knows better than one column.

    >>> numbers(pl.Series(["1,234.5", "n/a", "66 {21}", "", "7"])).to_list()
    [1234.5, None, 66.0, None, 7.0]
    """
    plain = column.cast(pl.Float64, strict=False)
    if plain.null_count() == column.null_count() and not comma:
        return plain.set(~plain.is_finite(), None)
    text = _bare(column)
    if comma if comma is not None else comma_decimals([text]):
        text = text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    else:
        text = text.str.replace_all(",", "", literal=True)
    value = text.cast(pl.Float64, strict=False)
    return value.set(~value.is_finite(), None)


def in_base_units(value: str, factor: str) -> pl.Expr:
    """A column times the factors of its units; a small factor divides, which rounds only once.

    >>> table = pl.DataFrame({"ns": [800.0], "factor": [1e-9]})
    >>> table.select(in_base_units("ns", "factor")).item()
    8e-07
    """
    times = pl.col(factor)
    divided = pl.col(value) / (1.0 / times).round()
    return pl.when(times < 1).then(divided).otherwise(pl.col(value) * times).alias(value)


@remembered(4096)
def unit_factor(unit: str) -> tuple[float, str] | None:
    """What one of a unit is in base units, and of which kind: second, 1/second, byte, …

    >>> unit_factor("usecond"), unit_factor("Kbyte"), unit_factor("cycle/nsecond")
    ((1e-06, 'second'), (1000.0, 'byte'), (1000000000.0, '1/second'))
    >>> unit_factor("Gbyte/s"), unit_factor("inst"), unit_factor("%")
    ((1000000000.0, 'byte/second'), (1.0, 'count'), None)
    """
    over, _, under = unit.strip().lower().partition("/")
    if match := _HERTZ.fullmatch(over):
        return (_PREFIXES[match[1] or ""], "1/second") if not under else None
    top = _simple_unit(over)
    if top is None or not under:
        return top
    bottom = _simple_unit(under)
    if bottom is None:
        return None
    # Per nanosecond is a thousand million times, not 1 / 1e-9, which is rounded.
    factor = top[0] * round(1 / bottom[0]) if bottom[0] < 1 else top[0] / bottom[0]
    if bottom[1] == "second":
        return factor, "byte/second" if top[1] == "byte" else "1/second"
    return factor, "ratio"


def _simple_unit(unit: str) -> tuple[float, str] | None:
    if unit == "":
        return 1.0, "count"
    if match := _SECOND.fullmatch(unit):
        return _SMALL[match[1] or ""], "second"
    if match := _AMOUNT.fullmatch(unit):
        kind = "byte" if match[2] in ("byte", "b") else "count"
        return _PREFIXES[match[1] or ""], kind
    return None
