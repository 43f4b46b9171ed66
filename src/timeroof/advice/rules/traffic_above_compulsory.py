"""TR202."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context, kernel_count, places
from timeroof.advice.rule import Claim, Rule
from timeroof.core.machine import DRAM
from timeroof.core.profile import LABEL
from timeroof.core.report import BOUND
from timeroof.core.units import format_amount, format_seconds

# Sources that know both what was moved and what must be put the latter into this label.
COMPULSORY = f"{LABEL}compulsory_bytes"
MIN_RATIO = 2.0
# DRAM holds at least this part of the time: elsewhere less traffic would not help.
MIN_MEMORY_SHARE = 0.3


class TrafficAboveCompulsory(Rule):
    """Measured memory traffic far above what inputs and outputs need.

    **What.** Rows whose counted DRAM bytes are twice the compulsory ones or more, while DRAM is
    a good part of their time. Compulsory bytes come from the label `compulsory_bytes`, else
    from the forward pass of another framework for the very same case, where it moves less.

    **Why.** Every input read once and every output written once is the least. Far more means
    extra layout kernels, a workspace (im2col, explicit padding), or tiles that do not fit the
    cache. In the paper TensorFlow moves 0.38 to 0.43 GB for an FP32 convolution that PyTorch
    does with 0.087.

    **Example.** An NHWC convolution in FP32 on a GPU whose kernels want NCHW.

    **Seconds.** Time less the bound with compulsory traffic.

    **Silent** where nothing tells the compulsory traffic.
    """

    code = "TR202"
    name = "traffic-above-compulsory"
    title = "Memory traffic far above the minimum"
    actions = {
        "torch convolution": "Use channels_last, and torch.backends.cudnn.benchmark = True so that"
        " cuDNN can choose another algorithm.",
        "torch": "Remove copies around these ops, and fuse them with their neighbours:"
        " torch.compile.",
        "tensorflow convolution": "Give FP32 convolutions on a GPU data_format='channels_first',"
        " or use FP16 with channels_last. Then no layout kernels are added around them.",
        "any": "Change the memory format or the algorithm, or block for the cache.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows with measured traffic far above the least."""
        rate = context.rate(DRAM)
        if rate is None or DRAM not in context.rows.columns:
            return []
        others = [
            c for c in context.rows.columns if c.startswith((f"{BOUND}flop/", f"{BOUND}link/"))
        ]
        after = pl.max_horizontal(*others, pl.col("compulsory") / rate)
        rows = (
            with_compulsory(context.rows)
            .filter(
                pl.col(DRAM) >= MIN_RATIO * pl.col("compulsory"),
                pl.col(f"{BOUND}{DRAM}") >= MIN_MEMORY_SHARE * pl.col("time_s"),
            )
            .with_columns((pl.col("time_s") - context.bound_after(after)).alias("busy_gain_s"))
        )
        if not rows.height:
            return []
        moved, least = float(rows[DRAM].sum()), float(rows["compulsory"].sum())
        why = (
            f"{kernel_count(rows)} {context.noun}s move {format_amount(moved, 'B')} in"
            f" {format_seconds(float(rows['time_s'].sum()))}. Inputs and outputs are"
            f" {format_amount(least, 'B')}.{places(rows)}"
        )
        title = (
            f"Memory traffic is {moved / least:.1f}× the minimum:"
            f" {format_amount(moved, 'B')} instead of {format_amount(least, 'B')}"
        )
        evidence = {"bytes": moved, "compulsory_bytes": least, "ratio": moved / least}
        return self.claim(context, rows, why, evidence, title=title)


def with_compulsory(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `compulsory`: the label's bytes, else the least of the same case elsewhere."""
    told = (
        pl.col(COMPULSORY).cast(pl.Float64, strict=False)
        if COMPULSORY in rows.columns
        else pl.lit(None, pl.Float64)
    )
    case = [
        c
        for c in rows.columns
        if c.startswith(LABEL) and c not in (f"{LABEL}framework", COMPULSORY)
    ]
    if f"{LABEL}framework" not in rows.columns or not case:
        return rows.with_columns(told.alias("compulsory"))
    least = pl.col(DRAM).min().over(["op", "phase", "dtype", *case])
    # Whole forward passes only: single kernels of two frameworks are not the same work, and
    # neither are their backward passes (input gradients or not, an optimizer's step or not).
    same = (pl.col("kind") == "unit") & (pl.col("phase").fill_null("forward") == "forward")
    same_case = pl.when(same & (least > 0)).then(least)
    return rows.with_columns(pl.coalesce(told, same_case).alias("compulsory"))
