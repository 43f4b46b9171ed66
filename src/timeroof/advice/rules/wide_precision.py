"""TR303."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context, places
from timeroof.advice.rule import MIN_SHARE, SIXTEEN_BIT, Claim, Rule, native_rate, on_unit
from timeroof.advice.rules.matrix_units_missed import uses_sixteen_bits
from timeroof.core.units import format_amount, format_seconds, resource_words

# A unit that is hardly faster is not worth other numbers.
LEAST_SPEEDUP = 1.5
# What 16 bits leave of traffic in fp32.
HALF = 0.5


class WidePrecision(Rule):
    """FP32 contractions on a device whose 16-bit matrix units are much faster.

    **What.** Matrix products and convolutions in fp32, in a run that uses no 16-bit format at
    all, on a machine with 16-bit matrix units.

    **Why.** Most networks train and run as well with bf16 products and fp32 sums: half the
    bytes, and several times the FLOP rate. It changes the numbers, so it is something to try,
    not to assume.

    **Example.** A training loop without `torch.autocast` on an A100.

    **Seconds.** Of products: time × (1 − bound in 16 bits / bound now), the change of format
    alone at today's efficiency. Of memory-bound ops on fp32 data beside them, the optimizer's
    left out: half of their time, as autocast halves their traffic too.

    **Silent** where the machine has no 16-bit unit, or only emulates one, or where it is less
    than 1.5 times as fast as FP32. Also silent where 16-bit formats are in use: TR301 looks at
    what was left out.
    """

    code = "TR303"
    name = "wide-precision"
    explains = False
    title = "FP32 matrix products where 16 bits may suffice"
    actions = {
        "torch inference cpu": "Try torch.autocast('cpu', dtype=torch.bfloat16) around the model."
        " Compare its outputs: the numbers change.",
        "torch inference": "Try model.to(torch.bfloat16), or torch.autocast('cuda',"
        " dtype=torch.bfloat16) around it. Compare its outputs: the numbers change.",
        "torch cpu": "Try torch.autocast('cpu', dtype=torch.bfloat16) around forward and loss."
        " Compare the loss curves: the numbers change.",
        "torch": "Try torch.autocast('cuda', dtype=torch.bfloat16) around forward and loss; use"
        " float16 with GradScaler on devices without bf16. Compare the loss curves.",
        "tensorflow": "Try mixed_precision.set_global_policy('mixed_bfloat16').",
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
        # What only moves data follows the products: where those gain nothing, neither does it.
        if float(rows["busy_gain_s"].clip(lower_bound=0.0).sum()) < MIN_SHARE * context.total_s:
            return []
        time_s, flops = float(rows["time_s"].sum()), float(rows["total_flops"].sum())
        name = unit.removeprefix("flop/")
        faster = f" ({rate / fp32:.1f}× FP32)" if fp32 else ""
        moving = _moving(context)
        moving_s = float(moving["time_s"].sum())
        why = (
            f"FP32 matrix products of {format_amount(flops, 'FLOP')} take {format_seconds(time_s)}"
            f" ({context.share(time_s)}). The {resource_words(unit)} peak is"
            f" {format_amount(rate, 'FLOP/s')}{faster}.{places(rows)}"
        )
        if moving_s:
            why += (
                f" 16-bit data also halve the traffic of {format_seconds(moving_s)} of"
                f" memory-bound {context.noun}s."
            )
        title = f"FP32 matrix products take {context.of_run(time_s)}; 16 bits may suffice"
        evidence = {"flops": flops, "time_s": time_s, "unit": name, "moving_s": moving_s}
        both = pl.concat([rows, moving], how="vertical")
        return self.claim(context, both, why, evidence, title=title)


def _moving(context: Context) -> pl.DataFrame:
    """Memory-bound rows on fp32 data beside products, half of whose bytes 16 bits save."""
    return context.rows.filter(
        pl.col("precision") == "fp32",
        (pl.col("limit") == "memory") & ~pl.col("tiny") & ~pl.col("contraction"),
        ~pl.col("phase").fill_null("other").is_in(["optimizer", "data"]),
        pl.col("kind") != "unit",
    ).with_columns((pl.col("time_s") * HALF).alias("busy_gain_s"))
