"""Claims: which process is measuring which case, so that two never measure the same one."""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

import msgspec

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
