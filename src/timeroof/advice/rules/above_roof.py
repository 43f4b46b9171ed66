"""TR903."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context, kernel_count, places
from timeroof.advice.rule import Claim, Rule
from timeroof.core.units import format_percent
from timeroof.model.bounds import WAITING

MIN_TIME_SHARE = 0.01


class AboveRoof(Rule):
    """Kernels faster than their roof: a number is wrong.

    **What.** Rows above their roof beyond the spread for another reason than data in a cache
    (TR205) or noise, with 1 % of the run or more.

    **Why.** A roof cannot be beaten. Either the work is less than counted (Winograd, FFT,
    sparsity, a wrong formula), or the ceiling is too low (a datasheet's base clock, a probe on
    a busy machine, another device than assumed).

    **Example.** A run of an H100 judged on the ceilings of an A100.

    **Seconds.** None are claimed.

    **Silent** below 1 % of the run.
    """

    code = "TR903"
    name = "above-roof"
    title = "Kernels run faster than their bound"
    actions = {
        "any": "Check the machine: name it with --machine, or measure it with `timeroof machine"
        " --fresh`. Then check the FLOP and byte counts of these kernels. Until then bounds and"
        " efficiencies are off."
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows above the roof, by cause."""
        rows = context.rows.filter(
            pl.col("above_roof").is_not_null(),
            ~pl.col("above_roof").is_in(["cache-resident", "noise", WAITING]),
        )
        time_s = float(rows["time_s"].sum())
        share = time_s / (float(context.rows["time_s"].sum()) or 1.0)
        if not rows.height or share < MIN_TIME_SHARE:
            return []
        causes = dict(
            rows.group_by("above_roof").agg(pl.col("time_s").sum()).sort("above_roof").iter_rows()
        )
        likely = ", ".join(causes)
        excess = float(rows["work_bound_s"].sum()) / time_s
        why = (
            f"{kernel_count(rows)} {context.noun}s ({format_percent(share)} of the time) run at"
            f" {format_percent(excess)} of their bound. Likely causes: {likely}.{places(rows)}"
        )
        evidence = {"seconds_by_cause": causes, "times_roof": excess}
        title = (
            f"{format_percent(share)} of the time runs at {format_percent(excess)} of its bound:"
            " a count or ceiling is wrong"
        )
        return self.inform(context, rows, why, evidence, title=title)
