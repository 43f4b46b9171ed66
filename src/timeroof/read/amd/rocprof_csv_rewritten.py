"""rocprof counters rewritten by hand into Nsight Compute's long form (one row per metric)."""

from __future__ import annotations

import re

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile, Source
from timeroof.read.amd.amd_counters import KIB, is_useful, with_amounts
from timeroof.read.amd.rocprof_csv_table import Names, find_header, number, read_table
from timeroof.read.device_events import Whole, profile_of
from timeroof.read.opening import Entry

_LONG = frozenset({"id", "kernel name", "metric name", "metric value"})
_AMD = re.compile(rb",\"?(?:SQ_INSTS_\w+|FetchSize|WriteSize|FETCH_SIZE|TCC_\w+|TCP_\w+)\"?,")
_TIME_NS = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "s": 1e9}
_BYTES = {"byte": 1.0, "bytes": 1.0, "kb": KIB, "mb": KIB**2}


def is_rewritten(entry: Entry) -> bool:
    """Whether a long table names AMD's counters."""
    return find_header(entry, _is_long) is not None and bool(_AMD.search(entry.head))


def read_rewritten(entry: Entry, source: Source) -> Profile:
    """The profile of such a table; units are those of each row."""
    header = find_header(entry, _is_long)
    if header is None:
        raise InputError("has no table of rocprof", where=entry.name)
    table = read_table(entry, header, lambda _: True)
    unit = pl.col("Metric Unit").str.to_lowercase()
    long = table.select(
        "ID",
        pl.col("Kernel Name").alias("name"),
        pl.col("Metric Name").alias("metric"),
        number("Metric Value").alias("value"),
        unit.replace_strict(_TIME_NS, default=None, return_dtype=pl.Float64).alias("ns"),
        unit.replace_strict(_BYTES, default=None, return_dtype=pl.Float64).alias("bytes"),
    ).drop_nulls(["name", "metric"])
    is_time = (pl.col("metric").str.to_lowercase() == "time") & pl.col("ns").is_not_null()
    # The amounts expect sizes in units of 1024 bytes, as the counters are defined.
    value = (
        pl.when(is_time)
        .then(pl.col("value") * pl.col("ns"))
        .when(pl.col("metric").str.contains("(?i)size$") & pl.col("bytes").is_not_null())
        .then(pl.col("value") * pl.col("bytes") / KIB)
        .otherwise(pl.col("value"))
    )
    wide = long.with_columns(value.alias("value")).pivot(
        "metric", index=["ID", "name"], values="value", aggregate_function="first"
    )
    return _profile(wide, source)


def _profile(wide: pl.DataFrame, source: Source) -> Profile:
    if "time" not in wide.columns:
        wide = wide.with_columns(pl.lit(None, pl.Float64).alias("time"))
    kept = [c for c in wide.columns if is_useful(c)]
    events, notes = with_amounts(wide.select("name", "time", *kept))
    events = events.with_columns(
        pl.lit("kernel").alias("kind"),
        pl.lit(0.0).alias("start_ns"),
        pl.col("time").alias("end_ns"),
    ).drop("time")
    notes = [*notes, "counters rewritten in Nsight Compute's form; the file names no device"]
    return profile_of(events, Whole(source, None, tuple(notes), has_gaps=False))


def _is_long(names: Names) -> bool:
    return names >= _LONG
