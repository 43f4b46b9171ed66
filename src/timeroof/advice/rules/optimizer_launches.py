"""TR103."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context
from timeroof.advice.rule import HOST, Claim, Rule, idle_share
from timeroof.core.units import format_percent, format_seconds
from timeroof.model.bounds import is_settled, op_cost_s

MIN_LAUNCHES = 50
# Launching holds at least this part of the optimizer's time.
MIN_LAUNCH_SHARE = 0.2


class OptimizerLaunches(Rule):
    """An optimizer step of many small launches, one or more per parameter.

    **What.** The rows of the optimizer phase, where they are 50 launches or more and launching
    is at least a fifth of their time.

    **Why.** A step reads and writes every parameter once; that is pure bandwidth, and a handful
    of kernels can do it. One launch per parameter and operation puts the launch cost on top,
    hundreds of times. DeepCAM's Adam in the paper: 2709 launches, 17 ms, of which 6 ms are
    traffic.

    **Example.** `torch.optim.Adam(params, foreach=False)`.

    **Seconds.** Time, and the idle before the kernels that the host causes, less the work at the
    roof; of rows whose work is known.

    **Silent** without phases or a launch ceiling, and below 1 % of the run.
    """

    code = "TR103"
    name = "optimizer-launches"
    title = "The optimizer step is launch-bound"
    actions = {
        "torch": "Use the fused optimizer, such as torch.optim.AdamW(..., fused=True). Where there"
        " is none, use foreach=True or torch.compile(optimizer.step).",
        "tensorflow": "Compile the update with tf.function(jit_compile=True), or pass"
        " jit_compile=True to the optimizer.",
        "any": "Update all parameters in a few kernels: flattened or fused.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """The optimizer's rows, if launching is a good part of them."""
        after = pl.max_horizontal("work_bound_s", "fault_s")
        idle = pl.col("idle_s") * idle_share(context, HOST)
        rows = context.rows.filter(pl.col("phase") == "optimizer", is_settled()).with_columns(
            (pl.col("time_s") - after).alias("busy_gain_s"), idle.alias("idle_gain_s")
        )
        launches, time_s = float(rows["launches"].sum()), float(rows["time_s"].sum())
        launch_s = launches * (op_cost_s(context.machine) or 0.0)
        elapsed_s = time_s + float(rows["idle_gain_s"].sum())
        if launches < MIN_LAUNCHES or launch_s < MIN_LAUNCH_SHARE * elapsed_s:
            return []
        work_s = float(rows["work_bound_s"].sum())
        why = (
            f"The optimizer launches {launches:,.0f} {context.noun}s in"
            f" {format_seconds(elapsed_s)} ({context.share(elapsed_s)}). Launching is at least"
            f" {format_percent(launch_s / elapsed_s)} of it; the work needs"
            f" {format_seconds(work_s)}."
        )
        title = f"The optimizer step is launch-bound: {context.of_run(elapsed_s)}"
        evidence = {
            "launches": launches,
            "time_s": time_s,
            "launching_s": launch_s,
            "work_bound_s": work_s,
        }
        return self.claim(context, rows, why, evidence, title=title)
