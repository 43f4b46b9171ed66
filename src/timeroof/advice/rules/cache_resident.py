"""TR205."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context
from timeroof.advice.rule import Claim, Rule
from timeroof.core.units import format_percent, format_seconds

MIN_TIME_SHARE = 0.05


class CacheResident(Rule):
    """Kernels faster than memory, because their data are still in a cache.

    **What.** Rows above the DRAM roof whose bytes per call fit the largest cache, together 5 %
    of the run or more.

    **Why.** It is good news, and a warning for comparisons: with larger tensors, cold caches or
    another order of ops these kernels fall back to the speed of memory.

    **Example.** ReLU on the 4 MB output of the layer just before it.

    **Seconds.** None are claimed.

    **Silent** below 5 % of the run and without the sizes of caches.
    """

    code = "TR205"
    name = "cache-resident"
    title = "Data come from the cache, not from memory"
    actions = {
        "any": "Keep it so: small working sets, ops that follow each other closely. Judge"
        " these rows"
        " by their cache's ceiling, and measure with cold caches before comparing."
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows flagged as cache-resident."""
        rows = context.rows.filter(pl.col("above_roof") == "cache-resident")
        time_s = float(rows["time_s"].sum())
        if time_s < MIN_TIME_SHARE * context.total_s or not time_s:
            return []
        excess = float(rows["work_bound_s"].sum()) / time_s
        why = (
            f"{rows.height} rows ({format_seconds(time_s)},"
            f" {format_percent(time_s / context.total_s)} of the run) are {excess:.2f}"
            f" times as fast"
            " as memory could feed them; their data fit a cache."
        )
        return self.inform(context, rows, why, {"time_s": time_s, "times_roof": excess})
