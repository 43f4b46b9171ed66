"""All formats, and which of them a file's content is of. A file's name never decides.

A new format is one file that ends in ``FORMAT = …`` and one line in `LISTED`. Readers are
imported when a file may be theirs: to read one small file, seventeen others would cost more.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from timeroof.errors import UsageError
from timeroof.sources.files import hints
from timeroof.sources.files.format import Format
from timeroof.sources.files.hints import Hint, Start, begins, both, creates, has, matches
from timeroof.sources.files.opening import Entry, Input

_PACKAGE = "timeroof.sources.files"


@dataclass(frozen=True)
class Listed:
    """A reader's module, the names of its formats, and what a file of theirs must look like."""

    module: str
    names: tuple[str, ...]
    hint: Hint = hints.anything
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
    Listed("ncu_report", ("ncu-report",), begins(b"NVR\x00")),
    Listed("nsys_sqlite", ("nsys-sqlite",), creates(hints.NSYS_TABLES)),
    Listed("rocpd", ("rocpd",), creates(hints.ROCPD_TABLES)),
    Listed(
        "xplane",
        ("xplane",),
        both(begins(b"\x0a"), has((_NAME_FIELD,))),
    ),
    Listed("rocprofv3_json", ("rocprofv3-json",), has((b'"rocprofiler-sdk-tool"',))),
    Listed(
        "execution_trace",
        ("execution-trace",),
        has((b'"schema"', b'"nodes"'), (b'"workload_graph"',)),
    ),
    Listed(
        "kineto",
        ("kineto",),
        has((b'"ph"',), (b'"traceevents"',), (b'"deviceproperties"', b'"schemaversion"')),
    ),
    Listed(
        "omniperf",
        ("omniperf",),
        has((b"gpu_arch",), (b"gpu_soc",), (b"hbmbw", b"l2bw")),
        folders=True,
    ),
    Listed(
        "rocprofv3_csv",
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
        "rocprof_csv",
        ("rocprof-csv",),
        has(
            *((name, place) for name in _KERNEL_COLUMNS for place in _DISPATCH_COLUMNS),
            *((b"metric name", b"metric value", counter) for counter in _AMD_METRICS),
        ),
    ),
    Listed(
        "nsys_csv",
        ("nsys-csv",),
        has((b"total time", b"min", b"max"), (b"start", b"duration", b"corrid")),
    ),
    Listed(
        "nvprof_csv",
        ("nvprof-csv",),
        matches(
            rb"(?:time\(%\)|start|invocations)\s*\"?\s*[,;\t]",
            rb"[,;\t]\s*\"?\s*(?:time\(%\)|invocations)",
        ),
    ),
    Listed(
        "nvprof_console",
        ("nvprof-console",),
        matches(
            rb"[\d=]== (?:nvprof is profiling|profiling |metric result)",
            rb"time\(%\)\s+time\s+calls|start\s+duration\s|invocations\s+(?:metric|event) name",
        ),
    ),
    Listed(
        "onednn_verbose",
        ("onednn-verbose",),
        has((b"onednn_verbose,",), (b"dnnl_verbose,",), (b"mkldnn_verbose,",)),
    ),
    Listed(
        "ncu_csv",
        ("ncu-csv",),
        has(
            (b"kernel name", b"metric name", b"metric value"),
            *((name, b"__") for name in _NCU_NAMES),
            (b"==prof== ",),
        ),
        folders=True,
    ),
    Listed("ncu_console", ("ncu-console",), has((b"metric name", b"---"))),
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
        for candidate in listed.formats():
            if _sniffs(candidate, found):
                return candidate
    return None


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
        return False
