"""TR206."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context
from timeroof.advice.rule import Claim, Rule
from timeroof.core.resources import FAULT
from timeroof.units import format_percent, format_seconds

# Page faults hold at least this part of a row's time.
MIN_FAULT_SHARE = 0.25


class FreshMemory(Rule):
    """Kernels slowed by touching memory for the first time.

    **What.** Rows whose page faults take a quarter of their time or more.

    **Why.** The allocator gave large buffers back to the system after the last step; now every
    page of the new ones is mapped and zeroed when it is first written. The same element-wise op
    ran at 31 GB/s into an existing tensor and at 5.4 GB/s into a new one of 64 MB.

    **Example.** `y = x + 1` with 64 MB results in every step, glibc's malloc.

    **Seconds.** Time less the bound without faults.

    **Silent** where faults are not counted, and below 1 % of the run.
    """

    code = "TR206"
    name = "fresh-memory"
    title = "Fresh memory is touched page by page"
    actions = {
        "torch": "Keep memory: run under jemalloc or tcmalloc (LD_PRELOAD) or set"
        " MALLOC_TOP_PAD_, MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_; reuse outputs"
        " (out=, in-place ops), use transparent huge pages.",
        "any": "Reuse buffers, keep freed memory in the process, use huge pages.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows that page faults slow down."""
        if FAULT not in context.rows.columns:
            return []
        after = context.bound_after(pl.col("work_bound_s").fill_null(0.0), fault_s=pl.lit(0.0))
        rows = context.rows.filter(
            pl.col("fault_s") > 0, pl.col("fault_s") >= MIN_FAULT_SHARE * pl.col("time_s")
        ).with_columns((pl.col("time_s") - after).alias("busy_gain_s"))
        if not rows.height:
            return []
        faults, fault_s = float(rows[FAULT].sum()), float(rows["fault_s"].sum())
        time_s = float(rows["time_s"].sum())
        why = (
            f"{faults:,.0f} pages are touched for the first time, which takes at least"
            f" {format_seconds(fault_s)}, {format_percent(fault_s / time_s)} of these"
            f" kernels' time."
        )
        evidence = {"faults": faults, "fault_bound_s": fault_s, "time_s": time_s}
        return self.claim(context, rows, why, evidence)
