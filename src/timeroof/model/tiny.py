"""Which rows are too small for their work to matter: starting them is what takes the time.

On a device with a queue, launching takes at least as long as the work at the roof, and the kernels
are only a few launches long. On a CPU the framework's own path is part of an op's time, and costs
far more than the cheapest launch there can be: what an op from Python costs is measured by the
probe, or taken as a microsecond. There a row is tiny if an op takes a few of those, most of it not
work; and if it does no work at all (a view).
"""

from __future__ import annotations

import polars as pl

from timeroof.core.machine import Machine
from timeroof.core.resources import LAUNCH

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


def is_tiny(machine: Machine | None) -> pl.Expr:
    """Whether starting a row's kernels takes its time, not their work."""
    cost_s = op_cost_s(machine)
    if machine is None or cost_s is None:
        return pl.lit(False)
    work_s = pl.max_horizontal(pl.col("work_bound_s").fill_null(0.0), pl.col("fault_s"))
    if machine.launching == "asynchronous":
        short = pl.col("time_s") <= MOST_LAUNCH_TIMES * cost_s * pl.col("launches")
        return (pl.col("launches") > 0) & (pl.col("launch_s") >= work_s) & short
    ops = pl.max_horizontal("launches", "calls")
    short = pl.col("time_s") <= MOST_OP_COSTS * cost_s * ops
    return short & (work_s <= MOST_WORK * pl.col("time_s"))
