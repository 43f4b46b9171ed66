"""What rules reckon with: idle seconds by what could end them, bounds in another format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from timeroof.advice.context import Context
from timeroof.core.report import BOUND
from timeroof.core.vocabulary import IdleCause

if TYPE_CHECKING:
    pass


# Idle seconds by what could end them.

HOST, DATA, SYNC, LINK, ASLEEP = "host", "data", "synchronisation", "communication", "asleep"
COMPILING = "compiling"

# Causes that are not here are the device's own, the measuring's, the machine's or unknown.
_GROUPS: dict[str, str] = {
    **dict.fromkeys(("launch-starved", "python", "autograd", "dispatch", "runtime"), HOST),
    IdleCause.DATA: DATA,
    IdleCause.HOST_SYNC: SYNC,
    IdleCause.COMMUNICATION: LINK,
    IdleCause.ASLEEP: ASLEEP,
    IdleCause.COMPILE: COMPILING,
}


def idle_seconds(context: Context, group: str) -> float:
    """Idle seconds of the run that belong to a group of causes; pauses outside of steps do not."""
    causes, steps = context.totals.idle_by_cause, context.totals.steps
    pauses = steps.pause_by_cause if steps is not None else {}
    seconds = (
        s - pauses.get(cause, 0.0) for cause, s in causes.items() if _GROUPS.get(cause) == group
    )
    return max(0.0, sum(seconds))


def idle_share(context: Context, group: str) -> float:
    """The share of the rows' idle that belongs to a group; all of it where no cause is known."""
    if not context.totals.idle_by_cause:
        return 1.0
    known_s = float(context.rows["idle_s"].sum())
    return min(1.0, idle_seconds(context, group) / known_s) if known_s else 0.0


def with_idle_gain(context: Context, group: str) -> tuple[pl.DataFrame, dict[str, float]]:
    """Idle seconds of a group as gains of rows, or beside the rows where those do not know.

    Where rows know the idle before them, each gives the group's share of it.
    """
    seconds = idle_seconds(context, group)
    known_s = float(context.rows["idle_s"].sum())
    share = idle_share(context, group) if seconds else 0.0
    rows = context.rows.filter(pl.col("idle_s") > 0).with_columns(
        pl.lit(0.0).alias("busy_gain_s"), (pl.col("idle_s") * share).alias("idle_gain_s")
    )
    left = seconds - share * known_s
    return rows, ({group: left} if left > 1e-12 else {})


# What a row's bound would be, were its arithmetic done in another format.

# Units that multiply matrices of 16-bit numbers, best first.
SIXTEEN_BIT = ("flop/bf16-tensor", "flop/fp16-tensor", "flop/bf16")
NATIVE = {
    "fp16": ("flop/fp16-tensor",),
    "bf16": ("flop/bf16-tensor", "flop/bf16"),
    "fp32": ("flop/tf32-tensor",),
}


def native_rate(context: Context, resources: tuple[str, ...]) -> tuple[str, float] | None:
    """The first resource that the device has a unit of its own for, and its rate."""
    emulated = context.machine.emulated if context.machine is not None else {}
    rates = ((resource, context.rate(resource)) for resource in resources)
    return next(((r, rate) for r, rate in rates if rate is not None and r not in emulated), None)


def contraction_amount() -> pl.Expr:
    """FLOPs that a matrix unit could do; all FLOPs of a contraction where not told apart."""
    return pl.coalesce(pl.col("contraction_flops"), pl.col("total_flops"))


def flop_bounds(rows: pl.DataFrame) -> list[str]:
    """Bounds by arithmetic."""
    return [c for c in rows.columns if c.startswith(f"{BOUND}flop/")]


def other_bounds(rows: pl.DataFrame, byte_factor: float = 1.0) -> pl.Expr:
    """The largest bound by bytes, which a narrower format shortens, and by links."""
    memory = [c for c in rows.columns if c.startswith((f"{BOUND}byte/", f"{BOUND}link/"))]
    if not memory:
        return pl.lit(0.0)
    return pl.max_horizontal(memory).fill_null(0.0) * byte_factor


def flop_bound(rows: pl.DataFrame) -> pl.Expr:
    """The largest bound by arithmetic."""
    bounds = flop_bounds(rows)
    return pl.max_horizontal(bounds).fill_null(0.0) if bounds else pl.lit(0.0)


def on_unit(rows: pl.DataFrame, rate: float, byte_factor: float = 1.0) -> pl.Expr:
    """Seconds at the roof with all contractions on a unit of that rate."""
    return pl.max_horizontal(contraction_amount() / rate, other_bounds(rows, byte_factor))
