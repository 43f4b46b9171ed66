"""The timeline of one step as a strip: a lane per stream, coloured by what the time goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import polars as pl

from timeroof.core.units import format_seconds
from timeroof.views.overview import row_class

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from timeroof.core.report import Report

# A strip is so many columns wide, and so many lanes high.
COLUMNS = 500
LANES = 3
# A column is drawn where kernels fill this share of it.
LEAST_FILLED = 0.3


class Piece(msgspec.Struct, frozen=True):
    """Neighbouring columns of one class."""

    start: int
    width: int
    key: str


class Lane(msgspec.Struct, frozen=True):
    """One stream, or all those that have no lane of their own."""

    label: str
    pieces: list[Piece]


class Strip(msgspec.Struct, frozen=True):
    """The lanes of a step, the busiest first."""

    columns: int
    duration: str
    lanes: list[Lane]


def strip_of(report: Report) -> Strip | None:
    """The strip of a report; None where the source has no timestamps."""
    events = _events(report)
    if events is None or not events.height:
        return None
    start_s = float(events["start_s"].min())  # type: ignore[arg-type]
    end_s = float((events["start_s"] + events["duration_s"]).max())  # type: ignore[arg-type]
    if end_s <= start_s:
        return None
    edges = np.linspace(start_s, end_s, COLUMNS + 1)
    busy = (
        events.group_by("stream", maintain_order=True)
        .agg(pl.col("duration_s").sum())
        .sort("duration_s", descending=True, maintain_order=True)
    )
    streams = busy["stream"].to_list()
    own = streams if len(streams) <= LANES else streams[: LANES - 1]
    lanes = [
        Lane(_label(stream, len(streams)), _pieces(_of(events, [stream]), edges)) for stream in own
    ]
    others = streams[len(own) :]
    if others:
        lanes.append(Lane(f"{len(others)} others", _pieces(_of(events, others), edges)))
    shown = [lane for lane in lanes if lane.pieces]
    return Strip(COLUMNS, format_seconds(end_s - start_s), shown) if shown else None


def _events(report: Report) -> pl.DataFrame | None:
    table = report.profile.timeline
    if table is None:
        return None
    classes = report.rows.select(pl.col("id").alias("kernel"), row_class().alias("class"))
    kernels = table.filter(pl.col("kernel").is_not_null() & (pl.col("duration_s") > 0))
    return kernels.join(classes, on="kernel", how="inner", maintain_order="left")


def _of(events: pl.DataFrame, streams: list[str | None]) -> pl.DataFrame:
    return events.filter(pl.col("stream").is_in(streams, nulls_equal=True))


def _label(stream: str | None, count: int) -> str:
    return "" if stream is None or count == 1 else f"stream {stream}"


def _pieces(events: pl.DataFrame, edges: NDArray[np.float64]) -> list[Piece]:
    """Columns by the class that fills most of them, neighbours of one class as one."""
    keys = events["class"].unique(maintain_order=True).to_list()
    filled = np.stack([_filled(events.filter(pl.col("class") == key), edges) for key in keys])
    width_s = edges[1] - edges[0]
    chosen = np.where(filled.sum(axis=0) >= LEAST_FILLED * width_s, filled.argmax(axis=0), -1)
    starts = np.flatnonzero(np.diff(chosen, prepend=-2))
    widths = np.diff(starts, append=len(chosen))
    return [
        Piece(int(start), int(width), keys[chosen[start]])
        for start, width in zip(starts, widths, strict=True)
        if chosen[start] >= 0
    ]


def _filled(events: pl.DataFrame, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds of events in every column: differences of what has passed until its edges."""
    starts = np.sort(events["start_s"].to_numpy())
    ends = np.sort((events["start_s"] + events["duration_s"]).to_numpy())
    return np.diff(_since(starts, edges) - _since(ends, edges))


def _since(times: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum over times of the seconds from them until each edge."""
    before = np.searchsorted(times, edges)
    sums = np.concatenate([[0.0], np.cumsum(times)])
    return np.asarray(before * edges - sums[before])
