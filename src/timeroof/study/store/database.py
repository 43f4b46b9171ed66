"""The file: opened with care, written in one transaction per case, never half."""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

import msgspec

from timeroof.core.errors import InputError, SchemaError, UsageError
from timeroof.core.files import check_schema
from timeroof.core.machine import Machine
from timeroof.study.store import cases as case_rows
from timeroof.study.store.cases import Kept

# Claims: which process is measuring which case, so that two never measure the same one.


CREATE = """
CREATE TABLE IF NOT EXISTS claims (
    case_key TEXT NOT NULL UNIQUE,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    process_started TEXT NOT NULL,
    claimed REAL NOT NULL
)
"""
# A claim of another computer, whose processes we cannot see, holds for so long.
FOREIGN_S = 3600.0


class Owner(msgspec.Struct, frozen=True):
    """A process: its number may be used again, so its start belongs to its name."""

    host: str
    pid: int
    started: str

    @classmethod
    def this(cls) -> Owner:
        """The process that asks."""
        return cls(platform.node(), os.getpid(), process_start(os.getpid()) or "")


def process_start(pid: int) -> str | None:
    """When a process started, in the system's own words; None where it is gone.

    >>> process_start(os.getpid()) is not None
    True
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
        return _is_there(pid)
    except OSError:
        return _is_there(pid)
    words = stat.rpartition(")")[2].split()
    # A dead process that nobody has waited for yet (Z) writes nothing any more.
    return None if words[0] in "ZX" else words[19]


def _is_there(pid: int) -> str | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return "there"
    return "there"


def is_alive(owner: Owner, claimed: float, now: float) -> bool:
    """Whether a claim still holds."""
    if owner.host != platform.node():
        return now - claimed < FOREIGN_S
    return process_start(owner.pid) == owner.started


def holder_of(connection: sqlite3.Connection, case_key: str) -> Owner | None:
    """The living process that holds a case."""
    row = connection.execute(
        "SELECT host, pid, process_started, claimed FROM claims WHERE case_key = ?", (case_key,)
    ).fetchone()
    if row is None:
        return None
    owner = Owner(row[0], row[1], row[2])
    return owner if is_alive(owner, row[3], time.time()) else None


def living(connection: sqlite3.Connection) -> list[Owner]:
    """All processes that are at work on the store."""
    rows = connection.execute("SELECT host, pid, process_started, claimed FROM claims").fetchall()
    owners = {Owner(*row[:3]) for row in rows if is_alive(Owner(*row[:3]), row[3], time.time())}
    return sorted(owners - {Owner.this()}, key=lambda o: o.pid)


def put(connection: sqlite3.Connection, case_key: str, owner: Owner) -> None:
    """Note a claim; that of a dead process is taken over."""
    connection.execute(
        "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?)",
        (case_key, owner.host, owner.pid, owner.started, time.time()),
    )


def drop(connection: sqlite3.Connection, case_key: str) -> None:
    """Forget a claim."""
    connection.execute("DELETE FROM claims WHERE case_key = ?", (case_key,))


def drop_all(connection: sqlite3.Connection, owner: Owner) -> None:
    """Forget all claims of a process that stops."""
    with suppress(sqlite3.Error):
        connection.execute(
            "DELETE FROM claims WHERE host = ? AND pid = ? AND process_started = ?",
            (owner.host, owner.pid, owner.started),
        )


STORE_SCHEMA = "timeroof.study/1"
WAIT_S = 60.0
_META = "CREATE TABLE IF NOT EXISTS meta (key TEXT NOT NULL UNIQUE, value TEXT NOT NULL)"
_MACHINES = (
    "CREATE TABLE IF NOT EXISTS machines (machine TEXT NOT NULL UNIQUE, document TEXT NOT NULL)"
)


class ForeignFileError(InputError):
    """A file that is no store of a study: it is left where it is."""


class DamagedStoreError(InputError):
    """A store that SQLite or a reader stumbles over."""


class Store:
    """The cases of a study on disk; only the driver of a study writes to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._owner = Owner.this()
        self._file: sqlite3.Connection | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
            self._prepare()
        except (OSError, sqlite3.Error) as error:
            self.close()
            raise self._trouble(error) from error
        except InputError:
            self.close()
            raise

    def _prepare(self) -> None:
        found = self._schema()
        if found is not None and not found.startswith(STORE_SCHEMA.partition("/")[0]):
            raise self._foreign()
        if found is not None:
            check_schema(found, STORE_SCHEMA, str(self.path))
        self._sql.execute("PRAGMA journal_mode = WAL")
        # A case that is told to be kept is on the disk, whatever happens to the machine.
        self._sql.execute("PRAGMA synchronous = FULL")
        with self._writing():
            for table in (_META, _MACHINES, case_rows.CREATE, CREATE):
                self._sql.execute(table)
            self._sql.execute("INSERT OR IGNORE INTO meta VALUES ('schema', ?)", (STORE_SCHEMA,))

    def _schema(self) -> str | None:
        """The schema of the file; None where it is new. Another program's file is left alone."""
        names = {r[0] for r in self._sql.execute("SELECT name FROM sqlite_master")}
        if not names:
            return None
        if "meta" not in names:
            raise self._foreign()
        row = self._sql.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
        return str(row[0]) if row else ""

    def _foreign(self) -> ForeignFileError:
        return ForeignFileError(
            "is a database, but no store of a study, and is left as it is",
            where=str(self.path),
            advice="name another file with --db",
        )

    @property
    def _sql(self) -> sqlite3.Connection:
        assert self._file is not None
        return self._file

    def claim(self, case_key: str, *, again: bool = False) -> bool:
        """Take a case to measure; False where it is finished or another process has it.

        `again` takes a failed case once more.
        """
        try:
            with self._writing():
                row = self._sql.execute(
                    "SELECT status FROM cases WHERE case_key = ?", (case_key,)
                ).fetchone()
                if row is not None and not (again and row[0] == "failed"):
                    return False
                holder = holder_of(self._sql, case_key)
                if holder is not None and holder != self._owner:
                    return False
                put(self._sql, case_key, self._owner)
                return True
        except sqlite3.Error as error:
            raise self._trouble(error) from error

    def keep(self, kept: Kept, machine: Machine | None) -> None:
        """Write a finished case and give up the claim, in one transaction."""
        try:
            with self._writing():
                self._sql.execute(case_rows.INSERT, case_rows.row_of(kept))
                if machine is not None:
                    document = msgspec.json.encode(machine).decode()
                    self._sql.execute(
                        "INSERT OR REPLACE INTO machines VALUES (?, ?)", (kept.machine, document)
                    )
                drop(self._sql, kept.case_key)
        except sqlite3.Error as error:
            raise self._trouble(error) from error

    def release(self) -> None:
        """Give up all claims of this process."""
        drop_all(self._sql, self._owner)

    def finished(self) -> dict[str, str]:
        """The status of every finished case, by key."""
        try:
            return dict(self._sql.execute("SELECT case_key, status FROM cases").fetchall())
        except sqlite3.Error as error:
            raise self._trouble(error) from error

    def read(self, keys: Iterable[str] | None = None) -> list[Kept]:
        """Finished cases, in the order of `keys` where they are given."""
        columns = case_rows.COLUMNS
        try:
            rows = self._sql.execute(f"SELECT {', '.join(columns)} FROM cases").fetchall()
            kept = [case_rows.kept_of(dict(zip(columns, row, strict=True))) for row in rows]
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            raise self._trouble(error) from error
        if keys is None:
            return kept
        by_key = {k.case_key: k for k in kept}
        return [by_key[key] for key in keys if key in by_key]

    def others(self) -> list[Owner]:
        """Other processes at work on this store."""
        try:
            return living(self._sql)
        except sqlite3.Error as error:
            raise self._trouble(error) from error

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with suppress(sqlite3.Error):
                self._file.close()
            self._file = None

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(InputError, AssertionError):
            self.release()
        self.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction; nothing of it stays where it fails."""
        self._sql.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._sql.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._sql.execute("ROLLBACK")
            raise

    def _trouble(self, error: Exception) -> InputError:
        """What happened to the file, and what to do; finished cases are where they were."""
        text = str(getattr(error, "strerror", None) or error)
        advice = "check that the folder exists and may be written to"
        if "full" in text or "disk I/O" in text or "No space" in text:
            advice = "make room and continue with --resume: finished cases are kept"
        elif "not a database" in text:
            return ForeignFileError(
                "is no store of a study, nor any database",
                where=str(self.path),
                advice="name another file with --db",
            )
        elif "malformed" in text or isinstance(error, msgspec.MsgspecError):
            return DamagedStoreError(
                f"the store is damaged ({text})",
                where=str(self.path),
                advice="--fresh keeps it under another name and measures all; --db names another"
                " file",
            )
        elif "locked" in text:
            advice = "another process holds it: try again with --resume"
        return InputError(f"the store cannot be used ({text})", where=str(self.path), advice=advice)


# An old store kept under another name, so that a new one may begin.


def set_aside(path: Path) -> Path | None:
    """Give a store the next free number in its name; None where there is none.

    Its journal goes with it. One that another process works on stays.
    """
    if not path.exists():
        return None
    # A damaged store, and one of another version, may go too; what is no store stays.
    with suppress(DamagedStoreError, SchemaError), Store(path) as old:
        if old.others():
            raise UsageError(
                f"another process is at work on {path}", advice="wait for it, or use --resume"
            )
    number = 1
    while (kept := path.with_name(f"{path.stem}.{number}{path.suffix}")).exists():
        number += 1
    for tail in ("", "-wal", "-shm"):
        part = path.with_name(path.name + tail)
        if part.exists():
            part.rename(kept.with_name(kept.name + tail))
    return kept
