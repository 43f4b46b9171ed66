"""TR209."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context, places
from timeroof.advice.rule import Claim, Rule
from timeroof.core.units import format_seconds

MIN_TIME_SHARE = 0.03
# A step that takes less than so many times its fused bound is as good as fused.
LEAST_SPEEDUP = 1.5
FUSED = r"(?i)_fused_|fused_?(adam|sgd|lamb|adagrad)"


class UnfusedOptimizer(Rule):
    """An optimizer step of many passes over the parameters, where one would do.

    **What.** The ops of the optimizer's phase, none of them a fused step, that take 1.5 times
    what one pass over parameters, gradients and state needs, and 3 % of a step or more.

    **Why.** Each op of an unfused Adam reads and writes whole arrays: the parameters' bytes move
    several times. A fused step reads and writes each array once.

    **Measured.** `fused=True` made training steps 1.14 (DLRM, Adagrad) to 1.21 times as fast
    (GPT-2, AdamW; one CPU, 95 % intervals 1.11 to 1.28), with results that differ by rounding.

    **Example.** `torch.optim.AdamW(model.parameters())` on a CPU.

    **Seconds.** The phase's time less the bound of the phase as one kernel.

    **Silent** where tensor identities are not known (recorded traces), and where launching is the
    cost (TR103).
    """

    code = "TR209"
    name = "unfused-optimizer"
    title = "The optimizer step is not fused"
    actions = {
        "torch": "Pass fused=True to the optimizer: torch.optim.AdamW(params, fused=True). Adam,"
        " AdamW, SGD and Adagrad have it.",
        "tensorflow": "Compile the update: tf.function(jit_compile=True).",
        "any": "Update each parameter in one pass over its data.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """The optimizer's ops, if one pass would do their work."""
        fused_s = context.fused_s.get("optimizer")
        rows = context.rows.filter(pl.col("phase") == "optimizer")
        time_s = float(rows["time_s"].sum())
        is_small = time_s < MIN_TIME_SHARE * context.total_s
        if fused_s is None or is_small or time_s < LEAST_SPEEDUP * fused_s:
            return []
        if rows.select(pl.col("op").fill_null(pl.col("name")).str.contains(FUSED).any()).item():
            return []
        saved = 1 - fused_s / time_s
        rows = rows.with_columns((pl.col("time_s") * saved).alias("busy_gain_s"))
        why = (
            f"The optimizer takes {format_seconds(time_s)} ({context.share(time_s)}) in"
            f" {rows['calls'].sum():,.0f} ops. One pass over its data needs"
            f" {format_seconds(fused_s)}.{places(rows)}"
        )
        title = f"The unfused optimizer step takes {context.of_run(time_s)}"
        evidence = {"time_s": time_s, "fused_bound_s": fused_s}
        return self.claim(context, rows, why, evidence, title=title)
