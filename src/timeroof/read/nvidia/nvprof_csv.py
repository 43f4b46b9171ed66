"""nvprof's CSV: summary, GPU trace and metrics; a row of units below the header."""

from __future__ import annotations

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.read.csv import Table, find_table, in_base_units, split_ways
from timeroof.read.events import shown_list
from timeroof.read.formats import ReadOptions
from timeroof.read.nvidia import nvprof_profile
from timeroof.read.open import Entry, Input
from timeroof.read.text import head_text, lines

_HEAD_LINES = 400
_PREAMBLE_LINES = 10_000


def is_summary(header: list[str]) -> bool:
    """Whether a header is of the summary."""
    return {"Time(%)", "Time", "Calls", "Avg", "Name"} <= set(header)


def is_trace(header: list[str]) -> bool:
    """Whether a header is of the GPU trace."""
    return header[:2] == ["Start", "Duration"] and "Name" in header


def is_metrics(header: list[str]) -> bool:
    """Whether a header is of metrics per kernel."""
    return {"Kernel", "Invocations", "Metric Name", "Avg"} <= set(header)


def is_table(header: list[str]) -> bool:
    """Whether a header is one of nvprof's."""
    return is_summary(header) or is_trace(header) or is_metrics(header)


def command_in(entry: Entry) -> str | None:
    """The profiled command, as the preamble says it."""
    for index, line in enumerate(lines(entry)):
        if match := nvprof_profile.COMMAND.match(line):
            return match[1]
        if index > _PREAMBLE_LINES:
            break
    return None


def _rows(table: Table, wanted: dict[str, str]) -> tuple[pl.DataFrame, dict[str, str]]:
    """The wanted columns by their keys, and the units of the row below the header."""
    places = {key: table.header.index(n) for key, n in wanted.items() if n in table.header}
    named = [pl.col(str(i)).alias(key) for key, i in places.items()]
    frames = [frame.select(named) for frame in table.frames(list(places.values()))]
    rows = pl.concat([pl.DataFrame(schema=dict.fromkeys(places, pl.String)), *frames])
    if not rows.height or any(rows.row(0, named=True).get(k) for k in ("name", "calls")):
        return rows, {}
    units = {key: cell or "" for key, cell in rows.row(0, named=True).items()}
    return rows.slice(1), units


def _number(rows: pl.DataFrame, key: str, units: dict[str, str], where: str) -> pl.Series:
    factor = nvprof_profile.unit_value(units.get(key, ""))
    if factor is None:
        what = f"column {key!r} has the unit {units.get(key, '')!r}, which is none of time or size"
        raise InputError(what, where, "keep the row of units that nvprof writes below the header")
    table = rows.select(pl.col(key).cast(pl.Float64, strict=False), pl.lit(factor).alias("factor"))
    return table.select(in_base_units(key, "factor")).to_series()


def _read_trace(table: Table, where: str) -> pl.DataFrame:
    wanted = {
        "start_s": "Start", "time_s": "Duration", "moved": "Size", "managed": "Unified Memory",
        "device": "Device", "stream": "Stream", "name": "Name",
    }  # fmt: skip
    rows, units = _rows(table, wanted)
    columns = [_number(rows, k, units, where) for k in ("start_s", "time_s")]
    if "moved" in rows.columns:
        moved = _number(rows, "moved", units, where)
        if "managed" in rows.columns:
            moved = moved.fill_null(rows["managed"].cast(pl.Float64, strict=False))
        columns.append(moved)
    named = pl.col("device").map_elements(nvprof_profile.device_name, return_dtype=pl.String)
    rows = rows.with_columns(columns).with_columns(named if "device" in rows.columns else [])
    return rows.drop("managed", strict=False)


def _read_summary(table: Table, where: str) -> pl.DataFrame:
    rows, units = _rows(table, {"type": "Type", "time_s": "Time", "calls": "Calls", "name": "Name"})
    if "type" in rows.columns:
        rows = rows.filter(pl.col("type").fill_null("GPU activities") == "GPU activities")
    return rows.with_columns(
        _number(rows, "time_s", units, where), pl.col("calls").cast(pl.Float64, strict=False)
    ).drop("type", strict=False)


def _read_metrics(table: Table) -> pl.DataFrame:
    wanted = {
        "device": "Device", "name": "Kernel", "calls": "Invocations", "metric": "Metric Name",
        "maximum": "Max", "average": "Avg",
    }  # fmt: skip
    rows, _ = _rows(table, wanted)
    return rows.with_columns(pl.col("calls").cast(pl.Float64, strict=False)).drop_nulls("calls")


def sniff(found: Input) -> bool:
    """One of nvprof's headers."""
    first = head_text(found.only).split("\n")[:_HEAD_LINES]
    return any(is_table(fields) for line in first for _, fields in split_ways(line))


def read(found: Input, options: ReadOptions) -> Profile:
    """The profile of the first table that has one of nvprof's headers."""
    entry = found.only
    table = find_table(entry, is_table)
    if table is None:
        raise InputError("has no table of nvprof", where=entry.name, advice="record it again")
    command = command_in(entry)
    if is_metrics(table.header):
        return nvprof_profile.profile_of_metrics(_read_metrics(table), command, entry.name)
    rows = (_read_trace if is_trace(table.header) else _read_summary)(table, entry.name)
    if not rows.height:
        columns = shown_list(table.header)
        raise InputError(f"has a table ({columns}) without rows", entry.name, "record it again")
    return nvprof_profile.profile_of_rows(rows, command, entry.name)
