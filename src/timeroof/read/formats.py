"""All formats, and which of them a file's content is of. A file's name never decides.

A new format is one file with `sniff` and `read`, and one line in `LISTED`. Readers are imported
when a file may be theirs: to read one small file, seventeen others would cost more.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, cast

import msgspec

from timeroof.core.checked import checked_whole
from timeroof.core.errors import (
    InputError,
    Note,
    UsageError,
    reading,
    trace_ignored,
    without_panics_shown,
)
from timeroof.core.profile import Profile, Source, SourceFile
from timeroof.read.open import Entry, Input, short_name

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


class Reader(Protocol):
    """What a format's file provides."""

    def sniff(self, found: Input) -> bool:
        """Whether the content (never the file's name) is of this format; cheap."""

    def read(self, found: Input, options: ReadOptions) -> Profile:
        """The profile that the input holds, or an InputError that says what is wrong with it."""


def source_of(
    tool: str, found: Input, *, version: str | None = None, command: str | None = None
) -> Source:
    """Where a profile comes from: the tool, and the files by names that give no folder away."""
    files = [SourceFile(name=short_name(entry.name)) for entry in found.entries]
    return Source(tool=tool, version=version, files=files, command=command)


# What a file's first bytes must hold to be of a format: asked before its reader is imported.
# A hint is a necessary condition, cheap and without any reader. It may let other files through,
# since the reader's `sniff` decides; it never holds back a file that the sniff accepts.
SQLITE = b"SQLite format 3\x00"
SNIFF_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Start:
    """The beginning of an entry, in the forms that hints ask for."""

    entry: Entry

    @cached_property
    def words(self) -> bytes:
        """Lower case without zeros, so that UTF-16 shows its words like any other text."""
        return self.entry.head.replace(b"\x00", b"").lower()


Hint = Callable[[Start], bool]


def begins(*magics: bytes) -> Hint:
    """The first bytes are one of these."""
    return lambda start: start.entry.head.startswith(magics)


def has(*alternatives: tuple[bytes, ...]) -> Hint:
    """All words of one of the alternatives occur; words are in lower case."""
    return lambda start: any(all(w in start.words for w in words) for words in alternatives)


def matches(*patterns: bytes) -> Hint:
    """One of these patterns is found; letters are in lower case."""
    return lambda start: any(re.search(pattern, start.words) for pattern in patterns)


def creates(tables: bytes) -> Hint:
    """An SQLite file with a table of such a name."""
    pattern = re.compile(rb"CREATE TABLE [`\"']?(?:" + tables + rb")")
    return lambda start: start.entry.head.startswith(SQLITE) and _holds(start.entry, pattern)


def _holds(entry: Entry, pattern: re.Pattern[bytes]) -> bool:
    seen, tail = 0, b""
    try:
        for chunk in entry.chunks():
            if pattern.search(tail + chunk):
                return True
            seen, tail = seen + len(chunk), chunk[-256:]
            if seen > SNIFF_BYTES:
                return False
    except InputError:
        trace_ignored(f"{entry.name} cannot be searched for tables")
    return False


class Format(msgspec.Struct, frozen=True):
    """One profiler format: its name for `--format`, what people call it, and its reader."""

    name: str
    title: str
    module: str
    hint: Hint
    # The hint is the whole answer: the reader need not be asked.
    sure: bool = False
    # One run is many files: folders and archives are offered whole. Several files of all other
    # formats are ranks of one run.
    folders: bool = False

    @property
    def reader(self) -> Reader:
        """The format's module: this imports it."""
        return cast("Reader", importlib.import_module(f"timeroof.read.{self.module}"))

    def sniff(self, found: Input) -> bool:
        """Whether an input that the hint lets through is of this format."""
        if len(found.entries) != 1 and not self.folders:
            return False
        return self.sure or self.reader.sniff(found)

    def read(self, found: Input, options: ReadOptions) -> Profile:
        """The profile that the input holds, or an InputError that says what is wrong with it."""
        with reading(found.name, self.title, "export it again"), without_panics_shown():
            return checked_whole(self.reader.read(found, options), found.name)


_KERNEL_COLUMNS = (b"kernel_name", b"kernelname")
_DISPATCH_COLUMNS = (b"gpu_id", b"gpu-id", b"queue-id", b"dispatch_id", b"index", b"sum(ns)")
_NCU_NAMES = (b"kernel name", b"demangled name", b"function name")
_AMD_METRICS = (b"sq_insts_", b"fetchsize", b"writesize", b"fetch_size", b"tcc_", b"tcp_")
_NSYS_TABLES = (
    rb"StringIds|CUPTI_ACTIVITY_KIND_|META_DATA_EXPORT|EXPORT_META_DATA|TARGET_INFO_SESSION"
)


def _is_saved_run(start: Start) -> bool:
    head = start.entry.head[:60]
    return head.startswith(b"PK\x03\x04") and b"meta.json" in head


def _is_nsys_report(start: Start) -> bool:
    return start.entry.name.lower().endswith((".nsys-rep", ".qdrep"))


# In the order of asking: formats with a magic number first, free text last.
LISTED = (
    Format("timeroof", "timeroof saved run", "saved_run", _is_saved_run, sure=True),
    Format(
        "ncu-report", "Nsight Compute report", "nvidia.ncu_report", begins(b"NVR\x00"), sure=True
    ),
    Format("nsys-report", "Nsight Systems report", "nvidia.nsys_report", _is_nsys_report),
    Format(
        "nsys-sqlite", "Nsight Systems SQLite export", "nvidia.nsys_sqlite",
        creates(_NSYS_TABLES), sure=True,
    ),
    Format(
        "rpd", "RPD (rocmProfileData's SQLite database)", "amd.rpd",
        creates(rb"rocpd_(?:op|api)[`\"' (]"), sure=True,
    ),
    Format(
        "rocpd", "rocpd (rocprofv3's SQLite database)", "amd.rocpd", creates(rb"rocpd_"), sure=True
    ),
    Format("xplane", "XLA xplane.pb (JAX, TensorFlow)", "xla.xplane", begins(b"\x0a")),
    Format("chakra", "Chakra trace in protobuf (.et)", "torch.chakra", has((b"is_cpu_op\xd8",))),
    Format(
        "rocprofv3-json", "rocprofv3 JSON (rocprofiler-sdk-tool)", "amd.rocprofv3_json",
        has((b'"rocprofiler-sdk-tool"',)),
    ),
    Format(
        "execution-trace", "PyTorch ExecutionTrace and Chakra graphs", "torch.execution_trace",
        has((b'"schema"', b'"nodes"'), (b'"workload_graph"',)),
    ),
    Format(
        "kineto", "PyTorch Kineto and other Chrome traces", "torch.kineto",
        has((b'"ph"',), (b'"traceevents"',), (b'"deviceproperties"', b'"schemaversion"')),
    ),
    Format(
        "omniperf", "Omniperf / rocprof-compute workload folder", "amd.omniperf",
        has((b"gpu_arch",), (b"gpu_soc",), (b"hbmbw", b"l2bw")), folders=True,
    ),
    Format(
        "rocprofv3-csv", "rocprofv3 CSV (kernel_trace, counter_collection, stats)",
        "amd.rocprofv3_csv",
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
    Format(
        "rocprof-csv", "rocprof v1/v2 CSV", "amd.rocprof_csv",
        has(
            *((name, place) for name in _KERNEL_COLUMNS for place in _DISPATCH_COLUMNS),
            *((b"metric name", b"metric value", counter) for counter in _AMD_METRICS),
        ),
    ),
    Format(
        "nsys-csv", "Nsight Systems stats, CSV or columns (cuda_gpu_kern_sum, cuda_gpu_trace)",
        "nvidia.nsys_csv",
        has(
            (b"total time", b"min", b"max"),
            (b"start", b"duration", b"corrid"),
            (b"kernel start", b"api function"),
        ),
    ),
    Format(
        "nvprof-csv", "nvprof CSV", "nvidia.nvprof_csv",
        matches(
            rb"(?:time\(%\)|start|invocations)\s*\"?\s*[,;\t]",
            rb"[,;\t]\s*\"?\s*(?:time\(%\)|invocations)",
        ),
    ),
    Format(
        "nvprof-console", "nvprof console text", "nvidia.nvprof_console",
        matches(
            rb"[\d=]== (?:nvprof is profiling|profiling |metric result)",
            rb"time\(%\)\s+time\s+calls|start\s+duration\s|invocations\s+(?:metric|event) name",
        ),
    ),
    Format(
        "onednn-verbose", "oneDNN verbose log", "onednn",
        has((b"onednn_verbose,",), (b"dnnl_verbose,",), (b"mkldnn_verbose,",)), sure=True,
    ),
    Format(
        "ncu-csv", "Nsight Compute CSV", "nvidia.ncu_csv",
        has(
            (b"kernel name", b"metric name", b"metric value"),
            *((name, b"__") for name in _NCU_NAMES),
            (b"==prof== ",),
        ),
        folders=True,
    ),
    Format(
        "ncu-console", "Nsight Compute console text", "nvidia.ncu_console",
        has((b"metric name", b"---")),
    ),
    Format("tidy-parquet", "tidy Parquet", "tidy", begins(b"PAR1"), sure=True),
    Format("tidy-csv", "tidy CSV", "tidy", has((b"name", b"time_s"))),
)  # fmt: skip


def format_named(name: str) -> Format:
    """A format by the name that `--format` takes."""
    known = {listed.name: listed for listed in LISTED}
    if name not in known:
        advice = f"use one of {', '.join(sorted(known))}"
        raise UsageError(f"no format is called {name!r}", advice=advice)
    return known[name]


def sniffed(found: Input, likely: Format | None = None) -> Format | None:
    """The format of one entry's content, or of a folder as a whole.

    `likely` is asked first: of thousands of files beside one another the next is like the last.
    """
    starts = [Start(entry) for entry in found.entries]
    if likely is not None and likely.hint(starts[0]) and _sniffs(likely, found):
        return likely
    asked = (listed for listed in LISTED if listed.folders or len(starts) == 1)
    hinted = (listed for listed in asked if any(listed.hint(start) for start in starts))
    return next((listed for listed in hinted if _sniffs(listed, found)), None)


def _sniffs(listed: Format, found: Input) -> bool:
    try:
        return listed.sniff(found)
    except Exception as error:
        # Another reader may know the file; that this one could not be asked is said beside it.
        what = f"The reader {listed.module} failed on {short_name(found.name)}: {error!r}."
        trace_ignored(what)
        found.notes.append(Note(what, "reader-failed", "warning"))
        return False
