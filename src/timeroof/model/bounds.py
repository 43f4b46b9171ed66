"""Which resources a kernel uses at the same time, and which it must take in turn.

This is the only place that says so.

* FLOPs of every precision, bytes of every memory level, and links overlap: different
  units work at once, so together they take at least as long as the slowest (max).
* Page faults are handled while the kernel waits, but zeroing a page also moves its
  bytes towards the core: counting both in full could exceed the true time, so for a
  lower bound they overlap with the work (max).
* Launching overlaps with the work of earlier kernels where the device has a queue
  (asynchronous: max, the paper's rule). Where the caller itself runs the kernel
  (synchronous: a CPU in eager mode) it cannot launch and work at once (add).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from timeroof.core.columns import bytes_known, flops_known
from timeroof.core.machine import Ceiling, Machine
from timeroof.core.profile import ORIGIN
from timeroof.core.report import BOUND
from timeroof.core.resources import FAULT, LAUNCH

FAULT_BOUND = f"{BOUND}{FAULT}"


def combined_bound(
    work_s: pl.Expr, fault_s: pl.Expr, launch_s: pl.Expr, *, asynchronous: bool
) -> pl.Expr:
    """The lower bound on the time of a row from its partial bounds; nulls are left out."""
    busy = pl.max_horizontal(work_s, fault_s)
    if asynchronous:
        return pl.max_horizontal(busy, launch_s)
    return pl.sum_horizontal(busy, launch_s, ignore_nulls=True)


# Which rows are too small for their work to matter: starting them is what takes the time.
#
# On a device with a queue, launching takes at least as long as the work at the roof, and the
# kernels
# are only a few launches long. On a CPU the framework's own path is part of an op's time, and
# costs
# far more than the cheapest launch there can be: what an op from Python costs is measured by the
# probe, or taken as a microsecond. There a row is tiny if an op takes a few of those, most of it
# not
# work; and if it does no work at all (a view).


MOST_LAUNCH_TIMES = 4.0
MOST_OP_COSTS = 50.0
MOST_WORK = 0.5
# An op called from Python, where no probe has measured it.
USUAL_OP_COST_S = 1e-6


def op_cost_s(machine: Machine | None) -> float | None:
    """What starting one op costs as programs do it; on a queue, the smallest launch."""
    t0_s = machine.launch_overhead_s if machine is not None else None
    if machine is None or t0_s is None or machine.launching == "asynchronous":
        return t0_s
    variants = machine.roofs()[LAUNCH].variants
    python = [1 / rate for name, rate in variants.items() if "python" in name.lower()]
    return max([t0_s, *(python or [USUAL_OP_COST_S])])


def is_tiny(machine: Machine | None, columns: Sequence[str]) -> pl.Expr:
    """Whether starting a row's kernels takes its time, not their work; of judged rows."""
    cost_s = op_cost_s(machine)
    if machine is None or cost_s is None:
        return pl.lit(False)
    # Unknown work is not small work.
    known = flops_known(columns) & bytes_known(columns)
    fault = [pl.col(FAULT_BOUND)] if FAULT_BOUND in columns else []
    work_s = pl.max_horizontal(pl.col("work_bound_s"), *fault, 0.0)
    launch_s = pl.col("overhead_time_s").fill_null(0.0)
    if machine.launching == "asynchronous":
        short = pl.col("time_s") <= MOST_LAUNCH_TIMES * cost_s * pl.col("launches")
        return known & (pl.col("launches") > 0) & (launch_s >= work_s) & short
    ops = pl.max_horizontal("launches", "calls")
    short = pl.col("time_s") <= MOST_OP_COSTS * cost_s * ops
    return known & short & (work_s <= MOST_WORK * pl.col("time_s"))


# Why a row may be faster than its roof: a flag with the likely cause, never a clip.


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
