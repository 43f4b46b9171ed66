"""Idle seconds by what could end them."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context
from timeroof.core.vocabulary import IdleCause

HOST, DATA, SYNC, LINK, ASLEEP = "host", "data", "synchronisation", "communication", "asleep"

# Causes that are not here are the device's own, the measuring's, the machine's or unknown.
_GROUPS: dict[str, str] = {
    IdleCause.LAUNCH_STARVED: HOST,
    IdleCause.PYTHON: HOST,
    IdleCause.AUTOGRAD: HOST,
    IdleCause.DISPATCH: HOST,
    IdleCause.RUNTIME: HOST,
    IdleCause.DATA: DATA,
    IdleCause.HOST_SYNC: SYNC,
    IdleCause.COMMUNICATION: LINK,
    IdleCause.ASLEEP: ASLEEP,
}


def idle_seconds(context: Context, group: str) -> float:
    """Idle seconds of the run that belong to a group of causes."""
    causes = context.totals.idle_by_cause
    found = sum(seconds for cause, seconds in causes.items() if _GROUPS.get(cause) == group)
    return found * context.scale


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
