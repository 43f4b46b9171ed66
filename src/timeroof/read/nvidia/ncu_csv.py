"""Nsight Compute's CSV in all its layouts: long, wide, transposed, one metric per file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest

import polars as pl

from timeroof.core.errors import InputError, Note
from timeroof.core.profile import Profile
from timeroof.read.csv import Table, fields_of, find_table, in_base_units, numbers, split_ways
from timeroof.read.events import shown_list
from timeroof.read.formats import ReadOptions
from timeroof.read.nvidia import ncu_profile
from timeroof.read.nvidia.ncu_console import is_console, read_console
from timeroof.read.nvidia.ncu_metrics import role_of
from timeroof.read.open import Entry, Input, folder_in, short_name
from timeroof.read.text import head_text, lines

# Nsight Compute's long CSV: one row per launch and metric, sections and rules among them.
_COLUMNS = {
    "id": ("ID",), "process": ("Process ID",), "name": ("Kernel Name", "Function Name"),
    "stream": ("Stream",), "grid": ("Grid Size",), "block": ("Block Size",),
    "device": ("Device Name",), "capability": ("CC",), "metric": ("Metric Name",),
    "unit": ("Metric Unit",), "value": ("Metric Value", "Average"), "calls": ("Invocations",),
}  # fmt: skip
# What tells rows of one kernel apart where launches were summed up (--print-summary).
_OF_METRIC = re.compile(r"Section Name|Metric |Minimum|Maximum|Average|Rule |Estimated Speedup")
# What the section "Launch Statistics" calls the device's multiprocessors.
_CORES = "# SMs"
_OF_LAUNCH = ("name", "stream", "grid", "block", "device", "capability", "calls")


def is_long(header: list[str]) -> bool:
    """Whether a header is that of a long table."""
    return {"ID", "Kernel Name", "Metric Name", "Metric Value"} <= set(header) or _averages(header)


def _averages(header: list[str]) -> bool:
    """Whether rows are averages over the launches of a kernel (--print-summary)."""
    return "ID" not in header and set(header) >= {
        "Kernel Name", "Invocations", "Metric Name", "Average",
    }  # fmt: skip


def read_long(table: Table, name: str, folder: str) -> ncu_profile.Part:
    """The launches of a long table, with the roles of its metrics as columns."""
    places = {key: table.position(*names) for key, names in _COLUMNS.items()}
    found = {key: place for key, place in places.items() if place is not None}
    averages = _averages(table.header)
    apart = [i for i, h in enumerate(table.header) if averages and not _OF_METRIC.match(h)]
    launches, values, metrics, cores = [], [], set[str](), set[str]()
    for frame in table.frames(sorted({*found.values(), *apart})):
        process = pl.col("process").fill_null("").str.strip_chars()
        ids = pl.concat_str(process, pl.lit("#"), pl.col("id").str.strip_chars())
        kept = [pl.col(str(place)).fill_null("").alias(f"_{place}") for place in apart]
        rows = frame.select(
            *(
                (pl.col(str(found[key])) if key in found else pl.lit(None, pl.String)).alias(key)
                for key in _COLUMNS
            ),
            *kept,
        ).filter(
            pl.col("calls" if averages else "id").str.contains(r"^\s*[\d,.]+\s*$")
            & pl.col("name").is_not_null()
        )
        key = pl.concat_str(f"_{place}" for place in apart) if averages else ids
        rows = rows.with_columns(launch=key)
        # All rows of a launch name it: rules and sections without a metric too.
        launches.append(rows.group_by("launch", maintain_order=True).agg(_first(_OF_LAUNCH)))
        measured = rows.filter(pl.col("metric").str.len_chars() > 0)
        metrics |= set(measured["metric"].unique().to_list())
        cores |= set(measured.filter(pl.col("metric") == _CORES)["value"].drop_nulls().unique())
        values.append(_values(measured))
    part = _part(launches, values, metrics, name, folder)
    calls = numbers(part.table["calls"])
    part = replace(
        part,
        table=part.table.with_columns(calls) if averages else part.table.drop("calls"),
        averaged=averages,
    )
    return replace(part, cores=_count(cores.pop() if len(cores) == 1 else None))


def _count(text: str | None) -> int | None:
    """A number of cores as ncu prints it, with separators."""
    digits = (text or "").replace(",", "").strip()
    return int(digits) if digits.isdecimal() and len(digits) < 6 else None


def _first(columns: tuple[str, ...]) -> list[pl.Expr]:
    return [pl.col(c).drop_nulls().first() for c in columns]


def _values(rows: pl.DataFrame) -> pl.DataFrame:
    """Launch, role, rank and value in base units of the rows that have a role."""
    rows = rows.with_columns(pl.col("unit").fill_null(""))
    pairs = rows.select("metric", "unit").unique(maintain_order=True)
    known = [
        (metric, unit, *reading)
        for metric, unit in pairs.iter_rows()
        if (reading := ncu_profile.reading_of(metric, unit)) is not None
    ]
    texts = dict.fromkeys(("metric", "unit", "role"), pl.String)
    schema = {**texts, "rank": pl.Int64, "factor": pl.Float64}
    readings = pl.DataFrame(known, schema=schema, orient="row")
    joined = rows.select("launch", "metric", "unit", "value").join(
        readings, on=["metric", "unit"], how="inner", maintain_order="left"
    )
    joined = joined.with_columns(numbers(joined["value"]))
    return joined.select("launch", "role", "rank", in_base_units("value", "factor"))


def _part(
    launches: list[pl.DataFrame],
    values: list[pl.DataFrame],
    metrics: set[str],
    name: str,
    folder: str,
) -> ncu_profile.Part:
    schema = dict.fromkeys(("launch", *_OF_LAUNCH), pl.String)
    table = pl.concat([pl.DataFrame(schema=schema), *launches])
    table = table.group_by("launch", maintain_order=True).agg(_first(_OF_LAUNCH))
    device, capability = _only(table["device"]), _only(table["capability"])
    table = table.drop("device", "capability")
    measured = pl.concat(values) if values else pl.DataFrame()
    if measured.height:
        ranked = measured.sort("rank", maintain_order=True)
        best = ranked.group_by("launch", "role", maintain_order=True).agg(_first(("value",)))
        wide = best.pivot(on="role", index="launch", values="value")
        table = table.join(wide, on="launch", how="left", maintain_order="left")
    collected = ncu_profile.some_metrics(metrics)
    return ncu_profile.Part(name, folder, table, collected, device, capability)


def _only(column: pl.Series | None) -> str | None:
    """The one value that a column has."""
    values = [] if column is None else column.drop_nulls().unique().to_list()
    return str(values[0]).strip() if len(values) == 1 else None


# Nsight Compute's wide tables: one row per launch, or one column per launch (transposed).
_NAMES = ("Kernel Name", "Demangled Name", "Function Name")
_FACT_HEADINGS = {
    "id": ("ID",), "process": ("Process ID", "Process"), "name": _NAMES,
    "stream": ("Stream", "launch__stream_id"), "grid": ("Grid Size",), "block": ("Block Size",),
    "device": ("device__attribute_display_name", "Device Name"),
    "capability": ("CC",),
    "major": ("device__attribute_compute_capability_major",),
    "minor": ("device__attribute_compute_capability_minor",),
    "cores": ("device__attribute_multiprocessor_count",),
    "calls": ("Count",),
}  # fmt: skip
_TEXT = pl.String


def is_wide(header: list[str]) -> bool:
    """Whether a header is that of a table with one row per launch."""
    plain = [ncu_profile.split_unit(h)[0] for h in header]
    named = any(n in plain for n in _NAMES)
    return named and "ID" in plain and any("__" in h for h in plain)


def is_summed(header: list[str]) -> bool:
    """Whether a header is that of a table that somebody summed up per kernel."""
    named = any(n in header for n in _NAMES)
    return named and "ID" not in header and any(role_of(h) and "__" in h for h in header)


def is_transposed(first_lines: Iterable[str]) -> bool:
    """Whether lines are of a table with one line per metric, as copied from the interface."""
    split = [fields for line in first_lines if len(fields := fields_of(line)) > 1]
    keys = {ncu_profile.split_unit(fields[0])[0] for fields in split}
    return bool(keys & set(_NAMES)) and "ID" in keys and any("__" in key for key in keys)


def read_wide(table: Table, name: str, folder: str, *, summed: bool = False) -> ncu_profile.Part:
    """The launches of a wide table; its units are in brackets or in a second row of headings."""
    headings = [ncu_profile.split_unit(h) for h in table.header]
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
    return _ncu_wide_part(wanted, headings, columns, units, metrics, (name, folder, summed))


def read_transposed(text_lines: Iterator[str], name: str, folder: str) -> ncu_profile.Part:
    """The launches of a transposed table: each line is a metric, each further field a launch."""
    headings: list[tuple[str, str | None]] = []
    cells: list[list[str]] = []
    metrics: set[str] = set()
    for line in text_lines:
        fields = fields_of(line)
        if len(fields) < 2:
            continue
        heading = ncu_profile.split_unit(fields[0])
        if "__" in heading[0] and ":" not in heading[0]:
            metrics.add(heading[0])
        is_fact = any(heading[0] in names for names in _FACT_HEADINGS.values())
        if is_fact or role_of(heading[0], heading[1] or "") is not None:
            headings.append(heading)
            cells.append(fields[1:])
    even = zip(*zip_longest(*cells), strict=True)
    columns = {index: pl.Series(values, dtype=_TEXT) for index, values in enumerate(even)}
    units = {index: unit or "" for index, (_, unit) in enumerate(headings)}
    which = (name, folder, False)
    return _ncu_wide_part(_wanted(headings), headings, columns, units, metrics, which)


def _wanted(headings: list[tuple[str, str | None]]) -> list[tuple[str, int]]:
    """Columns that count: facts by their key, metrics by the heading."""
    plain = [h for h, _ in headings]
    wanted = [
        (key, plain.index(n))
        for key, names in _FACT_HEADINGS.items()
        if (n := next((n for n in names if n in plain), None)) is not None
    ]
    return wanted + [("metric", i) for i, h in enumerate(plain) if role_of(h) is not None]


def _ncu_wide_part(
    wanted: list[tuple[str, int]],
    headings: list[tuple[str, str | None]],
    columns: dict[int, pl.Series],
    units: dict[int, str],
    metrics: set[str],
    which: tuple[str, str, bool],
) -> ncu_profile.Part:
    name, folder, summed = which
    facts = {key: columns[index] for key, index in wanted if key != "metric" and index in columns}
    readings = [
        (reading, columns[index])
        for key, index in wanted
        if key == "metric" and index in columns
        if (reading := ncu_profile.reading_of(headings[index][0], units.get(index, ""))) is not None
    ]
    height = len(next(iter(columns.values()), []))
    unknown = pl.Series([None] * height, dtype=_TEXT)
    told = {key: facts.get(key, unknown) for key in ncu_profile.FACTS[1:]}
    frame = pl.DataFrame({"launch": _launch_ids(facts, height), **told})
    frame = frame.with_columns(ncu_profile.role_columns(readings))
    if "calls" in facts and summed:
        frame = frame.with_columns(numbers(facts["calls"]).alias("calls"))
    if "id" in facts:
        frame = frame.filter(facts["id"].str.contains(r"^\s*\d+\s*$").fill_null(False))
    frame = frame.filter(pl.col("name").is_not_null())
    device, capability = _only(facts.get("device")), _capability(facts)
    collected = ncu_profile.some_metrics(metrics)
    cores = _count(_only(facts.get("cores")))
    return ncu_profile.Part(name, folder, frame, collected, device, capability, summed, cores=cores)


def _launch_ids(facts: dict[str, pl.Series], height: int) -> pl.Series:
    if "id" not in facts:
        return pl.Series([f"#{i}" for i in range(height)], dtype=_TEXT)
    process = facts.get("process", pl.Series([""] * height, dtype=_TEXT)).fill_null("")
    return process + "#" + facts["id"].str.strip_chars()


def _capability(facts: dict[str, pl.Series]) -> str | None:
    stated = _only(facts.get("capability"))
    major, minor = _only(facts.get("major")), _only(facts.get("minor"))
    return stated or (f"{major}.{minor}" if major and minor else None)


# Lines that ncu itself prints around a table.
_PROF = re.compile(r"(?m)^==PROF== ")
_TROUBLE = re.compile(r"^==(?:ERROR|WARNING)== (.*?)\.?\s*$")
_HEAD_LINES = 400


def is_table(header: list[str]) -> bool:
    """Whether a header is of one of the layouts with one header line."""
    return is_long(header) or is_wide(header) or is_summed(header)


def sniff_text(head: str) -> bool:
    """Whether the beginning of a text is Nsight Compute's CSV, preamble or table."""
    first = head.split("\n")[:_HEAD_LINES]
    if any(is_table(fields) for line in first for _, fields in split_ways(line)):
        return True
    if is_transposed(first):
        return True
    # All of the beginning is preamble, or the profiled program failed.
    return bool(_PROF.search(head)) and not is_console(head)


def read_part(entry: Entry, folder: str) -> ncu_profile.Part:
    """One file's launches, whatever its layout, or an error that says why there are none."""
    if is_transposed(head_text(entry).split("\n")[:_HEAD_LINES]):
        return read_transposed(lines(entry), entry.name, folder)
    table = find_table(entry, is_table)
    if table is None:
        part = read_console(lines(entry), entry.name, folder)
        if part is None:
            raise _no_table(entry)
        return part
    if is_long(table.header):
        part = read_long(table, entry.name, folder)
    else:
        part = read_wide(table, entry.name, folder, summed=not is_wide(table.header))
    if not part.table.height:
        raise InputError("has a table without a launch", where=entry.name, advice="record it again")
    return part


def _no_table(entry: Entry) -> InputError:
    troubles = [match[1] for line in lines(entry) if (match := _TROUBLE.match(line))]
    why = f" ({shown_list(troubles, 2)})" if troubles else ""
    advice = "the profiled program failed or launched no kernel: run it again"
    return InputError(f"holds no table, only messages of Nsight Compute{why}", entry.name, advice)


def sniff(found: Input) -> bool:
    """A header with kernels and metrics in any of the files."""
    return any(sniff_text(head_text(entry)) for entry in found.entries)


def read(found: Input, options: ReadOptions) -> Profile:
    """One profile of all files; those that hold nothing are named in a note."""
    parts, failures = [], list[InputError]()
    for index, entry in enumerate(found.entries):
        options.progress(entry.name, index / len(found.entries))
        try:
            parts.append(read_part(entry, folder_in(found, entry)))
        except InputError as error:
            failures.append(error)
    if failures and (not parts or not found.is_folder):
        raise failures[0]
    profile = ncu_profile.profile_of_parts(parts, found, options.architecture)
    left_out = [f"Left out: {short_name(e.where or '')} {e.what}." for e in failures]
    return replace(profile, notes=(*profile.notes, *(Note(t, "left-out") for t in left_out)))
