"""rocprofv3's JSON output (``rocprofiler-sdk-tool``): dispatches, copies, host calls, counters."""

from __future__ import annotations

from itertools import chain

import msgspec
import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile, Source, SourceFile
from timeroof.read.amd import rocprofv3_records as of
from timeroof.read.amd.counters import with_amounts
from timeroof.read.amd.rocprof_csv import lend_counters, mark_lent, wide
from timeroof.read.amd.rocprofv3_records import Process, Root
from timeroof.read.events import Whole, profile_of
from timeroof.read.formats import ReadOptions
from timeroof.read.idle import host_spans, link_launches
from timeroof.read.open import Entry, Input, short_name
from timeroof.read.sqlite import table_errors

# The whole text is held in memory; larger traces come as rocpd or CSV.
MAX_JSON_BYTES = 2 * 2**30
_KEYS = ["name", "grid"]


class Rocprofv3Json:
    """rocprofv3, JSON."""

    name = "rocprofv3-json"
    title = "rocprofv3 JSON (rocprofiler-sdk-tool)"

    def sniff(self, found: Input) -> bool:
        """A JSON text whose first key is rocprofiler's."""
        head = found.entries[0].head[:4096] if len(found.entries) == 1 else b""
        return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and (
            b'"rocprofiler-sdk-tool"' in head
        )

    def read(self, found: Input, options: ReadOptions) -> Profile:
        """The profile of all processes in the file."""
        entry = found.only
        options.progress("decoding", 0.1)
        processes = _decoded(entry)
        options.progress("linking launches", 0.6)
        with table_errors(entry.name, "rocprofv3 JSON"):
            return _profile(processes, entry)


def _decoded(entry: Entry) -> list[Process]:
    text = bytearray()
    for chunk in entry.chunks():
        text += chunk
        if len(text) > MAX_JSON_BYTES:
            raise InputError(
                f"is JSON of more than {MAX_JSON_BYTES // 2**30} GiB",
                where=entry.name,
                advice="record it with --output-format rocpd or csv",
            )
    try:
        return msgspec.json.decode(bytes(text).removeprefix(b"\xef\xbb\xbf"), type=Root).tool
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(
            f"is no whole rocprofv3 JSON ({error})", where=entry.name, advice="record it again"
        ) from error


def _profile(processes: list[Process], entry: Entry) -> Profile:
    kernels = [of.kernels(process, n) for n, process in enumerate(processes)]
    copies = [of.copies(process, n) for n, process in enumerate(processes)]
    counted = [of.counters(process) for process in processes]
    kernels, counted = ([t for t in tables if t.height] for tables in (kernels, counted))
    notes: list[str] = []
    if not kernels and counted:
        kernels = [of.counted_dispatches(process, n) for n, process in enumerate(processes)]
        notes.append("times are from the run under counters, kernel by kernel")
    if not kernels and not any(c.height for c in copies):
        raise InputError(
            "has no kernel dispatches",
            where=entry.name,
            advice="record with --kernel-trace",
        )
    events = pl.concat(kernels, how="diagonal_relaxed") if kernels else pl.DataFrame()
    if counted:
        events, lent = lend_counters(events, wide(pl.concat(counted), _KEYS), _KEYS)
        events, missing = with_amounts(events)
        events, notes = mark_lent(events), [*notes, *lent, *missing]
    moved = [c for c in copies if c.height]
    events = pl.concat([events, *moved], how="diagonal_relaxed")
    calls = pl.concat([of.calls(process, n) for n, process in enumerate(processes)])
    events = link_launches(events, calls).drop("launch_thread", strict=False)
    device = _device(events)
    if device is None:
        notes.append("the file names no device or several")
    source = Source(
        tool="rocprofv3",
        files=[SourceFile(name=short_name(entry.name))],
        command=next(chain((" ".join(p.metadata.command) for p in processes), [""])) or None,
    )
    events = events.drop("correlation", "grid", strict=False)
    return profile_of(events, Whole(source, device, tuple(notes), host=host_spans(calls)))


def _device(events: pl.DataFrame) -> str | None:
    names = events["device"].drop_nulls().unique().to_list()
    return str(names[0]) if len(names) == 1 and names[0] else None


FORMAT = Rocprofv3Json()
