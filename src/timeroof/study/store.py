"""The store of a study: one SQLite file, one transaction per case, never half."""

from __future__ import annotations

import sqlite3
import statistics
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import msgspec

from timeroof.core.errors import InputError, SchemaError, UsageError, reason_of
from timeroof.core.files import check_schema
from timeroof.core.machine import Machine, check_machine
from timeroof.model.stats import spread
from timeroof.study.case import Result

STORE_SCHEMA = "timeroof.study/1"
WAIT_S = 60.0
_COLUMNS = {
    "case_key": "TEXT NOT NULL UNIQUE",
    "status": "TEXT NOT NULL CHECK (status IN ('done', 'failed', 'unsupported'))",
    "error": "TEXT",
    **dict.fromkeys(
        ("kernel", "params", "pass", "precision", "framework", "device"), "TEXT NOT NULL"
    ),
    "threads": "INTEGER NOT NULL",
    **dict.fromkeys(("cache", "variant"), "TEXT NOT NULL"),
    **dict.fromkeys(("time_s", "time_spread"), "REAL"),
    "samples_s": "TEXT NOT NULL",
    "launches": "REAL",
    "amounts": "TEXT NOT NULL",
    "contraction_flops": "REAL",
    **dict.fromkeys(("origins", "labels"), "TEXT NOT NULL"),
    "load": "REAL",
    **dict.fromkeys(("machine", "software", "created"), "TEXT NOT NULL"),
}
# Columns that hold JSON.
_JSON = ("params", "samples_s", "amounts", "origins", "labels")
_TABLES = (
    "meta (key TEXT NOT NULL UNIQUE, value TEXT NOT NULL)",
    f"cases ({', '.join(f'{name} {kind}' for name, kind in _COLUMNS.items())})",
)
_INSERT = (
    f"INSERT OR REPLACE INTO cases ({', '.join(_COLUMNS)})"
    f" VALUES ({', '.join(f':{c}' for c in _COLUMNS)})"
)
# What content that is none of ours raises: texts that are no UTF-8, numbers beyond any range,
# columns of another type, nesting.
_CONTENT = (
    msgspec.MsgspecError, ValueError, TypeError, KeyError, ArithmeticError, RecursionError,
)  # fmt: skip
# Entries of `meta` that hold the machine of a node.
_MACHINE = "machine "
Cell = str | int | float | None


class Kept(msgspec.Struct, kw_only=True, frozen=True):
    """A result with its place in the store."""

    case_key: str
    result: Result
    machine: str = ""
    software: str = ""

    def row(self) -> dict[str, Cell]:
        """The columns of the case."""
        values = {
            name: value
            for part in (self.result.case, self.result, self)
            for name, value in msgspec.structs.asdict(part).items()
        }
        values["pass"] = values["pass_name"]
        samples = self.result.samples_s
        values["time_s"] = statistics.median(samples) if samples else None
        values["time_spread"] = spread(samples)
        values |= {name: msgspec.json.encode(values[name]).decode() for name in _JSON}
        return {name: values[name] for name in _COLUMNS}

    @classmethod
    def of(cls, row: dict[str, Cell]) -> Kept:
        """A row as it was kept."""
        values: dict[str, object] = dict(row)
        values |= {name: msgspec.json.decode(str(row[name])) for name in _JSON}
        values["case"] = values | {"pass_name": row["pass"]}
        values["result"] = values | {}
        return msgspec.convert(values, cls)


class ForeignFileError(InputError):
    """A file that is no store of a study: it is left where it is."""


class DamagedStoreError(InputError):
    """A store that SQLite or a reader stumbles over."""


class Store(AbstractContextManager["Store"]):
    """The cases of a study on disk; only the driver of a study writes to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._told():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._sql = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
        try:
            with self._told():
                self._prepare()
        except InputError:
            self.close()
            raise

    def _prepare(self) -> None:
        self._check_schema()
        self._sql.execute("PRAGMA journal_mode = WAL")
        # A case that is told to be kept is on the disk, whatever happens to the machine.
        self._sql.execute("PRAGMA synchronous = FULL")
        with self._writing():
            for table in _TABLES:
                self._sql.execute(f"CREATE TABLE IF NOT EXISTS {table}")
            self._sql.execute("INSERT OR IGNORE INTO meta VALUES ('schema', ?)", (STORE_SCHEMA,))

    def _check_schema(self) -> None:
        """Refuse what is not a new file and no store that we know: it is left alone."""
        names = {r[0] for r in self._sql.execute("SELECT name FROM sqlite_master")}
        if not names:
            return
        rows = (
            self._sql.execute("SELECT value FROM meta WHERE key = 'schema'").fetchall()
            if "meta" in names
            else []
        )
        found = str(rows[0][0]) if rows else ""
        if not found.startswith(STORE_SCHEMA.partition("/")[0]):
            raise self._foreign("is a database, but no store of a study, and is left as it is")
        check_schema(found, STORE_SCHEMA, str(self.path))

    def keep(self, kept: Kept) -> None:
        """Write a finished case in one transaction."""
        with self._told(), self._writing():
            self._sql.execute(_INSERT, kept.row())

    def keep_machine(self, node: str, kind: str, machine: Machine) -> None:
        """Write the machine of a node: cases that it ran are judged on it."""
        text = msgspec.json.encode(machine).decode()
        with self._told(), self._writing():
            self._sql.execute(
                "INSERT OR REPLACE INTO meta VALUES (?, ?)", (_machine_key(node, kind), text)
            )

    def machines(self) -> dict[tuple[str, str], Machine]:
        """The machines of nodes, by node and kind of machine."""
        with self._told():
            rows = self._sql.execute("SELECT key, value FROM meta").fetchall()
            found = {
                str(key): msgspec.json.decode(value, type=Machine)
                for key, value in rows
                if str(key).startswith(_MACHINE)
            }
            for machine in found.values():
                check_machine(machine, str(self.path))
            places = {key: msgspec.json.decode(key.removeprefix(_MACHINE)) for key in found}
            return {(str(places[k][0]), str(places[k][1])): found[k] for k in found}

    def finished(self) -> dict[str, str]:
        """The status of every finished case, by key."""
        with self._told():
            return dict(self._sql.execute("SELECT case_key, status FROM cases").fetchall())

    def read(self, keys: Iterable[str] | None = None) -> list[Kept]:
        """Finished cases, in the order of `keys` where they are given."""
        with self._told():
            rows = self._sql.execute(f"SELECT {', '.join(_COLUMNS)} FROM cases").fetchall()
            kept = [Kept.of(dict(zip(_COLUMNS, row, strict=True))) for row in rows]
        if keys is None:
            return kept
        by_key = {k.case_key: k for k in kept}
        return [by_key[key] for key in keys if key in by_key]

    def close(self) -> None:
        """Close the file."""
        with suppress(sqlite3.Error):
            self._sql.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._sql.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._sql.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._sql.execute("ROLLBACK")
            raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Whatever happens to the file is an error that says what to do."""
        try:
            yield
        except InputError:
            raise
        except (OSError, sqlite3.Error) as error:
            raise self._trouble(error) from error
        except _CONTENT as error:
            raise self._damaged(reason_of(error)) from error

    def _foreign(self, what: str) -> ForeignFileError:
        return ForeignFileError(what, where=str(self.path), advice="name another file with --db")

    def _trouble(self, error: Exception) -> InputError:
        text = str(getattr(error, "strerror", None) or error)
        advice = "check that the folder exists and may be written to"
        if "full" in text or "disk I/O" in text or "No space" in text:
            advice = "make room and continue with --resume: finished cases are kept"
        elif "not a database" in text:
            return self._foreign("is no store of a study, nor any database")
        elif isinstance(error, sqlite3.DatabaseError) and _is_damage(error):
            return self._damaged(text)
        elif "locked" in text:
            advice = "another process holds it: try again with --resume"
        return InputError(f"the store cannot be used ({text})", where=str(self.path), advice=advice)

    def _damaged(self, reason: str) -> DamagedStoreError:
        return DamagedStoreError(
            f"the store is damaged ({reason})",
            where=str(self.path),
            advice="--fresh keeps it under another name and measures all; --db names another file",
        )

    def fold(self) -> None:
        """Bring the journal into the file; refused where another process has it open."""
        self._sql.execute("PRAGMA busy_timeout = 0")
        try:
            self._sql.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            if "locked" not in str(error):  # a damaged file is moved as it is
                return
            raise UsageError(
                f"another process is at work on {self.path}", advice="wait for it to end"
            ) from error


def _machine_key(node: str, kind: str) -> str:
    return _MACHINE + msgspec.json.encode([node, kind]).decode()


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether the file itself is wrong: pages, or tables and columns of another shape."""
    text = str(error)
    return any(word in text for word in ("malformed", "decode", "no such column", "corrupt"))


def set_aside(path: Path) -> Path | None:
    """Give a store the next free number in its name; None where there is none. Its journal goes
    with it. One that another process works on stays."""
    if not path.exists():
        return None
    # A damaged store, and one of another version, may go too; what is no store stays.
    with suppress(DamagedStoreError, SchemaError), Store(path) as old:
        old.fold()
    number = 1
    while (kept := path.with_name(f"{path.stem}.{number}{path.suffix}")).exists():
        number += 1
    for tail in ("", "-wal", "-shm"):
        part = path.with_name(path.name + tail)
        if part.exists():
            part.rename(kept.with_name(kept.name + tail))
    return kept
