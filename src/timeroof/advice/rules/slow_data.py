"""TR105."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context
from timeroof.advice.rule import DATA, Claim, Rule, idle_seconds, with_idle_gain
from timeroof.core.units import format_percent, format_seconds

MIN_DATA_SHARE = 0.1


class SlowData(Rule):
    """A step that waits for its input.

    **What.** Idle time whose cause is data loading, and rows of the phase `data`, together a
    tenth of the run or more.

    **Why.** Reading, decoding and augmenting can go on while the device computes, in other
    processes. What shows up in the step is what does not overlap.

    **Example.** `DataLoader(dataset, num_workers=0)`: every batch is made between two steps.

    **Seconds.** All of it: overlapped loading costs the step nothing.

    **Silent** where neither idle causes nor phases are known.
    """

    code = "TR105"
    name = "slow-data"
    title = "Data loading stalls the step"
    removes = True
    idle_group = DATA
    actions = {
        "torch gpu": "Load in the background: DataLoader(num_workers=4, persistent_workers=True,"
        " prefetch_factor=2, pin_memory=True). Cache decoded samples that do not change.",
        "torch": "Load in the background: DataLoader(num_workers=4, persistent_workers=True,"
        " prefetch_factor=2). Cache decoded samples that do not change.",
        "tensorflow": "Use dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE) and"
        " .prefetch(tf.data.AUTOTUNE). Call cache() on what does not change.",
        "any": "Prepare the next batch while this one is computed.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Waiting for data, and making it in line."""
        waiting_s = idle_seconds(context, DATA)
        busy = context.rows.filter(pl.col("phase") == "data").with_columns(
            pl.col("time_s").alias("busy_gain_s"), pl.lit(0.0).alias("idle_gain_s")
        )
        busy_s = float(busy["time_s"].sum())
        if waiting_s + busy_s < MIN_DATA_SHARE * context.total_s:
            return []
        idle, outside = with_idle_gain(context, DATA)
        rows = _together(busy, idle)
        parts = {"waiting for input": waiting_s, "preparing input": busy_s}
        words = " and ".join(f"{format_seconds(s)} {what}" for what, s in parts.items() if s)
        share = format_percent((waiting_s + busy_s) / context.total_s)
        why = f"The step spends {words}, {share} of its time."
        evidence = {"waiting_s": waiting_s, "busy_s": busy_s}
        title = f"Data loading stalls the step for {context.of_run(waiting_s + busy_s)}"
        return self.claim(context, rows, why, evidence, title=title, outside_s=outside)


def _together(busy: pl.DataFrame, idle: pl.DataFrame) -> pl.DataFrame:
    columns = [
        "id",
        "time_s",
        "most_gain_s",
        "time_spread",
        "samples",
        "busy_gain_s",
        "idle_gain_s",
    ]
    both = pl.concat([busy.select(columns), idle.select(columns)])
    return both.group_by("id", maintain_order=True).agg(
        pl.col("time_s", "most_gain_s", "time_spread", "samples").first(),
        pl.col("busy_gain_s", "idle_gain_s").sum(),
    )
