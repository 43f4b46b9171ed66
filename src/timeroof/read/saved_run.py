"""Our own saved runs (`.troof`), read like any other file."""

from __future__ import annotations

from dataclasses import replace

from timeroof.core.profile import Profile
from timeroof.core.run_file import SavedRun, load_run
from timeroof.read.formats import ReadOptions
from timeroof.read.open import Entry, Input
from timeroof.read.text import plain_file
from timeroof.work.saved_calls import unpacked


def load_entry(entry: Entry) -> SavedRun:
    """The run of an entry, with the machine that it was judged on and its recorded calls."""
    with plain_file(entry, ".troof") as path:
        run = load_run(path)
        whole = _with_calls(run, str(path))
        kinds = {name: _with_calls(kind, str(path)) for name, kind in run.kinds.items()}
        return replace(run, profile=replace(whole, kinds=kinds))


def _with_calls(run: SavedRun, where: str) -> Profile:
    return replace(run.profile, calls=unpacked(run.calls, where))


def read(found: Input, options: ReadOptions) -> Profile:
    """The profile alone; its amounts are counted already."""
    return replace(load_entry(found.only).profile, calls={})
