"""What ``nsys stats`` prints, as CSV or in columns: kernel summaries, traces of GPU activities."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import polars as pl

from timeroof.core.errors import InputError, Note
from timeroof.core.profile import Profile, Source
from timeroof.read.csv import Names, fields_of, find_header, number, read_table, split_ways, ticks
from timeroof.read.events import (
    NO_LAUNCHES,
    SUMMARY,
    Whole,
    copy_bytes,
    kernel_kind,
    one_device,
    profile_of,
)  # fmt: skip
from timeroof.read.formats import ReadOptions, source_of
from timeroof.read.open import Entry, Input
from timeroof.read.text import head_text, lines

# A column says its unit as "Total Time (ns)", "Total Time:dur_ns" or "Bytes (MB)".
_UNIT = re.compile(r"^(.*?)\s*(?:\(([\w/%]+)\)|:(?:\w+_)?(\w+))?$")
_UNITS = {
    "ns": 1.0, "nsec": 1.0, "us": 1e3, "usec": 1e3, "ms": 1e6, "msec": 1e6, "s": 1e9, "sec": 1e9,
    "b": 1.0, "byte": 1.0, "bytes": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9,
    "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30,
}  # fmt: skip
_COPY = re.compile(r"^\[?CUDA (?:Unified Memory )?memcpy (.*?)\]?$", re.IGNORECASE)


# What other versions and reports call the same columns.
_SAME = {
    "minimum": "min", "maximum": "max", "kernel start": "start", "kernel dur": "duration",
    "kernel name": "name", "devid": "device",
}  # fmt: skip
# Between header and rows of a table in columns, as wide as these are.
_RULE = re.compile(r"\s*-{2,}(?:\s+-{2,})+\s*")
# Longer than any summary.
MAX_LINES = 2_000_000


def sniff(found: Input) -> bool:
    """The columns of one of nsys' reports."""
    if find_header(found.only, _is_report) is not None:
        return True
    head = head_text(found.only).split("\n")
    return any(_RULE.fullmatch(b) and _is_report(_lower(_cut(a, b))) for a, b in pairwise(head))


def read(found: Input, options: ReadOptions) -> Profile:
    """The profile of a kernel summary or of a GPU trace."""
    entry, source = found.only, source_of("Nsight Systems", found)
    if (header := find_header(entry, _is_trace)) is not None:
        return _trace(read_table(entry, header, lambda _: True), source)
    tables = list(_tables(entry))
    if not tables:
        raise InputError("has no table of Nsight Systems", entry.name, "export it again")
    for table in tables:
        if _is_trace(_lower(table.columns)):
            return _trace(table, source)
    kernels = [t for t in tables if "instances" in _plain(t.columns)]
    copies = [t for t in tables if "count" in _plain(t.columns)]
    # Further reports of kernels sort the same launches another way.
    some = [
        *kernels[:1],
        *copies[: 0 if kernels and "category" in _plain(kernels[0].columns) else 1],
    ]
    if not some:
        advice = "use `nsys stats --report cuda_gpu_kern_sum --format csv`"
        raise InputError("lists calls of the host, not GPU kernels", entry.name, advice)
    return _summary(some, source)


def _tables(entry: Entry) -> Iterator[pl.DataFrame]:
    """All reports among what was printed one after the other; empty cells are null."""
    names: Sequence[str] = ()
    within, rows = "", list[list[str]]()
    above = ""
    for count, line in enumerate(lines(entry)):
        if count > MAX_LINES:
            raise InputError(f"has more than {MAX_LINES} lines", entry.name, "it is no summary")
        ways = [(line, _cut(above, line))] if _RULE.fullmatch(line) else split_ways(line)
        report = next((way for way in ways if _is_report(_lower(way[1]))), None)
        if report or (names and rows and not line.strip()):
            # A report ends at an empty line or where the next one begins.
            yield from [_frame(names, rows)] if names else []
            (within, names), rows = report or ("", ()), []
        elif names and len(cells := _cells(line, within)) > 1:
            rows.append(cells)
        above = line
    yield from [_frame(names, rows)] if names else []


def _lower(names: Sequence[str]) -> Names:
    return frozenset(name.lower() for name in names)


def _cells(line: str, within: str) -> list[str]:
    """A row's cells: between separators, or under the dashes of a rule."""
    return fields_of(line, within) if len(within) == 1 else _cut(line, within)


def _cut(line: str, rule: str) -> list[str]:
    """A line's cells under the dashes of a rule; the last reaches to the end."""
    starts = [match.start() for match in re.finditer("-+", rule)]
    ends = [match.end() for match in re.finditer("-+", rule)][:-1]
    return [line[a:b].strip() for a, b in zip(starts, [*ends, None], strict=True)]


def _frame(names: Sequence[str], rows: list[list[str]]) -> pl.DataFrame:
    cells = {
        name: [row[i] or None if i < len(row) else None for row in rows]
        for i, name in reversed(list(enumerate(names)))
    }
    return pl.DataFrame(cells, schema=dict.fromkeys(cells, pl.String))


def _is_report(names: Names) -> bool:
    plain = _plain(names)
    some = ({"instances", "num calls", "count"}, {"name", "operation"})
    summary = {"total time", "min", "max"} <= plain and all(plain & any_of for any_of in some)
    return summary or _is_trace(names)


def _is_trace(names: Names) -> bool:
    plain = _plain(names)
    launched = {"corrid", "strm"} <= plain or {"corrid", "grdx"} <= plain or "api function" in plain
    return {"start", "duration", "name"} <= plain and launched


def _plain(names: Names | Sequence[str]) -> frozenset[str]:
    return frozenset(_split(name)[0] for name in names)


def _split(name: str) -> tuple[str, float]:
    """A column's name in lower case and what one of its units is in nanoseconds or bytes.

    >>> _split("Total Time (ns)"), _split("Bytes (MB)"), _split("Duration:dur_ns")
    (('total time', 1.0), ('bytes', 1000000.0), ('duration', 1.0))
    """
    found = _UNIT.match(name.strip())
    base, in_brackets, after_colon = found.groups() if found else (name, None, None)
    plain = base.strip().lower()
    return _SAME.get(plain, plain), _UNITS.get((in_brackets or after_colon or "").lower(), 1.0)


def _columns(table: pl.DataFrame) -> dict[str, tuple[str, float]]:
    """Plain name → (column, factor)."""
    split = [(_split(column), column) for column in reversed(table.columns)]
    return {base: (column, factor) for (base, factor), column in split}


def _summary(tables: list[pl.DataFrame], source: Source) -> Profile:
    """Kernels, and copies where they were printed too."""
    rows = pl.concat([_summed(table) for table in tables], how="diagonal")
    if not rows.height:
        raise InputError("has a header but no kernels", source.files[0].name, "record it again")
    notes = [SUMMARY, *one_device([])[1]]
    if lost := sum(table.height for table in tables) - rows.height:
        text = f"{lost} rows without a name, count or time are left out."
        notes.append(Note(text, "left-out", "warning"))
    return Profile.of(rows, source, notes=tuple(notes))


def _summed(table: pl.DataFrame) -> pl.DataFrame:
    columns = _columns(table)
    name = columns.get("name") or columns["operation"]
    count = columns.get("instances") or columns["count"]
    time, factor = columns["total time"]
    grids = [columns[g][0] for g in ("gridxyz", "blockxyz") if g in columns]
    return table.select(
        *_named(name[0]),
        (number(time) * factor / 1e9).alias("time_s"),
        number(count[0]).alias("calls"),
        *(pl.col(g).alias(f"label.{g[:-3].lower()}") for g in grids),
        pl.lit("measured").alias("origin.time"),
    ).filter(pl.col("name").is_not_null() & (pl.col("calls") >= 0) & (pl.col("time_s") >= 0))


def _trace(table: pl.DataFrame, source: Source) -> Profile:
    columns = _columns(table)
    start, start_factor = columns["start"]
    length, length_factor = columns["duration"]
    begin, duration = _scaled(table, start, start_factor), _scaled(table, length, length_factor)
    events = table.select(
        *_named(columns["name"][0]),
        begin.alias("start_ns"),
        (begin + duration).alias("end_ns"),
        _text(columns, "device").alias("device"),
        _text(columns, "strm").alias("stream"),
        _grid(columns, "grd").alias("label.grid"),
        _grid(columns, "blk").alias("label.block"),
        *_copied(columns),
        *_launched(table, columns),
    )
    number_of = pl.col("device").str.extract(r"\((\d+)\)\s*$").fill_null(pl.col("device"))
    events = events.with_columns(
        number_of.fill_null("0").alias("gpu"),
        pl.col("device").str.replace(r"\s*\(\d+\)\s*$|^\d+$", "").replace("", None),
    )
    said = () if "launch_start_ns" in events.columns else (NO_LAUNCHES,)
    return profile_of(events, Whole(source, None, said))


def _launched(table: pl.DataFrame, columns: dict[str, tuple[str, float]]) -> list[pl.Expr]:
    """When the host launched each, in the report that says it (cuda_kern_exec_trace)."""
    if not {"api start", "api dur"} <= columns.keys():
        return []
    start, length = (_scaled(table, *columns[name]) for name in ("api start", "api dur"))
    return [start.alias("launch_start_ns"), (start + length).alias("launch_end_ns")]


def _named(column: str) -> list[pl.Expr]:
    """Kind and name from the name that nsys prints."""
    name = pl.col(column)
    copied = name.str.extract(_COPY.pattern.replace("^", "(?i)^", 1))
    sets = name.str.contains(r"(?i)^\[?CUDA memset\]?")
    other = pl.when(sets).then(pl.lit("memset")).otherwise(kernel_kind(column))
    kind = pl.when(copied.is_not_null()).then(pl.lit("copy")).otherwise(other)
    plain = pl.when(copied.is_not_null()).then(pl.format("Memcpy {}", copied)).otherwise(name)
    memset = pl.when(kind == "memset").then(pl.lit("Memset")).otherwise(plain)
    return [kind.alias("kind"), memset.alias("name")]


def _scaled(table: pl.DataFrame, column: str, factor: float) -> pl.Expr:
    return ticks(table, column) if factor == 1.0 else number(column) * factor


def _text(columns: dict[str, tuple[str, float]], name: str) -> pl.Expr:
    return pl.col(columns[name][0]) if name in columns else pl.lit(None, pl.String)


def _grid(columns: dict[str, tuple[str, float]], what: str) -> pl.Expr:
    if f"{what}x" not in columns:
        return pl.lit(None, pl.String)
    axes = [pl.col(columns[f"{what}{axis}"][0]) for axis in "xyz" if f"{what}{axis}" in columns]
    text = pl.concat_str([axis.fill_null("1") for axis in axes], separator="x")
    return pl.when(axes[0].is_not_null()).then(text)


def _copied(columns: dict[str, tuple[str, float]]) -> list[pl.Expr]:
    """Bytes of copies: over PCI Express, and in device memory (both sides of a DtoD copy)."""
    if "bytes" not in columns:
        return []
    column, factor = columns["bytes"]
    size = number(column) * factor
    name = pl.col(columns["name"][0])
    moved = name.str.contains(r"(?i)^\[?CUDA (?:Unified Memory )?mem")
    link, dram = copy_bytes(size, name)
    return [
        pl.when(moved).then(link).otherwise(0.0).alias("link/pcie"),
        pl.when(moved).then(dram).alias("byte/dram"),
    ]
