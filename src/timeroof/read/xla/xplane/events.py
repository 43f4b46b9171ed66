"""Events of an XSpace as the table that every trace ends in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from timeroof.read.device_events import COLLECTIVE
from timeroof.read.xla.xplane.space import Event, Line, Plane

# A duration beyond a year or a time beyond int64 is no measurement.
_MAX_PS = 2**62
_GRID = re.compile(r"\b(grid|block):([\d,]+)")
_SIZE = re.compile(r"\bsize:(\d+)")
_COPY = re.compile(r"(?i)^mem(?:cpy|set)|^copy-?(?:start|done)?$")
_SCHEMA = {
    "kind": pl.String,
    "name": pl.String,
    "start_ns": pl.Float64,
    "end_ns": pl.Float64,
    "self_ns": pl.Float64,
    "gpu": pl.String,
    "stream": pl.String,
    "correlation": pl.Int64,
    "op": pl.String,
    "module": pl.String,
    "phase": pl.String,
    "link/pcie": pl.Float64,
    "byte/dram": pl.Float64,
    "label.grid": pl.String,
    "label.block": pl.String,
    "label.tf_op": pl.String,
    "label.hlo_category": pl.String,
}


def table_of(lines: list[tuple[Line, str, str]], base_ns: int) -> pl.DataFrame:
    """The events of lines, each with the device and the kind of its rows."""
    rows = [row for line, gpu, kind in lines for row in _rows(line, gpu, kind, base_ns)]
    table = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    collective = pl.col("name").str.contains(COLLECTIVE) & (pl.col("kind") == "kernel")
    kind = pl.when(collective).then(pl.lit("collective")).otherwise(pl.col("kind"))
    empty = [c for c in ("link/pcie", "byte/dram") if table[c].null_count() == table.height]
    return table.with_columns(kind.alias("kind")).drop(empty)


def _rows(line: Line, gpu: str, kind: str, base_ns: int) -> Iterator[tuple[Any, ...]]:
    start_ns = line.timestamp_ns - base_ns
    events = [e for e in line.events() if 0 <= e.duration_ps < _MAX_PS > abs(e.offset_ps)]
    if kind == "op":
        events = [e for e in events if "hlo_op" in e.stats]
    for event, self_ps in zip(events, _self_ps(events), strict=True):
        start = start_ns + event.offset_ps / 1e3
        yield _row(event, start, self_ps / 1e3, gpu, line, kind)


def _row(
    event: Event, start: float, self_ns: float, gpu: str, line: Line, kind: str
) -> tuple[Any, ...]:
    stats = event.stats
    tf_op = _known(stats.get("tf_op"))
    is_copy = kind == "kernel" and bool(_COPY.match(event.name))
    link, dram = _moved(event) if is_copy else (None, None)
    sizes = dict(_GRID.findall(str(stats.get("kernel_details", ""))))
    memset = is_copy and "set" in event.name.lower()
    return (
        "memset" if memset else "copy" if is_copy else kind,
        (event.name or "unnamed").removesuffix(".kd"),
        start,
        start + event.duration_ps / 1e3,
        self_ns,
        gpu,
        line.name or str(line.id),
        _integer(stats.get("correlation_id")),
        _known(stats.get("hlo_op")),
        _known(stats.get("hlo_module")),
        _phase(tf_op),
        link,
        dram,
        *(sizes[w].replace(",", "x") if w in sizes else None for w in ("grid", "block")),
        tf_op,
        _known(stats.get("hlo_category")),
    )


def _self_ps(events: list[Event]) -> list[int]:
    """Durations without those of the events inside: loops and calls contain their ops."""
    own = [e.duration_ps for e in events]
    order = sorted(range(len(events)), key=lambda i: (events[i].offset_ps, -own[i]))
    stack: list[tuple[int, int]] = []
    for i in order:
        start, end = events[i].offset_ps, events[i].offset_ps + events[i].duration_ps
        while stack and stack[-1][0] <= start:
            stack.pop()
        if stack and end <= stack[-1][0]:
            own[stack[-1][1]] -= events[i].duration_ps
        stack.append((end, i))
    return [max(value, 0) for value in own]


def _moved(event: Event) -> tuple[float | None, float | None]:
    """Bytes over PCI Express and in device memory of a copy or memset."""
    found = _SIZE.search(str(event.stats.get("memcpy_details", event.stats.get("memset_details"))))
    size = float(found.group(1)) if found else None
    if not size:
        return None, None
    name = event.name.lower()
    over = "h2d" in name or "d2h" in name or "htod" in name or "dtoh" in name
    inside = "d2d" in name or "dtod" in name
    return (size if over else 0.0), (2 * size if inside else size)


def launches(plane: Plane, base_ns: int) -> list[tuple[int, int, int, float, float, str]]:
    """Host calls that carry a correlation: process, correlation, thread, start, end, name."""
    found = []
    for line in plane.lines():
        start_ns = line.timestamp_ns - base_ns
        for event in line.events():
            correlation = _integer(event.stats.get("correlation_id"))
            if correlation is not None and 0 <= event.duration_ps < _MAX_PS > abs(event.offset_ps):
                start = start_ns + event.offset_ps / 1e3
                end = start + event.duration_ps / 1e3
                found.append((0, correlation, line.id % 2**62, start, end, event.name))
    return found


def _phase(tf_op: str | None) -> str | None:
    """JAX names what autodiff made: a transpose is the backward pass."""
    if tf_op is None:
        return None
    return "backward" if "transpose(" in tf_op else "forward" if "jvp(" in tf_op else None


def _known(value: object) -> str | None:
    text = str(value).strip() if value is not None else ""
    return text if text and text != "XlaModule:" else None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and abs(value) < 2**62 else None
