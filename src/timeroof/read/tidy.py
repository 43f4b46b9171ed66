"""Our tidy table, for bringing one's own numbers: one row per kernel, columns by name.

`docs/tidy.md` describes it. CSV and Parquet differ only in how the cells are stored.
"""

from __future__ import annotations

import re
from collections import Counter

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.machine import LEVELS, PRECISIONS, is_resource
from timeroof.core.parquet import MAGIC, scan_parquet
from timeroof.core.profile import LABEL, ORIGIN, Profile, Source
from timeroof.core.shapes import SHAPE
from timeroof.read.csv import find_table, split_ways
from timeroof.read.events import shown_list
from timeroof.read.formats import ReadOptions
from timeroof.read.open import Entry, Input
from timeroof.read.text import head_text, plain_file

REQUIRED = ("name", "time_s")
TEXTS = (
    "name", "kind", "op", "phase", "module", "dtype", "shape", "device", "stream", "short_name",
)  # fmt: skip
NUMBERS = (
    "time_s", "calls", "launches", "idle_before_s", "time_spread",
    "contraction_flops", "padding_flops",
)  # fmt: skip
MAX_LABELS = 200
# A row takes about 1 kB until the page is written.
MAX_ROWS = 5_000_000
MARKED_FORMULA = r"^'+[=+\-@\t\r]"

_LINK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def resource_of_column(column: str) -> str | None:
    """The resource whose amounts a column holds, None where it holds none.

    >>> resource_of_column("flops_fp16_tensor"), resource_of_column("bytes_dram")
    ('flop/fp16-tensor', 'byte/dram')
    >>> resource_of_column("link_nvlink"), resource_of_column("batch")
    ('link/nvlink', None)
    """
    if is_resource(column) and column != "launch":
        return column
    head, _, tail = column.partition("_")
    if head == "flops" and tail:
        return f"flop/{tail.replace('_', '-')}"
    if head == "bytes" and tail:
        return f"byte/{tail}"
    if head == "link" and _LINK_NAME.fullmatch(tail):
        return f"link/{tail}"
    return None


def is_tidy(header: list[str]) -> bool:
    """Whether a header has what a tidy table needs."""
    return set(REQUIRED) <= set(header)


def profile_of_table(table: pl.DataFrame, where: str) -> Profile:
    """The profile of a tidy table, or an error that names column and row."""
    _check_columns(table.columns, where)
    columns = [_column(table, name, where) for name in table.columns]
    kernels = pl.DataFrame([c for c in columns if c is not None])
    devices: list[str] = []
    if "device" in kernels.columns:
        devices = kernels["device"].drop_nulls().unique().to_list()
    if "origin.time" not in kernels.columns:
        kernels = kernels.with_columns(pl.lit("user").alias("origin.time"))
    return Profile.of(
        kernels, Source(tool="tidy table"), device=devices[0] if len(devices) == 1 else None
    )


def _check_columns(columns: list[str], where: str) -> None:
    for needed in REQUIRED:
        if needed not in columns:
            raise InputError(f"has no column {needed!r}", where, "name and time_s are required")
    targets = [_target(c, where) for c in columns]
    labels = [c for c, target in zip(columns, targets, strict=True) if target.startswith(LABEL)]
    if len(labels) > MAX_LABELS:
        what = f"has {len(labels)} columns that are no amounts ({shown_list(labels)})"
        raise InputError(what, where, f"keep at most {MAX_LABELS} of them as labels")
    if len(columns) - len(labels) > MAX_LABELS:
        what = f"has {len(columns) - len(labels)} columns of amounts"
        raise InputError(what, where, f"keep at most {MAX_LABELS} of them")


def _target(column: str, where: str) -> str:
    """The profile's column for a column of the table."""
    if column in TEXTS or column in NUMBERS or column == "rank":
        return column
    if column.startswith((LABEL, ORIGIN)):
        return column
    resource = resource_of_column(column)
    if resource is None:
        return LABEL + column
    if not is_resource(resource):
        known = ", ".join(PRECISIONS if resource.startswith("flop/") else LEVELS)
        advice = f"use one of {known}, with _ for -"
        raise InputError(f"column {column!r} names no known resource", where, advice)
    return resource


def _column(table: pl.DataFrame, name: str, where: str) -> pl.Series | None:
    target = _target(name, where)
    cells = table[name]
    if target == "shape" and cells.dtype.is_nested():
        return _shapes(cells, where)
    if target in TEXTS or target.startswith((LABEL, ORIGIN)):
        text = _text(cells).alias(target)
        return None if text.null_count() == len(text) and target.startswith(LABEL) else text
    numbers = _numbers(cells, name, where)
    return numbers.cast(pl.Int64 if target == "rank" else pl.Float64, strict=False).alias(target)


def _shapes(cells: pl.Series, where: str) -> pl.Series:
    """Shapes that a Parquet file has as lists."""
    try:
        return cells.cast(SHAPE).alias("shape")
    except pl.exceptions.PolarsError as error:
        what = f"column 'shape' has the type {cells.dtype}"
        advice = "use lists of lists of integers, or texts such as 2x3, 3x4"
        raise InputError(what, where, advice) from error


def _text(cells: pl.Series) -> pl.Series:
    text = cells.cast(pl.String, strict=False)
    return text.set(text.str.strip_chars().eq(""), None)


def _numbers(cells: pl.Series, name: str, where: str) -> pl.Series:
    if cells.dtype != pl.String:
        return cells.cast(pl.Float64, strict=False)
    text = _text(cells).str.strip_chars()
    numbers = text.cast(pl.Float64, strict=False)
    wrong = (text.is_not_null() & numbers.is_null()).arg_max()
    if wrong is not None and text[wrong] is not None and numbers[wrong] is None:
        what = f"column {name!r} has {text[wrong][:40]!r} in row {wrong + 1}, which is no number"
        raise InputError(what, where, "write plain numbers in base units (seconds, FLOPs, bytes)")
    return numbers


def sniff(found: Input) -> bool:
    """Whether the first line is a header that has both columns."""
    first = head_text(found.only).split("\n", 1)[0]
    return any(is_tidy(fields) for _, fields in split_ways(first))


def read(found: Input, options: ReadOptions) -> Profile:
    """The profile of all rows of a CSV or Parquet file."""
    entry = found.only
    table = _parquet(entry) if entry.head.startswith(MAGIC) else _csv(entry)
    return profile_of_table(table, entry.name)


def _csv(entry: Entry) -> pl.DataFrame:
    table = find_table(entry, is_tidy)
    if table is None:
        raise InputError(
            "has no header with name and time_s",
            entry.name,
            "begin it with a line that names its columns",
        )
    times = Counter(h for h in table.header if h)
    if twice := sorted(h for h, count in times.items() if count > 1):
        raise InputError(f"has the column {twice[0]!r} twice", entry.name, "keep one of them")
    named = {str(i): h for i, h in enumerate(table.header) if h}
    _check_columns(list(named.values()), entry.name)
    rows: list[pl.DataFrame] = []
    count = 0
    for frame in table.frames():
        cells = frame.select(list(named)).rename(named)
        rows.append(cells.filter(pl.any_horizontal(pl.all().is_not_null())))
        count += rows[-1].height
        if count > MAX_ROWS:
            raise _too_many(entry.name)
    if not count:
        raise InputError("has a header but no rows", entry.name, "write a row per kernel")
    text = pl.col(pl.String)
    # The mark that keeps a name such as `=a` from being a formula in spreadsheets.
    return pl.concat(rows).with_columns(
        pl.when(text.str.contains(MARKED_FORMULA))
        .then(text.str.slice(1))
        .otherwise(text)
        .name.keep()
    )


def _too_many(where: str) -> InputError:
    return InputError(f"has more than {MAX_ROWS} rows", where, "sum equal kernels first")


def _parquet(entry: Entry) -> pl.DataFrame:
    try:
        with plain_file(entry, ".parquet") as path:
            lazy = scan_parquet(path, entry.name, MAX_ROWS)
            _check_columns(lazy.collect_schema().names(), entry.name)
            if lazy.select(pl.len()).collect().item() > MAX_ROWS:  # its parts say more than it does
                raise _too_many(entry.name)
            return lazy.collect()
    except OSError as error:
        raise InputError(
            f"is no whole Parquet file ({error})", entry.name, "write it again"
        ) from error
