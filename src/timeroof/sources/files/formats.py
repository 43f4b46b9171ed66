"""All formats, and which of them a file's content is of. A file's name never decides."""

from __future__ import annotations

import importlib
from functools import cache

from timeroof.errors import UsageError
from timeroof.sources.files.format import Format
from timeroof.sources.files.opening import Entry, Input

# In the order of asking: formats with a magic number first, free text last.
MODULES = (
    "saved_run",
    "ncu_report",
    "nsys_sqlite",
    "rocpd",
    "xplane",
    "rocprofv3_json",
    "execution_trace",
    "kineto",
    "omniperf",
    "rocprofv3_csv",
    "rocprof_csv",
    "nsys_csv",
    "nvprof_csv",
    "nvprof_console",
    "onednn_verbose",
    "ncu_csv",
    "ncu_console",
    "tidy",
)
_PACKAGE = "timeroof.sources.files"
# Formats that are offered a folder as a whole, where they do not say so themselves.
_READ_FOLDERS = ("omniperf",)


@cache
def all_formats() -> tuple[Format, ...]:
    """Every format that this installation has."""
    found: list[Format] = []
    for name in MODULES:
        try:
            module = importlib.import_module(f"{_PACKAGE}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{_PACKAGE}.{name}":
                raise
            continue
        found += getattr(module, "FORMATS", None) or [module.FORMAT]
    return tuple(found)


def format_named(name: str) -> Format:
    """A format by the name that `--format` takes."""
    known = {f.name: f for f in all_formats()}
    if name not in known:
        raise UsageError(
            f"no format is called {name!r}", advice=f"use one of {', '.join(sorted(known))}"
        )
    return known[name]


def reads_folders(chosen: Format) -> bool:
    """Whether a format makes one profile of several files."""
    return bool(getattr(chosen, "reads_folders", chosen.name in _READ_FOLDERS))


def sniffed(found: Input) -> Format | None:
    """The format of one entry's content, or of a folder as a whole."""
    whole = len(found.entries) != 1
    for candidate in all_formats():
        if whole and not reads_folders(candidate):
            continue
        if _sniffs(candidate, found):
            return candidate
    return None


def sniffed_entry(entry: Entry) -> Format | None:
    """The format of one file among others."""
    return sniffed(Input(entry.name, (entry,)))


def _sniffs(candidate: Format, found: Input) -> bool:
    try:
        return candidate.sniff(found)
    except Exception:
        # A sniff that stumbles over strange bytes has its answer.
        return False
