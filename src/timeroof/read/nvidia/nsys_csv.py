"""What ``nsys stats --format csv`` prints: kernel summaries and the trace of GPU activities."""

from __future__ import annotations

import re

import polars as pl

from timeroof.core.errors import InputError, Note
from timeroof.core.profile import Profile, Source
from timeroof.read.csv import Names, find_header, number, read_table, ticks
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
from timeroof.read.open import Input

# A column says its unit as "Total Time (ns)", "Total Time:dur_ns" or "Bytes (MB)".
_UNIT = re.compile(r"^(.*?)\s*(?:\(([\w/%]+)\)|:(?:\w+_)?(\w+))?$")
_UNITS = {
    "ns": 1.0, "us": 1e3, "usec": 1e3, "ms": 1e6, "s": 1e9, "sec": 1e9,
    "b": 1.0, "byte": 1.0, "bytes": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9,
    "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30,
}  # fmt: skip
_COPY = re.compile(r"^\[?CUDA (?:Unified Memory )?memcpy (.*?)\]?$", re.IGNORECASE)


def sniff(found: Input) -> bool:
    """A CSV with the columns of one of nsys' reports."""
    return find_header(found.only, _is_report) is not None


def read(found: Input, options: ReadOptions) -> Profile:
    """The profile of a kernel summary or of a GPU trace."""
    entry, source = found.only, source_of("Nsight Systems", found)
    header = find_header(entry, _is_report)
    if header is None:
        raise InputError("has no table of Nsight Systems", entry.name, "export it again")
    plain = _plain(header.plain)
    if "num calls" in plain:
        advice = "use `nsys stats --report cuda_gpu_kern_sum --format csv`"
        raise InputError("lists calls of the host, not GPU kernels", entry.name, advice)
    table = read_table(entry, header, lambda _: True)
    if "instances" in plain or "count" in plain:
        return _summary(table, source)
    return _trace(table, source)


def _is_report(names: Names) -> bool:
    plain = _plain(names)
    some = ({"instances", "num calls", "count"}, {"name", "operation"})
    summary = {"total time", "min", "max"} <= plain and all(plain & any_of for any_of in some)
    trace = {"start", "duration", "name", "corrid"} <= plain
    return summary or (trace and bool(plain & {"strm", "grdx"}))


def _plain(names: Names) -> frozenset[str]:
    return frozenset(_split(name)[0] for name in names)


def _split(name: str) -> tuple[str, float]:
    """A column's name in lower case and what one of its units is in nanoseconds or bytes.

    >>> _split("Total Time (ns)"), _split("Bytes (MB)"), _split("Duration:dur_ns")
    (('total time', 1.0), ('bytes', 1000000.0), ('duration', 1.0))
    """
    found = _UNIT.match(name.strip())
    base, in_brackets, after_colon = found.groups() if found else (name, None, None)
    return base.strip().lower(), _UNITS.get((in_brackets or after_colon or "").lower(), 1.0)


def _columns(table: pl.DataFrame) -> dict[str, tuple[str, float]]:
    """Plain name → (column, factor)."""
    split = [(_split(column), column) for column in reversed(table.columns)]
    return {base: (column, factor) for (base, factor), column in split}


def _summary(table: pl.DataFrame, source: Source) -> Profile:
    columns = _columns(table)
    name = columns.get("name") or columns["operation"]
    count = columns.get("instances") or columns["count"]
    time, factor = columns["total time"]
    grids = [columns[g][0] for g in ("gridxyz", "blockxyz") if g in columns]
    rows = table.select(
        *_named(name[0]),
        (number(time) * factor / 1e9).alias("time_s"),
        number(count[0]).alias("calls"),
        *(pl.col(g).alias(f"label.{g[:-3].lower()}") for g in grids),
        pl.lit("measured").alias("origin.time"),
    ).filter(pl.col("name").is_not_null() & (pl.col("calls") >= 0) & (pl.col("time_s") >= 0))
    if not rows.height:
        raise InputError("has a header but no kernels", source.files[0].name, "record it again")
    notes = [SUMMARY, *one_device([])[1]]
    if lost := table.height - rows.height:
        text = f"{lost} rows without a name, count or time are left out."
        notes.append(Note(text, "left-out", "warning"))
    return Profile.of(rows, source, notes=tuple(notes))


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
    )
    number_of = pl.col("device").str.extract(r"\((\d+)\)\s*$").fill_null(pl.col("device"))
    events = events.with_columns(
        number_of.fill_null("0").alias("gpu"),
        pl.col("device").str.replace(r"\s*\(\d+\)\s*$", "").alias("device"),
    )
    return profile_of(events, Whole(source, None, (NO_LAUNCHES,)))


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
