"""TR204."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context, kernel_count, places
from timeroof.advice.rule import Claim, Rule
from timeroof.core.units import format_percent, format_seconds

NEAR = 0.8
MIN_TIME_SHARE = 0.1


class NearBandwidthRoof(Rule):
    """Kernels that already move their bytes as fast as the memory can.

    **What.** Rows bound by memory that reach 80 % of their roof or more, together a tenth of
    the run or more.

    **Why.** There is nothing to tune in them: no better kernel for the same bytes exists. Only
    less traffic helps, and whether that is possible depends on the model.

    **Example.** A large layer norm or an embedding lookup at 90 % of the memory bandwidth.

    **Seconds.** None are claimed.

    **Silent** below a tenth of the run.
    """

    code = "TR204"
    name = "near-bandwidth-roof"
    title = "Kernels already run at peak bandwidth"
    actions = {
        "any": "Leave these kernels as they are. Only fewer bytes help: fuse them with their"
        " neighbours, or use a narrower number format."
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows that are as fast as memory allows."""
        rows = context.rows.filter(
            pl.col("limit") == "memory",
            pl.col("kernel_efficiency") >= NEAR,
            pl.col("above_roof").is_null(),
        )
        time_s = float(rows["time_s"].sum())
        if time_s < MIN_TIME_SHARE * context.total_s or not time_s:
            return []
        reached = float(rows["work_bound_s"].sum()) / time_s
        why = (
            f"{kernel_count(rows)} memory-bound {context.noun}s ({format_seconds(time_s)},"
            f" {context.share(time_s)}) use {format_percent(reached)} of the memory bandwidth."
            f"{places(rows)}"
        )
        title = (
            f"{context.of_run(time_s)} already runs at {format_percent(reached)} of peak bandwidth"
        )
        evidence = {"time_s": time_s, "efficiency": reached}
        return self.inform(context, rows, why, evidence, title=title)
