"""TR205."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context, kernel_count, places
from timeroof.advice.rule import Claim, Rule
from timeroof.core.units import format_seconds

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
    title = "Kernels read from cache, not from DRAM"
    actions = {
        "any": "Nothing to do here. Measure with cold caches before you compare: with larger"
        " tensors these kernels fall back to DRAM bandwidth."
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows flagged as cache-resident."""
        rows = context.rows.filter(pl.col("above_roof") == "cache-resident")
        time_s = float(rows["time_s"].sum())
        if time_s < MIN_TIME_SHARE * context.total_s or not time_s:
            return []
        excess = float(rows["work_bound_s"].sum()) / time_s
        why = (
            f"{kernel_count(rows)} {context.noun}s ({format_seconds(time_s)},"
            f" {context.share(time_s)}) run {excess:.2f}× faster than DRAM allows. Their data"
            f" fit a cache.{places(rows)}"
        )
        title = f"Cache feeds {context.of_run(time_s)}: {excess:.2f}× faster than DRAM allows"
        evidence = {"time_s": time_s, "times_roof": excess}
        return self.inform(context, rows, why, evidence, title=title)
