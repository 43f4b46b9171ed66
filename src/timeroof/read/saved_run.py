"""Our own saved runs (`.troof`), read like any other file."""

from __future__ import annotations

from timeroof.core.profile import Profile
from timeroof.core.run_file import SavedRun, load_run
from timeroof.read.formats import ReadOptions
from timeroof.read.open import Entry, Input
from timeroof.read.text import plain_file


def load_entry(entry: Entry) -> SavedRun:
    """The run of an entry, with the machine that it was judged on."""
    with plain_file(entry, ".troof") as path:
        return load_run(path)


def read(found: Input, options: ReadOptions) -> Profile:
    """The profile alone."""
    return load_entry(found.only).profile
