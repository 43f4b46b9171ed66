"""Mutations that know what a file is made of: fields, cells, tables, messages, members.

A file is taken apart by its own kind, some parts are replaced by what no profiler writes, and it is
put together again, so that mutations reach behind the parser. Everything follows from one seed.
"""

from __future__ import annotations

import copy
import csv
import gzip
import io
import json
import lzma
import random
import re
import sqlite3
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

NUMBERS: tuple[Any, ...] = (
    0, -1, 1, -0.0, 0.5, 1e-320, 1e308, -1e308, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**30,
    10**400, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
TEXTS = (
    "", " ", "0", "-5", "nan", "inf", "1e999", "1,5", "1.234,5", "0x10", "true", "null", "\x00", "\ud800",
    "\u202egnp", "<script>alert(1)</script>", "=cmd|' /C calc'!A0", "a" * 3000, "_ZN" + "9" * 30 + "a", "_Z" + "J" * 700,
    "[[1, 2]", "(" * 500, "é" * 40, "\n", '"', "rank0", "aten::mm", "ncclAllReduce", "Memcpy HtoD", "ProfilerStep#1",
)  # fmt: skip


def odd(chance: random.Random, deepest: int = 400) -> Any:
    """A value that is none of what belongs there."""
    kind = chance.randrange(8)
    if kind < 3:
        return chance.choice(NUMBERS)
    if kind < 5:
        return chance.choice(TEXTS)
    if kind == 5:
        return _nested(min(chance.choice((3, 60, 400)), deepest))
    return chance.choice(
        (None, True, False, [], {}, [None], [[]], {"": None}, [1, "a", None], [[-1, 2]])
    )


def _nested(levels: int) -> Any:
    found: Any = 7
    for level in range(levels):
        found = [found] if level % 2 else {"a": found}
    return found


# JSON


def _places(node: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    items = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, value in items:
        found.append((node, key))
        _places(value, found)
    return found


def json_mutated(data: bytes, chance: random.Random) -> bytes:
    whole = json.loads(data)
    # Found once: looking again after each change was most of what a file of this kind cost.
    places = _places(whole, [])
    for _ in range(chance.randint(1, 6) if places else 0):
        holder, key = chance.choice(places)
        with suppress(LookupError):  # a change before took this place away
            _change(holder, key, places, chance)
    text = json.dumps(whole)
    with suppress(UnicodeEncodeError):
        text = json.dumps(whole, ensure_ascii=chance.random() < 0.7)
        text.encode()
    return _spelled(text, chance).encode("utf-8", "surrogatepass")


def _spelled(text: str, chance: random.Random) -> str:
    """Now and then what no library writes: a key twice, a huge string, a number of many digits."""
    kind = chance.randrange(12)
    keys = re.findall(r'"[^"\\]{1,40}": ', text[:200_000]) if kind < 3 else []
    if not keys:
        return text
    key, other = chance.choice(keys), chance.choice(keys)
    if kind == 0:
        return text.replace(key, other)
    value = chance.choice(
        ('"' + "x" * 2_000_000 + '"', "1" + "0" * 5000, "0." + "1" * 5000, "1e-5000")
    )
    return text.replace(key, f"{key}{value}, {other}" if kind == 1 else f"{key}{value}, {key}", 1)


def _change(holder: Any, key: Any, places: list[tuple[Any, Any]], chance: random.Random) -> None:
    kind = chance.randrange(7)
    if kind < 3:
        holder[key] = odd(chance)
    elif kind == 3:
        del holder[key]
    elif kind == 4:  # another part of the same file
        other, name = chance.choice(places)
        with suppress(LookupError):
            holder[key] = copy.deepcopy(other[name])
    elif kind == 5 and isinstance(holder, list):
        holder.insert(chance.randint(0, len(holder)), copy.deepcopy(holder[key]))
    elif isinstance(holder, dict):
        holder[chance.choice(TEXTS)] = holder.pop(key)
    else:
        holder[key] = odd(chance)


# Tables as text


def text_mutated(data: bytes, chance: random.Random) -> bytes:
    text = data.decode("utf-8", "replace")
    separator = max(",;\t", key=text.count)
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    for _ in range(chance.randint(1, 4)):
        _change_rows(rows, chance)
    held = io.StringIO(newline="")
    with suppress(csv.Error):
        chosen = chance.choice((separator,) * 6 + (";", "\t", "|"))
        csv.writer(
            held, delimiter=chosen, lineterminator=chance.choice(("\n", "\n", "\r\n", "\r"))
        ).writerows(rows)
    encoding = chance.choice(
        ("utf-8",) * 5 + ("utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252")
    )
    return held.getvalue().encode(encoding, "replace")


def _change_rows(rows: list[list[str]], chance: random.Random) -> None:  # noqa: C901
    if not rows:
        return
    row = chance.choice(rows)
    place = chance.randrange(len(row)) if row else 0
    kind = chance.randrange(10)
    if kind < 4 and row:
        row[place] = str(odd(chance))
    elif kind == 4:  # two columns change places, or one stands for another
        other = chance.randrange(max(len(r) for r in rows) or 1)
        for each in rows:
            if place < len(each) and other < len(each):
                each[place], each[other] = each[other], each[place]
    elif kind == 5:
        for each in rows:
            del each[place : place + 1]
    elif kind == 6:
        for each in rows:
            each[place:place] = each[place : place + 1]
    elif kind == 7:
        rows.remove(row)
    elif kind == 8:
        rows[chance.randrange(len(rows)) :: 3] = [
            list(row) for _ in rows[chance.randrange(len(rows)) :: 3]
        ] or [row]
    else:
        row[:] = row[:place]


# SQLite


def sqlite_mutated(data: bytes, chance: random.Random, folder: Path) -> bytes:
    path = folder / "mutated.sqlite"
    path.write_bytes(data)
    sql = sqlite3.connect(path, isolation_level=None)
    try:
        sql.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
        names = [r[0] for r in sql.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for _ in range(chance.randint(1, 5)):
            with suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
                _change_table(sql, chance.choice(names), chance)
    finally:
        sql.close()
    return path.read_bytes()


def _change_table(sql: sqlite3.Connection, name: str, chance: random.Random) -> None:
    columns = [r[1] for r in sql.execute(f'PRAGMA table_info("{name}")')]
    column, other = chance.choice(columns), chance.choice(columns)
    kind = chance.randrange(9)
    if kind < 4:
        value = odd(chance)
        value = value if isinstance(value, int | float | str | None) else repr(value).encode()
        if isinstance(value, int) and abs(value) >= 2**63:
            value = float(min(value, 10**300))
        where = ' WHERE rowid = (SELECT rowid FROM "%s" ORDER BY random() LIMIT 1)' % name  # noqa: UP031
        sql.execute(
            f'UPDATE "{name}" SET "{column}" = ?' + where * (chance.random() < 0.6), (value,)
        )
    elif kind == 4:
        sql.execute(f'UPDATE "{name}" SET "{column}" = "{other}"')
    elif kind == 5:
        sql.execute(f'ALTER TABLE "{name}" DROP COLUMN "{column}"')
    elif kind == 6:
        sql.execute(f'DELETE FROM "{name}"')
    elif kind == 7:
        sql.execute(f'INSERT INTO "{name}" SELECT * FROM "{name}"')
    else:
        sql.execute(f'DROP TABLE "{name}"')


# Messages of protobuf's wire format


def wire_mutated(data: bytes, chance: random.Random, depth: int = 0) -> bytes:
    fields = _fields(data)
    if not fields:
        return chance.choice(
            (b"", b"\xff" * 12, data * 2, str(odd(chance)).encode("utf-8", "replace"))
        )
    place = chance.randrange(len(fields))
    number, kind, value = fields[place]
    choice = chance.randrange(6)
    if kind == 2 and depth < 6 and choice < 4:
        value = wire_mutated(value, chance, depth + 1)
    elif choice < 3:
        value = (
            _varint(chance.choice((0, 1, 2**31, 2**53 + 1, 2**63, 2**64 - 1)))
            if kind == 0
            else value[::-1]
        )
    elif choice == 3:
        number = chance.randrange(1, 30)
    elif choice == 4:
        fields.insert(place, fields[chance.randrange(len(fields))])
    else:
        kind = chance.randrange(8)
    fields[place] = (number, kind, value)
    if chance.random() < 0.1:
        del fields[chance.randrange(len(fields))]
    return b"".join(_field(*each) for each in fields)


def _fields(data: bytes) -> list[tuple[int, int, bytes]]:
    found, at = [], 0
    while at < len(data):
        tag, at = _number(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            _, end = _number(data, at)
        elif kind == 2:
            size, at = _number(data, at)
            end = at + size
        else:
            end = at + {1: 8, 5: 4}.get(kind, 10**9)
        if end > len(data) or not number:
            return []
        found.append((number, kind, data[at:end]))
        at = end
    return found


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at
    return 0, len(data) + 1


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def _field(number: int, kind: int, value: bytes) -> bytes:
    return _varint(number << 3 | kind) + (_varint(len(value)) if kind == 2 else b"") + value


# Parquet, and saved runs


def parquet_mutated(data: bytes, chance: random.Random) -> bytes:
    table = pl.read_parquet(io.BytesIO(data))
    for _ in range(chance.randint(1, 3)):
        with suppress(
            pl.exceptions.PolarsError, OverflowError, TypeError, ValueError, UnicodeEncodeError
        ):
            table = _change_columns(table, chance)
    held = io.BytesIO()
    try:
        table.write_parquet(held)
    except BaseException:  # what Polars cannot write, it panics about
        return data
    return held.getvalue()


def _change_columns(table: pl.DataFrame, chance: random.Random) -> pl.DataFrame:
    if not table.width:
        return table
    name = chance.choice(table.columns)
    kind = chance.randrange(9)
    if kind < 4:
        # To write 400 levels takes Polars seconds and half a gigabyte.
        value = odd(chance, deepest=60)
        value = float(value) if isinstance(value, int) and abs(value) < 10**300 else value
        return table.with_columns(pl.Series(name, [value] * table.height, strict=False))
    if kind == 4:
        other = chance.choice(table.columns)
        return table.rename({name: other, other: name}) if name != other else table.drop(name)
    if kind == 5:
        return table.drop(name)
    if kind == 6:
        new = chance.choice(
            (
                *TEXTS[:20],
                "flops_fp32",
                "flop/fp32",
                "bytes_dram",
                "label.x",
                "origin.time",
                "id",
                "rank",
            )
        )
        return table.rename({name: new})
    if kind == 7:
        types = (
            pl.String,
            pl.Int8,
            pl.Boolean,
            pl.Binary,
            pl.Categorical,
            pl.Duration,
            pl.Date,
            pl.List(pl.Float64),
            pl.Null,
        )
        return table.with_columns(pl.col(name).cast(chance.choice(types), strict=False))
    return pl.concat([table, table]) if chance.random() < 0.5 else table.head(0)


def zip_mutated(data: bytes, chance: random.Random, folder: Path) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    chosen = chance.choice(list(parts))
    parts[chosen] = mutated(parts[chosen], chance, folder, whole=True)
    if chance.random() < 0.15:
        del parts[chance.choice(list(parts))]
    held = io.BytesIO()
    packing = chance.choice(
        (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2)
    )
    with zipfile.ZipFile(held, "w", packing) as new:
        for name, part in parts.items():
            new.writestr(
                name
                if chance.random() < 0.97
                else f"../{name}\udcff"[: chance.randrange(1, 30)].replace("\udcff", "ÿ"),
                part,
            )
    return held.getvalue()


def tar_mutated(data: bytes, chance: random.Random, folder: Path) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data)) as old, tarfile.open(fileobj=held, mode="w") as new:
        for info in old:
            stream = old.extractfile(info)
            part = b"" if stream is None else stream.read()
            if chance.random() < 0.4:
                part = mutated(part, chance, folder, whole=True)
            info.size = len(part)
            new.addfile(info, io.BytesIO(part))
    return held.getvalue()


# Any of them


def mutated(data: bytes, chance: random.Random, folder: Path, *, whole: bool = False) -> bytes:
    """A file of the same kind with parts of it replaced, and sometimes damaged or packed."""
    try:
        data = _by_kind(data, chance, folder)
    except (
        ValueError,
        LookupError,
        RecursionError,
        csv.Error,
        zipfile.BadZipFile,
        tarfile.TarError,
        sqlite3.Error,
        pl.exceptions.PolarsError,
    ):
        data = _damaged(data, chance)
    if whole:
        return data
    if chance.random() < 0.15:
        data = _damaged(data, chance)
    return _packed(data, chance) if chance.random() < 0.1 else data


def _by_kind(data: bytes, chance: random.Random, folder: Path) -> bytes:
    if data.startswith(b"\x1f\x8b"):
        return gzip.compress(mutated(gzip.decompress(data), chance, folder, whole=True), 1, mtime=0)
    if data.startswith(b"PK\x03\x04"):
        return zip_mutated(data, chance, folder)
    if data[257:262] == b"ustar":
        return tar_mutated(data, chance, folder)
    if data.startswith(b"SQLite format 3"):
        return sqlite_mutated(data, chance, folder)
    if data.startswith(b"PAR1"):
        return parquet_mutated(data, chance)
    if data.lstrip()[:1] in (b"{", b"["):
        return json_mutated(data, chance)
    if data.startswith(b"\x0a") and _fields(data):
        return wire_mutated(data, chance)
    return text_mutated(data, chance)


def _damaged(data: bytes, chance: random.Random) -> bytes:
    kind = chance.randrange(4)
    at = chance.randrange(len(data)) if data else 0
    if kind == 0:
        return data[:at]
    if kind == 1:
        flipped = bytearray(data)
        for _ in range(chance.randint(1, 8) if data else 0):
            flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
        return bytes(flipped)
    if kind == 2:
        return data[:at] + data[at // 2 :]
    return (
        chance.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"\n\n", b"[", b"==PROF== x\n"))
        + data
    )


def _packed(data: bytes, chance: random.Random) -> bytes:
    kind = chance.randrange(3)
    if kind == 0:
        return _damaged(gzip.compress(data, 1), chance)
    if kind == 1:
        return lzma.compress(data, preset=0)
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        file.writestr("a", data)
        file.writestr("b", data)
    return held.getvalue()
