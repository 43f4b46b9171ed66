"""What an amount that nobody knows does to a bound, a limiter, a total and a rule: all of it here.

* A bound is what known amounts need. It stays a lower bound where others are unknown, but an
  amount of 0 beside unknown ones bounds nothing: then the bound is unknown, not 0.
* A limiter is unknown unless FLOPs and DRAM bytes are known (of a collective what it sends), or
  a known bound already explains nearly all of the time.
* Gap and efficiency of a row without a limiter are unknown, and so is what a cure of its work
  gives back: no rule claims busy seconds of it. It keeps its time wherever rows are added up.
* A sum over amounts is that of the known ones, and stands with the share of time that it covers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from timeroof.core.columns import bytes_known, flops_known
from timeroof.core.machine import Ceiling, Machine
from timeroof.core.report import BOUND
from timeroof.core.resources import LATENCY, LAUNCH
from timeroof.model.bounds import op_cost_s

UNKNOWN = "unknown"

# A known bound that explains this share of the time settles the limiter, whatever
# the amounts that are not known may be.
EXPLAINING_SHARE = 0.9
# Launching explains a row that takes at most so many launch costs per launch.
MOST_LAUNCH_COSTS = 2.0
# A largest bound below this share of the elapsed time explains nothing.
LEAST_EXPLAINED = 0.05


def launch_cost_s(machine: Machine | None) -> float | None:
    """What one launch takes as programs see it: no kernel is shorter than the device's floor."""
    cost_s = op_cost_s(machine)
    if machine is None or cost_s is None or machine.launching == "synchronous":
        return cost_s
    return max(cost_s, machine.kernel_floor_s or 0.0)


def work_bound(bounds: Sequence[str]) -> pl.Expr:
    """The largest of the bounds by work; nothing known to be done is no bound of the unknown."""
    if not bounds:
        return pl.lit(None, pl.Float64)
    largest = pl.max_horizontal(bounds)
    some_unknown = pl.any_horizontal(pl.col(b).is_null() for b in bounds)
    return pl.when((largest > 0) | ~some_unknown).then(largest)


def amounts_known(amounts: Sequence[str]) -> pl.Expr:
    """Whether what limits a row can be told: its FLOPs and bytes, or what a collective sends."""
    known = flops_known(amounts) & bytes_known(amounts)
    links = [a for a in amounts if a.startswith("link/")]
    if not links:
        return known
    sends = pl.sum_horizontal(links) > 0
    sent_known = pl.all_horizontal(pl.col(a).is_not_null() for a in links)
    return known | ((pl.col("kind") == "collective") & sends & sent_known)


def limiter(
    amounts: Sequence[str], roofs: Mapping[str, Ceiling], launch_cost_s: float | None
) -> pl.Expr:
    """The resource of the largest bound, `latency` where none explains the time, or `unknown`."""
    resources = [a for a in amounts if a in roofs] + ([LAUNCH] if LAUNCH in roofs else [])
    if not resources:
        return pl.lit(UNKNOWN)
    largest = pl.max_horizontal(f"{BOUND}{r}" for r in resources)
    explains = largest >= EXPLAINING_SHARE * pl.col("elapsed_s")
    settled = amounts_known(amounts) | explains
    choice: Any = pl.when(~settled.fill_null(False) | largest.is_null()).then(pl.lit(UNKNOWN))
    choice = choice.when(_unexplained(largest, roofs, launch_cost_s)).then(pl.lit(LATENCY))
    # Known to do no work, not even a launch of its own: overhead, whatever the columns' order.
    idle = LAUNCH if LAUNCH in roofs else UNKNOWN
    choice = choice.when(largest == 0).then(pl.lit(idle))
    for resource in resources:
        choice = choice.when(pl.col(f"{BOUND}{resource}") == largest).then(pl.lit(resource))
    expression: pl.Expr = choice.otherwise(pl.lit(UNKNOWN))
    return expression


def _unexplained(
    largest: pl.Expr, roofs: Mapping[str, Ceiling], launch_cost_s: float | None
) -> pl.Expr:
    """Whether neither launching nor work explains the time of a row.

    What one launch costs is more than the bound has, which is of a loop without Python.
    """
    little = largest < LEAST_EXPLAINED * pl.col("elapsed_s")
    if LAUNCH not in roofs or launch_cost_s is None:
        return little.fill_null(False)
    launching = pl.col(f"{BOUND}{LAUNCH}") == largest
    launches = pl.when(pl.col("launches") > 0).then(pl.col("launches")).otherwise(pl.col("calls"))
    long = pl.col("time_s") > MOST_LAUNCH_COSTS * launch_cost_s * launches
    return pl.when(launching).then(long).otherwise(little).fill_null(False)


def is_settled() -> pl.Expr:
    """Whether a judged row has a limiter."""
    return pl.col("limiter") != UNKNOWN


def where_settled(value: pl.Expr) -> pl.Expr:
    """A number that only rows with a limiter have."""
    return pl.when(is_settled()).then(value)
