"""nvprof's console text: summary, GPU trace and metrics, with units glued to the numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.read.formats import ReadOptions
from timeroof.read.nvidia import nvprof_profile
from timeroof.read.open import Input
from timeroof.read.text import head_text, lines

_SUMMARY_HEADING = re.compile(r"^\s*(?:Type\s+)?Time\(%\)\s+Time\s+Calls\s+Avg\s+Min\s+Max\s+Name")
_SUMMARY_ROW = re.compile(
    r"^\s*(?P<type>[A-Za-z][A-Za-z ]*:)?\s*[\d.]+%\s+(?P<time>[\d.]+\w+)\s+(?P<calls>\d+)"
    r"\s+\S+\s+\S+\s+\S+\s+(?P<name>\S.*)$"
)
_TRACE_HEADING = re.compile(r"^\s*Start\s+Duration\s+.*\bName\s*$")
_GAP = re.compile(r"\s{2,}")
_TIME = re.compile(r"[\d.]+(?:e[+-]?\d+)?[mun]?s$")
_CORRELATION = re.compile(r"\s*\[\d+\]\s*$")
_METRICS_HEADING = re.compile(r"^\s*Invocations\s+(?:Metric|Event) Name\s+")
_DEVICE = re.compile(r'^Device "(.*)"')
_KERNEL = re.compile(r"^\s+Kernel: (.*)$")
# A value is one word, or a level such as "Low (1)".
_VALUE = r"(?:[A-Z][a-z]+ \(\d+\)|\S+)"
_METRIC_ROW = re.compile(
    rf"^\s+(?P<calls>\d+)\s+(?P<metric>\w+)\s+.*?\s{{2,}}{_VALUE}\s+(?P<maximum>{_VALUE})"
    rf"\s+(?P<average>{_VALUE})\s*$"
)
_OTHER_RESULT = re.compile(r"^==(?:\d+|=+)== (?:NVTX|Event|Dependency|OpenACC) ")


def read(found: Input, options: ReadOptions) -> Profile:
    """The profile of the first table of each kind; ranges that repeat kernels are left out."""
    summary: list[tuple[str, str, str]] = []
    trace: list[tuple[str | None, ...]] = []
    metrics: list[tuple[str | None, ...]] = []
    command, state = None, ""
    source = lines(found.only)
    for line in source:
        if match := nvprof_profile.COMMAND.match(line):
            command = match[1]
        elif _OTHER_RESULT.match(line):
            state = "over"
        elif state != "over" and _SUMMARY_HEADING.match(line):
            summary += _summary_rows(source)
            state = "over"
        elif state != "over" and _TRACE_HEADING.match(line):
            trace += _trace_rows(line, source)
        elif _METRICS_HEADING.match(line):
            metrics += _metric_rows(source)
    if trace:
        return nvprof_profile.profile_of_rows(_trace_frame(trace), command, found.name)
    if summary:
        return nvprof_profile.profile_of_rows(_summary_frame(summary), command, found.name)
    if metrics:
        return nvprof_profile.profile_of_metrics(_metric_frame(metrics), command, found.name)
    advice = "the profiled program failed or launched no kernel: run it again"
    raise InputError("holds no table of nvprof, only its messages", found.name, advice)


def _summary_rows(source: Iterator[str]) -> Iterator[tuple[str, str, str]]:
    kind = "GPU activities:"
    for line in source:
        match = _SUMMARY_ROW.match(line)
        if match is None:
            return
        kind = match["type"] or kind
        if kind == "GPU activities:":
            yield match["name"].strip(), match["time"], match["calls"]


def _summary_frame(rows: list[tuple[str, str, str]]) -> pl.DataFrame:
    schema = dict.fromkeys(("name", "time_s", "calls"), pl.String)
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    times = nvprof_profile.glued(frame["time_s"])
    return frame.with_columns(times, pl.col("calls").cast(pl.Float64))


def _trace_rows(heading: str, source: Iterator[str]) -> Iterator[tuple[str | None, ...]]:
    """Rows of a GPU trace; its columns are apart by two spaces or more."""
    columns = _GAP.split(heading.strip())
    if not {"Start", "Duration", "Name"} <= set(columns):
        return
    for line in source:
        cells = _GAP.split(line.strip(), maxsplit=len(columns) - 1)
        if len(cells) < len(columns) or not _TIME.match(cells[0]):
            return
        row = {c: None if cell == "-" else cell for c, cell in zip(columns, cells, strict=True)}
        device = nvprof_profile.device_name(d) if (d := row.get("Device")) else None
        name = _CORRELATION.sub("", row["Name"] or "").strip()
        yield row["Start"], row["Duration"], row.get("Size"), device, row.get("Stream"), name


def _trace_frame(rows: list[tuple[str | None, ...]]) -> pl.DataFrame:
    names = ("start_s", "time_s", "moved", "device", "stream", "name")
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
    return frame.with_columns(nvprof_profile.glued(frame[c]) for c in names[:3])


def _metric_rows(source: Iterator[str]) -> Iterator[tuple[str | None, ...]]:
    device = kernel = None
    for line in source:
        if match := _DEVICE.match(line):
            device = match[1]
        elif match := _KERNEL.match(line):
            kernel = match[1].strip()
        elif kernel is not None and (match := _METRIC_ROW.match(line)):
            yield device, kernel, *match.group("calls", "metric", "maximum", "average")
        elif line.strip():
            return


def _metric_frame(rows: list[tuple[str | None, ...]]) -> pl.DataFrame:
    names = ("device", "name", "calls", "metric", "maximum", "average")
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
    return frame.with_columns(pl.col("calls").cast(pl.Float64))


def sniff(found: Input) -> bool:
    """Its preamble, or one of its headings."""
    head = head_text(found.only)
    headings = (_SUMMARY_HEADING, _TRACE_HEADING, _METRICS_HEADING)
    headed = any(h.match(line) for line in head.split("\n") for h in headings)
    return headed or bool(nvprof_profile.PREAMBLE.search(head))
