"""Our own saved runs (`.troof`), read like any other file."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from timeroof.core.profile import Profile
from timeroof.core.run_file import SavedRun, load_run
from timeroof.sources.files.format import ReadOptions
from timeroof.sources.files.opening import Entry, Input

_ZIP = b"PK\x03\x04"


@contextmanager
def file_on_disk(entry: Entry, suffix: str) -> Iterator[Path]:
    """A path that holds an entry's bytes: its own, or a copy for libraries that need a file."""
    if entry.plain_path is not None:
        yield entry.plain_path
        return
    with tempfile.TemporaryDirectory(prefix="timeroof-") as folder:
        path = Path(folder) / f"input{suffix}"
        with path.open("wb") as copy, entry.open() as stream:
            shutil.copyfileobj(stream, copy, 2**20)
        yield path


def load_entry(entry: Entry) -> SavedRun:
    """The run of an entry, with the machine that it was judged on."""
    with file_on_disk(entry, ".troof") as path:
        return load_run(path)


@dataclass(frozen=True)
class SavedRunFormat:
    """A zip with meta.json first."""

    name: str = "timeroof"
    title: str = "timeroof saved run"

    def sniff(self, found: Input) -> bool:
        """A zip whose first member is meta.json."""
        head = found.only.head[:60]
        return head.startswith(_ZIP) and b"meta.json" in head

    def read(self, found: Input, options: ReadOptions) -> Profile:
        """The profile alone."""
        return load_entry(found.only).profile


FORMAT = SavedRunFormat()
