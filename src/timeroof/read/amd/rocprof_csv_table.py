"""CSV tables of profilers: find the header wherever it stands, read only the columns asked for.

Text may come before the table (a program's output, ``Processing […]`` lines), a BOM may start
the file, rows may be shorter than the header. Everything is read as text and converted here.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from timeroof.core.errors import InputError
from timeroof.read.database import table_errors
from timeroof.read.on_disk import plain_file
from timeroof.read.opening import Entry

MAX_PREAMBLE_LINES = 400
MAX_COLUMNS = 20_000
MAX_CELL_CHARS = 16 * 2**20

Names = frozenset[str]


@dataclass(frozen=True)
class Header:
    """Where a table's header stands, and its columns as written."""

    line: int
    names: tuple[str, ...]

    @property
    def plain(self) -> Names:
        """The columns in lower case, for recognising a table."""
        return frozenset(name.lower() for name in self.names)


def find_header(entry: Entry, is_header: Callable[[Names], bool]) -> Header | None:
    """The first line of the head that is such a header; never raises."""
    head = entry.head
    if b"\x00" in head[:1024]:
        return None
    text = head.decode("utf-8-sig", "replace")
    # The CSV reader below knows one line end, so other separators must not count here.
    for number, line in enumerate(text.split("\n")[:MAX_PREAMBLE_LINES]):
        if "," not in line:
            continue
        names = split_line(line)
        if names and is_header(frozenset(name.lower() for name in names)):
            return Header(number, tuple(names))
    return None


def split_line(line: str) -> list[str]:
    """The cells of one line of CSV; none if it is no CSV."""
    try:
        return [
            cell.strip()
            for cell in next(csv.reader([line.rstrip("\r")], skipinitialspace=True), [])
        ]
    except csv.Error:
        return []


def read_table(entry: Entry, header: Header, wanted: Callable[[str], bool]) -> pl.DataFrame:
    """The wanted columns of a table as text; empty cells are null, all-empty rows are left out."""
    with plain_file(entry) as path, table_errors(entry.name):
        lazy = pl.scan_csv(
            path,
            has_header=True,
            skip_lines=header.line,
            infer_schema=False,
            truncate_ragged_lines=True,
            encoding="utf8-lossy",
            low_memory=True,
        )
        columns = lazy.collect_schema().names()
        if len(columns) > MAX_COLUMNS:
            raise InputError(f"has {len(columns)} columns", where=entry.name)
        plain = {c.strip().strip("\ufeff").strip('"').strip(): c for c in columns}
        chosen = {name: c for name, c in plain.items() if wanted(name)}
        cells = [_cell(c).alias(name) for name, c in chosen.items()]
        table = lazy.select(cells).collect()
    return table.filter(~pl.all_horizontal(pl.all().is_null())) if table.width else table


def _cell(column: str) -> pl.Expr:
    text = pl.col(column).cast(pl.String).str.strip_chars()
    return pl.when(text.is_in(["", "N/A", "n/a", "NA", "nan", "NaN"])).then(None).otherwise(text)


def number(column: str) -> pl.Expr:
    """A column's numbers; thousands separators are taken out, what is no number is null."""
    text = pl.col(column).str.replace_all(",", "")
    value = text.cast(pl.Float64, strict=False)
    return pl.when(value.is_finite()).then(value)


def whole_number(column: str) -> pl.Expr:
    """A column's integers, exact to the last digit; what is no integer is null."""
    return pl.col(column).str.replace_all(",", "").cast(pl.Int64, strict=False)


def ticks(table: pl.DataFrame, column: str) -> pl.Expr:
    """A column of nanoseconds: integers if all are (epoch times need every digit), else floats."""
    cells = table[column].drop_nulls()
    if cells.str.contains(r"^-?\d+$").all():
        return whole_number(column)
    return number(column)


def first_of(names: Names | list[str], *wanted: str) -> str | None:
    """The first of these column names, case aside, that a table has, as it is written there."""
    by_plain = {name.lower(): name for name in names}
    return next((by_plain[w.lower()] for w in wanted if w.lower() in by_plain), None)


_CLONE = re.compile(r"(?: \[clone \.kd\]| \(\.kd\)|\.kd)\s*$")


def kernel_name(column: str) -> pl.Expr:
    """AMD kernel names without the loader's suffix (``.kd``, ``[clone .kd]``)."""
    return pl.col(column).str.replace(_CLONE.pattern, "")
