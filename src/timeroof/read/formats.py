"""All formats, and which of them a file's content is of. A file's name never decides.

A new format is one file that ends in ``FORMAT = …`` and one line in `LISTED`. Readers are
imported when a file may be theirs: to read one small file, seventeen others would cost more.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Protocol

from timeroof.core.errors import InputError, UsageError, trace_ignored
from timeroof.core.profile import Profile
from timeroof.read.open import Entry, Input

# What every format's file provides: a name, a sniff and a read; how it says what it found.


Progress = Callable[[str, float], None]


def silent(what: str, share: float) -> None:
    """A progress function that says nothing."""


@dataclass(frozen=True)
class ReadOptions:
    """What a reader may be told."""

    progress: Progress = field(default=silent)
    # A second input that lends a trace its shapes (an ExecutionTrace beside a Kineto trace).
    companions: tuple[Input, ...] = ()
    # What the caller knows of the chip where the file does not say it: a compute capability
    # ("7.0", "gfx942") or an architecture's name ("Volta").
    architecture: str | None = None


class Format(Protocol):
    """One profiler format. A format's module ends in ``FORMAT = …``; formats.py lists them all.

    A format that makes one profile of several files (a workload folder, one metric per file)
    is listed with ``folders=True``: folders and archives are then offered to it whole, as one
    Input with many entries. All others see one entry at a time, and several files of theirs
    are taken for ranks of one run.
    """

    @property
    def name(self) -> str:
        """Short stable name, as `--format` takes it: "kineto", "ncu-csv", "nsys-sqlite"."""
        ...

    @property
    def title(self) -> str:
        """What people call it."""
        ...

    def sniff(self, found: Input) -> bool:
        """Whether the content (never the file's name) is of this format; cheap, never raises."""
        ...

    def read(self, found: Input, options: ReadOptions) -> Profile:
        """The profile that the input holds, or an InputError that says what is wrong with it."""
        ...


# What a file's first bytes must hold to be of a format: asked before its reader is imported.
#
# A hint is a necessary condition, cheap and without any reader. It may let other files through,
# since the format's own `sniff` decides; it never holds back a file that the sniff accepts
# (`tests/unit/sources/test_formats.py`).


SQLITE = b"SQLite format 3\x00"
SNIFF_BYTES = 64 * 2**20
# Tables of Nsight Systems and of rocprofv3, as regular expressions.
NSYS_TABLES = (
    r"StringIds|CUPTI_ACTIVITY_KIND_|META_DATA_EXPORT|EXPORT_META_DATA|TARGET_INFO_SESSION"
)
ROCPD_TABLES = r"rocpd_"


@dataclass(frozen=True)
class Start:
    """The beginning of an entry, in the forms that hints ask for."""

    entry: Entry

    @cached_property
    def words(self) -> bytes:
        """Lower case without zeros, so that UTF-16 shows its words like any other text."""
        return self.entry.head.replace(b"\x00", b"").lower()


Hint = Callable[[Start], bool]


def anything(_start: Start) -> bool:
    """For formats that have no mark: their sniff is always asked."""
    return True


def begins(*magics: bytes) -> Hint:
    """The first bytes are one of these."""
    return lambda start: start.entry.head.startswith(magics)


def has(*alternatives: tuple[bytes, ...]) -> Hint:
    """All words of one of the alternatives occur; words are in lower case."""
    return lambda start: any(all(w in start.words for w in words) for words in alternatives)


def matches(*patterns: bytes) -> Hint:
    """One of these patterns is found; letters are in lower case."""
    return lambda start: any(re.search(pattern, start.words) for pattern in patterns)


def both(one: Hint, other: Hint) -> Hint:
    """Two hints hold."""
    return lambda start: one(start) and other(start)


def creates(tables: str) -> Hint:
    """An SQLite file with a table of such a name."""
    return lambda start: holds_table(start.entry, tables)


def holds_table(entry: Entry, tables: str) -> bool:
    """Whether an SQLite file creates a table whose name matches the pattern; never raises."""
    if not entry.head.startswith(SQLITE):
        return False
    pattern = re.compile(rb"CREATE TABLE [`\"']?(?:" + tables.encode() + rb")")
    if pattern.search(entry.head):
        return True
    try:
        seen, tail = 0, b""
        for chunk in entry.chunks():
            if pattern.search(tail + chunk):
                return True
            seen, tail = seen + len(chunk), chunk[-256:]
            if seen > SNIFF_BYTES:
                return False
    except InputError:
        return False
    return False


_PACKAGE = "timeroof.read"


@dataclass(frozen=True)
class Listed:
    """A reader's module, the names of its formats, and what a file of theirs must look like."""

    module: str
    names: tuple[str, ...]
    hint: Hint = anything
    # One run is many files: folders and archives are offered whole.
    folders: bool = False

    def formats(self) -> tuple[Format, ...]:
        """The formats themselves: this imports the reader."""
        module = importlib.import_module(f"{_PACKAGE}.{self.module}")
        return getattr(module, "FORMATS", None) or (module.FORMAT,)


# The name that a plane of XLA's begins with is field 2 of a message.
_NAME_FIELD = b"\x12"
_KERNEL_COLUMNS = (b"kernel_name", b"kernelname")
_DISPATCH_COLUMNS = (b"gpu_id", b"gpu-id", b"queue-id", b"dispatch_id", b"index", b"sum(ns)")
_NCU_NAMES = (b"kernel name", b"demangled name", b"function name")
_AMD_METRICS = (b"sq_insts_", b"fetchsize", b"writesize", b"fetch_size", b"tcc_", b"tcp_")

# In the order of asking: formats with a magic number first, free text last.
LISTED = (
    Listed("saved_run", ("timeroof",), begins(b"PK\x03\x04")),
    Listed("nvidia.ncu_report", ("ncu-report",), begins(b"NVR\x00")),
    Listed("nvidia.nsys_sqlite", ("nsys-sqlite",), creates(NSYS_TABLES)),
    Listed("amd.rocpd", ("rocpd",), creates(ROCPD_TABLES)),
    Listed(
        "xla.xplane",
        ("xplane",),
        both(begins(b"\x0a"), has((_NAME_FIELD,))),
    ),
    Listed("amd.rocprofv3_json", ("rocprofv3-json",), has((b'"rocprofiler-sdk-tool"',))),
    Listed(
        "torch.execution_trace",
        ("execution-trace",),
        has((b'"schema"', b'"nodes"'), (b'"workload_graph"',)),
    ),
    Listed(
        "torch.kineto",
        ("kineto",),
        has((b'"ph"',), (b'"traceevents"',), (b'"deviceproperties"', b'"schemaversion"')),
    ),
    Listed(
        "amd.omniperf",
        ("omniperf",),
        has((b"gpu_arch",), (b"gpu_soc",), (b"hbmbw", b"l2bw")),
        folders=True,
    ),
    Listed(
        "amd.rocprofv3_csv",
        ("rocprofv3-csv",),
        has(
            (b"kind", b"kernel_name", b"start_timestamp", b"end_timestamp"),
            (b"kernel_name", b"counter_name", b"counter_value"),
            (b"direction", b"source_agent_id", b"destination_agent_id"),
            (b"name", b"calls", b"totaldurationns"),
            (b"domain", b"function", b"correlation_id"),
            (b"node_id", b"agent_type", b"product_name"),
        ),
        folders=True,
    ),
    Listed(
        "amd.rocprof_csv",
        ("rocprof-csv",),
        has(
            *((name, place) for name in _KERNEL_COLUMNS for place in _DISPATCH_COLUMNS),
            *((b"metric name", b"metric value", counter) for counter in _AMD_METRICS),
        ),
    ),
    Listed(
        "nvidia.nsys_csv",
        ("nsys-csv",),
        has((b"total time", b"min", b"max"), (b"start", b"duration", b"corrid")),
    ),
    Listed(
        "nvidia.nvprof_csv",
        ("nvprof-csv",),
        matches(
            rb"(?:time\(%\)|start|invocations)\s*\"?\s*[,;\t]",
            rb"[,;\t]\s*\"?\s*(?:time\(%\)|invocations)",
        ),
    ),
    Listed(
        "nvidia.nvprof_console",
        ("nvprof-console",),
        matches(
            rb"[\d=]== (?:nvprof is profiling|profiling |metric result)",
            rb"time\(%\)\s+time\s+calls|start\s+duration\s|invocations\s+(?:metric|event) name",
        ),
    ),
    Listed(
        "onednn",
        ("onednn-verbose",),
        has((b"onednn_verbose,",), (b"dnnl_verbose,",), (b"mkldnn_verbose,",)),
    ),
    Listed(
        "nvidia.ncu_csv",
        ("ncu-csv",),
        has(
            (b"kernel name", b"metric name", b"metric value"),
            *((name, b"__") for name in _NCU_NAMES),
            (b"==prof== ",),
        ),
        folders=True,
    ),
    Listed("nvidia.ncu_console", ("ncu-console",), has((b"metric name", b"---"))),
    Listed("tidy", ("tidy-csv", "tidy-parquet"), has((b"name", b"time_s"), (b"par1",))),
)


@cache
def all_formats() -> tuple[Format, ...]:
    """Every format, its reader imported."""
    return tuple(f for listed in LISTED for f in listed.formats())


def format_named(name: str) -> Format:
    """A format by the name that `--format` takes."""
    known = {n: listed for listed in LISTED for n in listed.names}
    if name not in known:
        raise UsageError(
            f"no format is called {name!r}", advice=f"use one of {', '.join(sorted(known))}"
        )
    return next(f for f in known[name].formats() if f.name == name)


def reads_folders(chosen: Format) -> bool:
    """Whether a format makes one profile of several files."""
    return any(listed.folders and chosen.name in listed.names for listed in LISTED)


def sniffed(found: Input) -> Format | None:
    """The format of one entry's content, or of a folder as a whole."""
    whole = len(found.entries) != 1
    asked = [listed for listed in LISTED if listed.folders or not whole]
    for listed in _hinted(asked, found.entries):
        for candidate in _imported(listed):
            if _sniffs(candidate, found):
                return candidate
    return None


def _imported(listed: Listed) -> tuple[Format, ...]:
    """The formats of a reader; none where it does not import, so that others may read the file."""
    try:
        return listed.formats()
    except ImportError:
        trace_ignored(f"the reader {listed.module} does not import")
        return ()


def _hinted(asked: list[Listed], entries: tuple[Entry, ...]) -> Iterator[Listed]:
    """Those that an entry may be of, in order, each looked for when the one before was not it."""
    if len(entries) == 1:
        start = Start(entries[0])
        yield from (listed for listed in asked if listed.hint(start))
        return
    hinted: list[Listed] = []
    for entry in entries:
        start = Start(entry)
        hinted += [listed for listed in asked if listed not in hinted and listed.hint(start)]
    yield from (listed for listed in asked if listed in hinted)


def sniffed_entry(entry: Entry) -> Format | None:
    """The format of one file among others."""
    return sniffed(Input(entry.name, (entry,)))


def _sniffs(candidate: Format, found: Input) -> bool:
    try:
        return candidate.sniff(found)
    except Exception:
        # A sniff that stumbles over strange bytes has its answer.
        trace_ignored(f"{candidate.name} cannot say whether {found.name} is its own")
        return False
