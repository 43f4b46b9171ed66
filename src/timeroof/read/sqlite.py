"""Open an SQLite file that somebody else wrote: read-only, bounded, nothing in it trusted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from urllib.parse import quote

import polars as pl

from timeroof.core.errors import InputError
from timeroof.read.open import Entry
from timeroof.read.text import plain_file

FETCH_ROWS = 200_000
# SQLite quotes a broken schema in its message, which then may be no text.
_DAMAGE = (sqlite3.Error, UnicodeDecodeError, OverflowError, MemoryError, SystemError)


class Database:
    """Tables of an open SQLite file, read as data frames."""

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._connection, self._name = connection, name
        names = self._rows("SELECT name FROM sqlite_master WHERE type = 'table'")
        self.tables = frozenset(str(row[0]) for row in names)

    def has(self, table: str) -> bool:
        """Whether there is such a table with at least one row."""
        return table in self.tables and bool(self._rows(f"SELECT 1 FROM {_quoted(table)} LIMIT 1"))

    def columns(self, table: str) -> frozenset[str]:
        """The columns of a table; none if it is absent."""
        if table not in self.tables:
            return frozenset()
        return frozenset(str(row[1]) for row in self._rows(f"PRAGMA table_info({_quoted(table)})"))

    def read(
        self, table: str, wanted: Mapping[str, pl.DataType | type[pl.DataType]]
    ) -> pl.DataFrame:
        """Columns of a table, cast to the types asked for; an absent column is null."""
        present = self.columns(table)
        if not present:
            return pl.DataFrame(schema=wanted)
        cells = [_cell(name, dtype, name in present) for name, dtype in wanted.items()]
        sql = f"SELECT {', '.join(cells)} FROM {_quoted(table)}"
        frames = [pl.DataFrame(schema=wanted)]
        with self._errors(), closing(self._connection.execute(sql)) as cursor:
            while rows := cursor.fetchmany(FETCH_ROWS):
                frames.append(pl.DataFrame(rows, schema=wanted, orient="row"))
        return pl.concat(frames)

    def pairs(self, table: str, key: str, value: str) -> dict[str, str]:
        """Two text columns as a mapping; empty where the table is absent."""
        frame = self.read(table, {key: pl.String, value: pl.String}).drop_nulls()
        return dict(frame.iter_rows())

    def _rows(self, sql: str) -> list[tuple[object, ...]]:
        with self._errors():
            return self._connection.execute(sql).fetchall()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGE as error:
            advice = "export or copy it again"
            raise InputError(f"is a damaged SQLite file ({error})", self._name, advice) from error


@contextmanager
def open_database(entry: Entry) -> Iterator[Database]:
    """The tables of an SQLite file, opened so that nothing can be written to it."""
    with plain_file(entry) as path:
        uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
        try:
            connection = sqlite3.connect(uri, uri=True)
        except sqlite3.Error as error:
            raise InputError(
                f"cannot be opened ({error})", entry.name, "export it again"
            ) from error
        with closing(connection):
            connection.text_factory = _text
            try:
                for setting in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
                    connection.execute(f"PRAGMA {setting}")
            except _DAMAGE as error:
                raise InputError(
                    f"is a damaged SQLite file ({error})", entry.name, "export it again"
                ) from error
            yield Database(connection, entry.name)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _cell(name: str, dtype: pl.DataType | type[pl.DataType], present: bool) -> str:
    if not present:
        return "NULL"
    target = "TEXT" if dtype == pl.String else "REAL" if dtype == pl.Float64 else "INTEGER"
    return f"CAST({_quoted(name)} AS {target})"
