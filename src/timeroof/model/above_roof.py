"""Why a row may be faster than its roof: a flag with the likely cause, never a clip."""

from __future__ import annotations

from typing import Any

import polars as pl

from timeroof.core.machine import Ceiling, Machine
from timeroof.core.profile import ORIGIN
from timeroof.core.verdict import BOUND

# How far beyond a roof chance, and a clock above the one the ceiling assumes, can carry.
NOISE_FACTOR = 1.03
CLOCK_FACTOR = 1.30

# Room for rounding when a time is compared with an equal bound.
ROUNDING = 1e-9

COUNTED = ("counted", "modelled", "inferred")


def above_roof_cause(
    columns: list[str], roofs: dict[str, Ceiling], machine: Machine | None
) -> pl.Expr:
    """The likely cause where time_s is below work_bound_s beyond the spread, else null.

    Only work counts: launching never puts a kernel above the roof. A row of 0 s was not timed
    finely enough to say anything.
    """
    spread = pl.col("time_spread").fill_null(0.0)
    took_time = pl.col("time_s") > 0
    above = took_time & (pl.col("time_s") * (1 + spread + ROUNDING) < pl.col("work_bound_s"))
    excess = pl.col("work_bound_s") / pl.col("time_s")
    work = [c for c in columns if c in roofs and c.split("/")[0] in ("flop", "byte", "link")]
    cause: Any = pl.when(~above.fill_null(False)).then(pl.lit(None, pl.String))
    for resource in work:
        limits = pl.col(f"{BOUND}{resource}") == pl.col("work_bound_s")
        cause = cause.when(limits).then(_cause(resource, columns, excess, roofs[resource], machine))
    expression: pl.Expr = cause.otherwise(pl.lit(None, pl.String))
    return expression


def _cause(
    resource: str, columns: list[str], excess: pl.Expr, ceiling: Ceiling, machine: Machine | None
) -> pl.Expr:
    head, _, tail = resource.partition("/")
    origin = f"{ORIGIN}flops" if head == "flop" else f"{ORIGIN}{head}s/{tail}"
    counted = pl.col(origin).is_in(COUNTED).fill_null(False) if origin in columns else pl.lit(False)
    shaky = pl.lit(ceiling.origin in COUNTED)
    small = excess <= NOISE_FACTOR
    if head == "byte":
        cache = machine.largest_cache_bytes if machine is not None else None
        per_call = pl.col(resource) / pl.col("calls")
        fits = per_call <= cache if cache is not None else pl.lit(False)
        return (
            pl.when(fits)
            .then(pl.lit("cache-resident"))
            .when(small)
            .then(pl.lit("noise"))
            .when(counted)
            .then(pl.lit("wrong count"))
            .otherwise(pl.lit("wrong ceiling"))
        )
    return (
        pl.when(small)
        .then(pl.lit("noise"))
        .when(excess <= _room_below_theory(ceiling, machine))
        .then(pl.lit("wrong ceiling"))
        .when((excess <= CLOCK_FACTOR) & pl.lit(head == "flop") & ~shaky)
        .then(pl.lit("boost clock"))
        .when(counted)
        .then(pl.lit("wrong count"))
        .otherwise(pl.lit("wrong ceiling"))
    )


def _room_below_theory(ceiling: Ceiling, machine: Machine | None) -> float:
    """By what factor a measured ceiling may be beaten before the hardware's own is; 0 if unknown.

    A product that reaches more than a measured ceiling, but not more than the units can do,
    shows that the ceiling was measured too low: on a busy machine, or by a poorer kernel.
    """
    if machine is None or ceiling.origin != "measured":
        return 0.0
    rates = [
        c.rate for c in machine.ceilings
        if (c.resource, c.scope, c.origin) == (ceiling.resource, ceiling.scope, "theoretical")
    ]  # fmt: skip
    return max(rates, default=0.0) / ceiling.rate * (1 + ROUNDING)
