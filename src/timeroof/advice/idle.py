"""Idle seconds by what could end them; sources name causes in their own words."""

from __future__ import annotations

import re

import polars as pl

from timeroof.advice.context import Context

HOST, DATA, SYNC, LINK, ASLEEP = "host", "data", "synchronisation", "communication", "asleep"

_PATTERNS = {
    ASLEEP: r"asleep",
    DATA: r"data|loader|input",
    SYNC: r"sync|\.item|wait",
    LINK: r"comm|collective|nccl|rccl|link|network|peer",
    HOST: r"launch|starv|host|python|dispatch|autograd|gap|interpreter|framework",
}


def cause_of(text: str) -> str | None:
    """The group that a source's word for a cause belongs to.

    >>> cause_of("launch-starved"), cause_of("host-sync"), cause_of("device")
    ('host', 'synchronisation', None)
    """
    return next((c for c, pattern in _PATTERNS.items() if re.search(pattern, text.lower())), None)


def idle_seconds(context: Context, group: str) -> float:
    """Idle seconds of the run that belong to a group of causes."""
    causes = context.totals.idle_by_cause
    return sum(seconds for cause, seconds in causes.items() if cause_of(cause) == group)


def with_idle_gain(context: Context, group: str) -> tuple[pl.DataFrame, dict[str, float]]:
    """Idle seconds of a group as gains of rows, or beside the rows where those do not know.

    Where rows know the idle before them, each gives the group's share of it.
    """
    seconds = idle_seconds(context, group)
    known_s = float(context.rows["idle_s"].sum())
    share = min(1.0, seconds / known_s) if known_s else 0.0
    rows = context.rows.filter(pl.col("idle_s") > 0).with_columns(
        pl.lit(0.0).alias("busy_gain_s"), (pl.col("idle_s") * share).alias("idle_gain_s")
    )
    left = seconds - share * known_s
    return rows, ({group: left} if left > 1e-12 else {})
