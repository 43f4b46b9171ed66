"""TR303."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import SIXTEEN_BIT, Context, native_rate, on_unit
from timeroof.advice.rule import Claim, Rule
from timeroof.advice.rules.matrix_units_missed import uses_sixteen_bits
from timeroof.core.units import format_amount, format_percent, format_seconds

# A unit that is hardly faster is not worth other numbers.
LEAST_SPEEDUP = 1.5


class WidePrecision(Rule):
    """FP32 contractions on a device whose 16-bit matrix units are much faster.

    **What.** Matrix products and convolutions in fp32, in a run that uses no 16-bit format at
    all, on a machine with 16-bit matrix units.

    **Why.** Most networks train and run as well with bf16 products and fp32 sums: half the
    bytes, and several times the FLOP rate. It changes the numbers, so it is something to try,
    not to assume.

    **Example.** A training loop without `torch.autocast` on an A100.

    **Seconds.** Time × (1 − bound in 16 bits / bound now): the change of format alone, at
    today's efficiency.

    **Silent** where the machine has no 16-bit unit, only emulates one, or has one that is less
    than 1.5 times as fast as its fp32 unit (a CPU without matrix units), and where 16-bit formats
    are in use (then TR301 looks at what was left out).
    """

    code = "TR303"
    name = "wide-precision"
    explains = False
    title = "FP32 where 16 bits may be exact enough"
    actions = {
        "torch": "Try torch.autocast(device_type, dtype=torch.bfloat16) around forward and loss"
        " (float16 with GradScaler on devices without bf16), and compare the loss curves.",
        "tensorflow": "Try mixed_precision.set_global_policy('mixed_bfloat16' or 'mixed_float16').",
        "jax": "Try bfloat16 parameters and activations with float32 sums.",
        "any": "Try 16-bit products with 32-bit sums, and compare the results.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """FP32 contractions that a narrower format would shorten."""
        native = native_rate(context, SIXTEEN_BIT)
        if native is None or uses_sixteen_bits(context):
            return []
        unit, rate = native
        fp32 = context.rate("flop/fp32")
        if fp32 is not None and rate < LEAST_SPEEDUP * fp32:
            return []
        rows = context.rows.filter(
            pl.col("precision") == "fp32",
            pl.col("contraction") & (pl.col("total_flops") > 0),
            pl.col("limit").is_in(["compute", "memory"]) & ~pl.col("tiny"),
        )
        saved = 1 - on_unit(rows, rate, 0.5) / pl.col("work_bound_s")
        rows = rows.with_columns((pl.col("time_s") * saved).alias("busy_gain_s"))
        time_s, flops = float(rows["time_s"].sum()), float(rows["total_flops"].sum())
        name = unit.removeprefix("flop/")
        why = (
            f"{format_amount(flops, 'FLOP')} of fp32 contractions take {format_seconds(time_s)}"
            f" ({format_percent(time_s / context.total_s)} of the run); {name} units do"
            f" {format_amount(rate, 'FLOP/s')}, and 16-bit data are half the bytes."
        )
        return self.claim(context, rows, why, {"flops": flops, "time_s": time_s, "unit": name})
