"""Our own saved runs (`.troof`), read like any other file."""

from __future__ import annotations

from dataclasses import dataclass

from timeroof.core.profile import Profile
from timeroof.core.run_file import SavedRun, load_run
from timeroof.read.formats import ReadOptions
from timeroof.read.open import Entry, Input
from timeroof.read.text import plain_file

_ZIP = b"PK\x03\x04"


def load_entry(entry: Entry) -> SavedRun:
    """The run of an entry, with the machine that it was judged on."""
    with plain_file(entry, ".troof") as path:
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
