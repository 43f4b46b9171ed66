"""An old store kept under another name, so that a new one may begin."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from timeroof.core.errors import SchemaError, UsageError
from timeroof.study.store.database import DamagedStoreError, Store


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
