"""Nsight Compute's wide tables: one row per launch, or one column per launch (transposed)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from timeroof.read.numbers import numbers
from timeroof.read.nvidia.ncu_metrics import role_of
from timeroof.read.nvidia.ncu_parts import (
    FACTS,
    Part,
    reading_of,
    role_columns,
    some_metrics,
    split_unit,
)
from timeroof.read.tables import Table, fields_of

_NAMES = ("Kernel Name", "Demangled Name", "Function Name")
_FACT_HEADINGS = {
    "id": ("ID",),
    "process": ("Process ID", "Process"),
    "name": _NAMES,
    "stream": ("Stream", "launch__stream_id"),
    "grid": ("Grid Size",),
    "block": ("Block Size",),
    "device": ("device__attribute_display_name", "Device Name"),
    "capability": ("CC",),
    "major": ("device__attribute_compute_capability_major",),
    "minor": ("device__attribute_compute_capability_minor",),
    "calls": ("Count",),
}
_TEXT = pl.String


def is_wide(header: list[str]) -> bool:
    """Whether a header is that of a table with one row per launch."""
    plain = [split_unit(h)[0] for h in header]
    named = any(n in plain for n in _NAMES)
    return named and "ID" in plain and any("__" in h for h in plain)


def is_summed(header: list[str]) -> bool:
    """Whether a header is that of a table that somebody summed up per kernel."""
    named = any(n in header for n in _NAMES)
    return named and "ID" not in header and any(role_of(h) and "__" in h for h in header)


def is_transposed(first_lines: Iterable[str]) -> bool:
    """Whether lines are of a table with one line per metric, as copied from the interface."""
    keys = {split_unit(fields[0])[0] for line in first_lines if len(fields := fields_of(line)) > 1}
    return bool(keys & set(_NAMES)) and "ID" in keys and any("__" in key for key in keys)


def read_wide(table: Table, name: str, folder: str, *, summed: bool = False) -> Part:
    """The launches of a wide table; its units are in brackets or in a second row of headings."""
    headings = [split_unit(h) for h in table.header]
    wanted = _wanted(headings)
    frames = list(table.frames([index for _, index in wanted]))
    rows = pl.concat(frames, how="vertical") if frames else pl.DataFrame()
    units = {index: unit for index, (_, unit) in enumerate(headings) if unit is not None}
    if rows.height and not units and not summed:
        id_index = next(i for key, i in wanted if key == "id")
        first = rows.row(0, named=True)
        if not (first[str(id_index)] or "").strip():
            units = {int(key): cell or "" for key, cell in first.items()}
            rows = rows.slice(1)
    columns = {index: rows[str(index)] for _, index in wanted if rows.width}
    metrics = {h for h, _ in headings if "__" in h and not h.startswith("device__")}
    return _part(wanted, headings, columns, units, metrics, (name, folder, summed))


def read_transposed(text_lines: Iterator[str], name: str, folder: str) -> Part:
    """The launches of a transposed table: each line is a metric, each further field a launch."""
    headings: list[tuple[str, str | None]] = []
    cells: list[list[str]] = []
    metrics: set[str] = set()
    for line in text_lines:
        fields = fields_of(line)
        if len(fields) < 2:
            continue
        heading = split_unit(fields[0])
        if "__" in heading[0] and ":" not in heading[0]:
            metrics.add(heading[0])
        if _is_fact(heading[0]) or role_of(heading[0]) is not None:
            headings.append(heading)
            cells.append(fields[1:])
    width = max((len(c) for c in cells), default=0)
    columns = {
        index: pl.Series(values + [None] * (width - len(values)), dtype=_TEXT)
        for index, values in enumerate(cells)
    }
    units = {index: unit or "" for index, (_, unit) in enumerate(headings)}
    return _part(_wanted(headings), headings, columns, units, metrics, (name, folder, False))


def _is_fact(heading: str) -> bool:
    return any(heading in names for names in _FACT_HEADINGS.values())


def _wanted(headings: list[tuple[str, str | None]]) -> list[tuple[str, int]]:
    """Columns that count: facts by their key, metrics by the heading."""
    plain = [h for h, _ in headings]
    wanted = [
        (key, plain.index(n))
        for key, names in _FACT_HEADINGS.items()
        if (n := next((n for n in names if n in plain), None)) is not None
    ]
    return wanted + [("metric", i) for i, h in enumerate(plain) if role_of(h) is not None]


def _part(
    wanted: list[tuple[str, int]],
    headings: list[tuple[str, str | None]],
    columns: dict[int, pl.Series],
    units: dict[int, str],
    metrics: set[str],
    which: tuple[str, str, bool],
) -> Part:
    name, folder, summed = which
    facts = {key: columns[index] for key, index in wanted if key != "metric" and index in columns}
    readings = [
        (reading, columns[index])
        for key, index in wanted
        if key == "metric" and index in columns
        if (reading := reading_of(headings[index][0], units.get(index, ""))) is not None
    ]
    height = len(next(iter(columns.values()), []))
    frame = pl.DataFrame({"launch": _launch_ids(facts, height)}).with_columns(
        *(facts.get(key, pl.Series([None] * height, dtype=_TEXT)).alias(key) for key in FACTS[1:]),
        *role_columns(readings),
    )
    if "calls" in facts and summed:
        frame = frame.with_columns(numbers(facts["calls"]).alias("calls"))
    if "id" in facts:
        frame = frame.filter(facts["id"].str.contains(r"^\s*\d+\s*$").fill_null(False))
    frame = frame.filter(pl.col("name").is_not_null())
    device, capability = _first(facts.get("device")), _capability(facts)
    return Part(name, folder, frame, some_metrics(metrics), device, capability, summed)


def _launch_ids(facts: dict[str, pl.Series], height: int) -> pl.Series:
    if "id" not in facts:
        return pl.Series([f"#{i}" for i in range(height)], dtype=_TEXT)
    process = facts.get("process", pl.Series([""] * height, dtype=_TEXT)).fill_null("")
    return process + "#" + facts["id"].str.strip_chars()


def _first(column: pl.Series | None) -> str | None:
    """What a column says, if all rows say the same."""
    if column is None:
        return None
    values = column.drop_nulls().unique().to_list()
    return str(values[0]).strip() if len(values) == 1 else None


def _capability(facts: dict[str, pl.Series]) -> str | None:
    stated = _first(facts.get("capability"))
    major, minor = _first(facts.get("major")), _first(facts.get("minor"))
    return stated or (f"{major}.{minor}" if major and minor else None)
