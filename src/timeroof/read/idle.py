"""Idle time of a device: how long nothing ran before an event, and why.

A gap counts for the event that ends it, and only while no stream of the device is busy, so
that Σ (time + idle) of one device's events with no overlap is its elapsed time.
"""

from __future__ import annotations

import polars as pl

# The host issued the work too late.
LAUNCH_STARVED = "launch-starved"
# The host waited for the device, and only then issued more.
HOST_SYNC = "host-sync"
# The work was issued in time and followed work of another stream.
OTHER_STREAM = "other-stream"
# The host was fetching data.
DATA = "data"
# Issued in time, same stream: the device's own time between two kernels.
DEVICE = "device"
# No launch is known.
UNKNOWN = "unknown"

# API calls after which the host has waited for the device.
SYNC_CALLS = (
    r"Synchronize|^(?:cudaMemcpy|hipMemcpy|cuMemcpy(?:HtoD|DtoH|DtoD)?)(?:_v\d+|WithStream)?$"
)


def with_idle(events: pl.DataFrame) -> pl.DataFrame:
    """Add ``idle_ns`` and ``idle_cause`` to events sorted by device and start."""
    for column in ("launch_start_ns", "launch_end_ns", "sync_end_ns"):
        if column not in events.columns:
            events = events.with_columns(pl.lit(None, pl.Int64).alias(column))
    if "phase" not in events.columns:
        events = events.with_columns(pl.lit(None, pl.String).alias("phase"))
    latest = pl.col("end_ns").cum_max()
    ended_last = pl.when(pl.col("end_ns") == latest).then(pl.col("stream").fill_null("?"))
    events = events.with_columns(
        latest.shift(1).over("gpu").alias("_before"),
        ended_last.forward_fill().shift(1).over("gpu").alias("_stream_before"),
    )
    gap = (pl.col("start_ns") - pl.col("_before")).clip(lower_bound=0).fill_null(0)
    events = events.with_columns(gap.alias("idle_ns"))
    return events.with_columns(_cause().alias("idle_cause")).drop("_before", "_stream_before")


def _cause() -> pl.Expr:
    late = pl.col("launch_end_ns") > pl.col("_before")
    waited = (pl.col("sync_end_ns") >= pl.col("_before")).fill_null(False)
    return (
        pl.when(pl.col("idle_ns") <= 0)
        .then(None)
        .when(pl.col("launch_end_ns").is_null())
        .then(pl.lit(UNKNOWN))
        .when(late & (pl.col("phase") == "data").fill_null(False))
        .then(pl.lit(DATA))
        .when(late & waited)
        .then(pl.lit(HOST_SYNC))
        .when(late)
        .then(pl.lit(LAUNCH_STARVED))
        .when(pl.col("_stream_before") != pl.col("stream").fill_null("?"))
        .then(pl.lit(OTHER_STREAM))
        .otherwise(pl.lit(DEVICE))
    )


def idle_by_cause(events: pl.DataFrame, idle_s: float) -> dict[str, float]:
    """Idle seconds by cause, the mean of one device; what no gap explains is unknown."""
    gpus = max(events["gpu"].n_unique(), 1)
    sums = (
        events.filter(pl.col("idle_cause").is_not_null())
        .group_by("idle_cause")
        .agg(pl.col("idle_ns").cast(pl.Float64).sum())
        .sort("idle_cause")
    )
    causes = {str(cause): float(ns) / 1e9 / gpus for cause, ns in sums.iter_rows()}
    rest = idle_s - sum(causes.values())
    if rest > 1e-9:
        causes[UNKNOWN] = causes.get(UNKNOWN, 0.0) + rest
    return causes


def link_launches(events: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Give events the host call that launched them, and the last wait of the host before it.

    `calls` has process, correlation, thread, start_ns, end_ns, name; events have process and
    correlation. Where several calls share a correlation the first one counts.
    """
    if not calls.height:
        return events
    launches = (
        calls.sort("start_ns")
        .unique(["process", "correlation"], keep="first", maintain_order=True)
        .select(
            "process",
            "correlation",
            pl.col("thread").alias("launch_thread"),
            pl.col("start_ns").alias("launch_start_ns"),
            pl.col("end_ns").alias("launch_end_ns"),
        )
    )
    events = events.join(launches, on=["process", "correlation"], how="left", maintain_order="left")
    waits = calls.filter(pl.col("name").str.contains(SYNC_CALLS)).select(
        "process", pl.col("end_ns").alias("sync_end_ns")
    )
    return _with_waits(events, waits)


def _with_waits(events: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """The end of the last wait of the same process before each launch."""
    if not waits.height:
        return events.with_columns(pl.lit(None, pl.Int64).alias("sync_end_ns"))
    waits = waits.with_columns(pl.col("sync_end_ns").alias("_at")).sort("_at")
    numbered = events.with_row_index("_row")
    found = (
        numbered.filter(pl.col("launch_start_ns").is_not_null())
        .sort("launch_start_ns")
        .join_asof(
            waits,
            left_on="launch_start_ns",
            right_on="_at",
            by="process",
            strategy="backward",
            check_sortedness=False,
        )
        .select("_row", "sync_end_ns")
    )
    return numbered.join(found, on="_row", how="left", maintain_order="left").drop("_row")
