"""Below the first screen: how fast a run could be, its work, and how every number is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import polars as pl

from timeroof.core.units import format_amount, format_seconds, format_work
from timeroof.model.totals import unexplained_words
from timeroof.views.doubts import is_empty
from timeroof.views.parts import percent

if TYPE_CHECKING:
    from timeroof.core.report import Report, Totals


class Rung(msgspec.Struct, frozen=True):
    """One rung of it, with its share of the measured time."""

    key: str
    label: str
    hint: str
    seconds: float
    text: str
    share: float | None
    percent: str


def ladder(report: Report) -> list[Rung]:
    """From the run as it was down to one ideal kernel; only the rungs that are known."""
    limits = report.totals.ladder
    steps = (
        ("measured_s", "As it ran", "idle included"),
        ("roof_s", "Every kernel at its limit", "same work, same launches"),
        ("fused_s", "Each phase perfectly fused", "intermediates never reach memory"),
        ("ideal_s", "One ideal kernel", "the whole step fused into one"),
    )
    whole = limits.measured_s
    rungs = []
    for key, label, hint in steps:
        seconds = None if is_empty(report) else getattr(limits, key)
        if seconds is not None:
            share = seconds / whole if whole else None
            text = format_seconds(seconds)
            rungs.append(Rung(key, label, hint, seconds, text, share, percent(share)))
    return rungs


# The work, and how we know.


def seconds_words(report: Report) -> str:
    """Which seconds a reader of a live run sees, and what of them is unexplained."""
    totals, steps = report.totals, report.totals.steps
    if steps is None or totals.unexplained_s is None:
        return ""
    words = [
        f"All times are seconds of an unprofiled step ({format_seconds(totals.wall_s)}).",
        "Kernels and idle time were measured in profiled steps"
        f" ({format_seconds(steps.profiled_s)}), less profiler overhead.",
        unexplained_words(totals) or "Together they explain the whole step.",
    ]
    return " ".join(words)


def amounts_line(totals: Totals) -> str:
    """Total work in a line."""
    # From the level next to the cores outwards.
    levels = sorted(totals.bytes.items(), key=lambda item: (item[0] == "dram", item[0]))
    moved = [(level.upper(), float(v)) for level, v in levels if v is not None]
    texts = [f"{format_amount(v, 'B')} at {level}" for level, v in moved]
    return ", ".join([*format_work(totals.flops), *texts])


def origin_rows(report: Report) -> list[tuple[str, str, int, str]]:
    """How every kind of number came about: what, origin, rows, share of the time."""
    rows = report.profile.kernels
    whole = float(rows["time_s"].sum()) or 1.0
    found = []
    for name in (c for c in rows.columns if c.startswith("origin.")):
        groups = rows.group_by(name).agg(pl.len(), pl.col("time_s").sum())
        groups = groups.sort("time_s", descending=True)
        found += [
            (name.removeprefix("origin."), origin or "unknown", count, percent(s / whole))
            for origin, count, s in groups.iter_rows()
        ]
    return found
