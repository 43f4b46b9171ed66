"""TR902."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context
from timeroof.advice.rule import Claim, Rule
from timeroof.core.units import format_percent, format_seconds

MOST_UNKNOWN = 0.1


class UnknownShare(Rule):
    """Too much time in rows whose work is not known.

    **What.** Rows without a limiter, where they hold a tenth of the run or more.

    **Why.** Nothing can be said about them, and no verdict on the whole should hide it.

    **Example.** A trace without shapes, custom kernels, a counter file that lacks a metric.

    **Seconds.** None are claimed.

    **Silent** below a tenth of the run, and without a machine (then nothing is judged at all).
    """

    code = "TR902"
    name = "unknown-share"
    title = "Much of the time has unknown work"
    actions = {
        "torch": "Record shapes (torch.profiler.profile(record_shapes=True)), or use"
        " `timeroof run`;"
        " give custom ops a cost with @timeroof.cost_of, and regions with timeroof.cost(...).",
        "any": "Collect FLOP and DRAM counters, or give the costs of custom kernels by hand.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows that nothing is known of."""
        if context.machine is None:
            return []
        rows = context.rows.filter(pl.col("limit") == "unknown")
        time_s = float(rows["time_s"].sum())
        share = time_s / (float(context.rows["time_s"].sum()) or 1.0)
        if share < MOST_UNKNOWN:
            return []
        why = (
            f"{rows.height} rows, {format_seconds(time_s)} ({format_percent(share)} of the kernels'"
            f" time), {_what_is_missing(rows)}, so what limits them is not known; findings cover"
            " only the rest."
        )
        return self.inform(context, rows, why, {"unknown_share": share, "time_s": time_s})


def _what_is_missing(rows: pl.DataFrame) -> str:
    """Whether all of the work is unknown, or a part of it."""
    partly = float(rows.filter(pl.col("work_bound_s") > 0)["time_s"].sum())
    whole = float(rows["time_s"].sum())
    if partly <= 0:
        return "have no known FLOPs and bytes"
    if partly >= whole:
        return "have known FLOPs or bytes, but not both"
    return f"lack FLOPs or bytes ({format_percent(partly / whole)} of it has one of the two)"
