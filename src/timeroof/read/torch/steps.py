"""Steps of training as PyTorch's profiler marks them, and the timeline of one of them."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from timeroof.core.profile import TIMELINE_COLUMNS, Steps
from timeroof.read.torch.codes import Floats
from timeroof.read.torch.idling import CAUSES
from timeroof.read.torch.rows import KEY, stream_name, text_of
from timeroof.read.torch.trace import ANNOTATION, Trace

MAX_TIMELINE = 20_000
_STEP = re.compile(r"ProfilerStep#\d+")
_US = 1e-6


def step_times(trace: Trace) -> tuple[Floats, Floats]:
    """Start and end of every step, in order."""
    names = trace.names.values_in_order()
    is_step = np.array([*(bool(_STEP.match(n)) for n in names), False])
    rows = np.flatnonzero(is_step[trace.frames["name"]] & (trace.frames["kind"] == ANNOTATION))
    rows = rows[np.argsort(trace.frames["start"][rows], kind="stable")]
    return trace.frames["start"][rows], trace.frames["end"][rows]


def steps(trace: Trace) -> Steps | None:
    """How many steps there are, and the median time of one."""
    start, end = step_times(trace)
    if not len(start):
        return None
    return Steps(count=len(start), timed_s=float(np.median(end - start)) * _US)


def timeline(trace: Trace, table: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame | None:
    """The work that the last step launched, in order; all work where there are no steps."""
    if not table.height:
        return None
    start, end = step_times(trace)
    if len(start):
        launched = np.append(trace.launches["start"], np.nan)[table["launch"].to_numpy()]
        began = np.where(np.isfinite(launched), launched, table["start"].to_numpy())
        inside = (began >= start[-1]) & (began < end[-1])
        table = table.filter(inside) if inside.any() else table
    table = table.sort("start").head(MAX_TIMELINE)
    ids = rows.select(pl.col("id").alias("kernel"), *(pl.col(f".{k}").alias(k) for k in KEY))
    joined = table.join(ids, on=KEY, how="left", nulls_equal=True, maintain_order="left")
    first = float(table["start"][0])
    return joined.select(
        ((pl.col("start") - first) * _US).alias("start_s"),
        (pl.col("duration") * _US).alias("duration_s"),
        stream_name(trace).alias("stream"),
        pl.col("kernel"),
        pl.when(pl.col("cause") >= 0).then(text_of("cause", CAUSES)).alias("idle_cause"),
    ).cast(dict(TIMELINE_COLUMNS))  # type: ignore[arg-type]
