"""Statistics by kernel name (``*_kernel_stats.csv`` of rocprofv3, ``*.stats.csv`` of rocprof)."""

from __future__ import annotations

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile, Source
from timeroof.read.amd.rocprof_csv_table import Header, kernel_name, number, read_table
from timeroof.read.device_events import COLLECTIVE
from timeroof.read.opening import Entry

_HOST_CALL = r"^(?:hip[A-Z]|hsa_|__hip|roctx|rccl[A-Z]\w+$|nccl[A-Z]\w+$)"
_DOMAIN = r"^(?:KERNEL_DISPATCH|HIP_|HSA_|MARKER_|MEMORY_ALLOCATION|SCRATCH_MEMORY)"


def read_stats(table: tuple[Entry, Header], source: Source) -> Profile:
    """Rows of a summary by kernel name; statistics of host calls are refused."""
    entry, header = table
    raw = read_table(entry, header, lambda _: True)
    rows = raw.select(
        kernel_name("Name").alias("name"),
        number("Calls").alias("calls"),
        (number("TotalDurationNs") / 1e9).alias("time_s"),
        pl.lit("measured").alias("origin.time"),
    ).filter(pl.col("name").is_not_null() & (pl.col("time_s") >= 0) & (pl.col("calls") >= 0))
    if not rows.height:
        raise InputError("has a header but no kernels", where=entry.name)
    if rows["name"].str.contains(f"{_HOST_CALL}|{_DOMAIN}").all():
        raise InputError(
            f"is a summary of host calls or domains ({rows['name'][0]} …), not of kernels",
            where=entry.name,
            advice="name the run's *_kernel_stats.csv",
        )
    copies = pl.col("name").str.contains("^MEMORY_COPY_")
    kind = (
        pl.when(copies)
        .then(pl.lit("copy"))
        .when(pl.col("name").str.contains(COLLECTIVE))
        .then(pl.lit("collective"))
        .otherwise(pl.lit("kernel"))
    )
    notes = ["a summary by kernel name: no timestamps, so idle time is unknown"]
    return Profile.of(
        rows.with_columns(kind.alias("kind")), source, notes=(*notes, "the file names no device")
    )
