"""Parquet files of anybody's: their footer is looked at before Polars unpacks them.

Columns that are nested hundreds of levels deep overflow the stack of Polars' threads, and a few
kilobytes may say that they are a thousand million rows. Both stand in the footer, which is Thrift's
compact format: https://parquet.apache.org/docs/file-format/metadata/
"""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import BinaryIO

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.wire import read_varint

MAGIC = b"PAR1"
# Shapes are lists of lists, which Parquet writes as two levels each.
MAX_LEVELS = 24
MAX_ROWS = 50_000_000
# Numbers that the format gives to what we ask for.
_SCHEMA, _ROWS, _CHILDREN = 2, 3, 5
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
# Bytes of what has a size of its own; as a field, truth is in its header.
_SIZES = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}
_DEEPEST = 32


def parquet_table(data: bytes, where: str) -> pl.DataFrame:
    """The table of a Parquet file that is held in memory."""
    refuse_traps(io.BytesIO(data), where)
    return pl.read_parquet(io.BytesIO(data))


def scan_parquet(path: Path, where: str, max_rows: int = MAX_ROWS) -> pl.LazyFrame:
    """A Parquet file on disk, looked at but not yet unpacked."""
    with path.open("rb") as file:
        refuse_traps(file, where, max_rows)
    return pl.scan_parquet(path)


def refuse_traps(file: BinaryIO, where: str, max_rows: int = MAX_ROWS) -> None:
    """Refuse a file whose columns nest too deep, or that has more rows than anybody measures."""
    try:
        children, rows = _footer(file)
        levels = _levels(children)
    except (InputError, IndexError, ValueError, OSError, struct.error) as error:
        advice = "export or copy it again"
        raise InputError(
            "is no whole Parquet file (its footer is damaged)", where, advice
        ) from error
    if levels > MAX_LEVELS:
        raise InputError(f"has columns of {levels} levels", where, "use plain columns")
    if rows > max_rows:
        raise InputError(f"has more than {max_rows} rows", where, "sum equal kernels first")


def _footer(file: BinaryIO) -> tuple[list[int], int]:
    """Of every element of the schema how many it holds, in order; and the number of rows."""
    size = file.seek(0, 2)
    file.seek(max(size - 8, 0))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or not 0 < length <= size - 8:
        raise ValueError("no footer")
    file.seek(size - 8 - length)
    return _Compact(file.read(length)).metadata()


def _levels(children: list[int]) -> int:
    """How deep the elements nest: each is followed by those that it holds.

    >>> _levels([2, 0, 1, 0]), _levels([])
    (3, 0)
    """
    open_, deepest = list[int](), 0
    for count in children:
        if count < 0:
            raise ValueError("a negative number of elements")
        while open_ and not open_[-1]:
            open_.pop()
        if open_:
            open_[-1] -= 1
        open_.append(count)
        deepest = max(deepest, len(open_))
    return deepest


class _Compact:
    """Thrift's compact format, as far as it must be known to be passed over."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def metadata(self) -> tuple[list[int], int]:
        children, rows, field = list[int](), 0, 0
        while kind := self._byte():
            field, kind = self._header(kind, field)
            if field == _SCHEMA and kind == _LIST:
                count, kind = self._list()
                children = [self._children() for _ in range(count)]
            elif field == _ROWS and kind in (_I32, _I64):
                rows = self._integer()
            else:
                self._skip(kind, 0)
        return children, rows

    def _children(self) -> int:
        """The field of one element of the schema that says how many it holds."""
        found = field = 0
        while kind := self._byte():
            field, kind = self._header(kind, field)
            if field == _CHILDREN and kind == _I32:
                found = self._integer()
            else:
                self._skip(kind, 0)
        return found

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _varint(self) -> int:
        value, self._at = read_varint(self._data, self._at, len(self._data))
        return value

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _header(self, byte: int, field: int) -> tuple[int, int]:
        delta = byte >> 4
        return (field + delta if delta else self._integer()), byte & 15

    def _list(self) -> tuple[int, int]:
        byte = self._byte()
        count = byte >> 4
        return (self._varint() if count == 15 else count), byte & 15

    def _skip(self, kind: int, depth: int) -> None:
        if depth > _DEEPEST or self._at > len(self._data):
            raise ValueError("nested too deep, or cut")
        if kind in _SIZES:
            self._at += _SIZES[kind]
        elif kind in (_I16, _I32, _I64):
            self._varint()
        elif kind == _BINARY:
            size = self._varint()
            self._at += size
        elif kind == _STRUCT:
            while inner := self._byte():
                self._skip(self._header(inner, 0)[1], depth + 1)
        elif kind in (_LIST, _SET):
            self._skip_members(*self._list(), depth)
        elif kind == _MAP:
            count = self._varint()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._skip_members(1, kinds >> 4, depth)
                self._skip_members(1, kinds & 15, depth)
        else:
            raise ValueError(f"no type {kind}")

    def _skip_members(self, count: int, kind: int, depth: int) -> None:
        """Those of a list: there, truth takes a byte."""
        for _ in range(count):
            self._skip(_BYTE if kind in (_TRUE, _FALSE) else kind, depth + 1)
