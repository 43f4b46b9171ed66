"""TR302."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context, kernel_count, places
from timeroof.advice.rule import Claim, Rule, other_bounds
from timeroof.core.report import BOUND
from timeroof.core.units import format_seconds


class Float64(Rule):
    """Double precision, which deep learning rarely needs.

    **What.** Rows whose data or FLOPs are fp64.

    **Why.** Twice the bytes, and half (CPU, data-centre GPU) to a 64th (consumer GPU) of the
    FLOP rate. It usually comes in by accident: a NumPy array, a Python float in a tensor, a
    default.

    **Example.** `torch.from_numpy(np.random.rand(n, d))` is float64, and so is every result of
    it once the model was made `.double()` to accept it.

    **Seconds.** Time less the bound in fp32: FLOPs at the fp32 rate, half the bytes and page
    faults.

    **Silent** where neither dtype nor FLOPs tell the format, and below 1 % of the run.
    """

    code = "TR302"
    name = "float64"
    title = "FP64 arithmetic"
    counts = True
    actions = {
        "torch": "Convert inputs where they enter: torch.from_numpy(x).float(). Keep the model in"
        " float32 and check torch.get_default_dtype().",
        "tensorflow": "Cast inputs with tf.cast(x, tf.float32), and call"
        " keras.backend.set_floatx('float32').",
        "jax": "Leave jax_enable_x64 off, and cast NumPy inputs to float32.",
        "any": "Convert to single precision where data enter, unless the method needs fp64.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows in double precision."""
        rows = context.rows.filter(pl.col("precision") == "fp64")
        if not rows.height:
            return []
        after = context.bound_after(_in_single(context, rows), fault_s=pl.col("fault_s") / 2)
        rows = rows.with_columns((pl.col("time_s") - after).alias("busy_gain_s"))
        time_s = float(rows["time_s"].sum())
        why = (
            f"{kernel_count(rows)} {context.noun}s compute in FP64 for {format_seconds(time_s)}"
            f" ({context.share(time_s)}). FP32 halves the bytes and at least doubles the FLOP"
            f" rate.{places(rows)}"
        )
        title = f"FP64 arithmetic takes {context.of_run(time_s)}"
        doubles = [c for c in ("flop/fp64", "flop/fp64-tensor") if c in rows.columns]
        flops = float(rows.select(pl.sum_horizontal(doubles).sum()).item()) if doubles else None
        evidence = {"time_s": time_s, "fp64_flops": flops}
        return self.claim(context, rows, why, evidence, title=title)


def _in_single(context: Context, rows: pl.DataFrame) -> pl.Expr:
    """Seconds at the roof in single precision; 0 for what nothing is known of."""
    single = context.rate("flop/fp32")
    doubles = [c for c in ("flop/fp64", "flop/fp64-tensor") if c in rows.columns]
    compute = pl.sum_horizontal(doubles) / single if single and doubles else pl.lit(0.0)
    others = [
        c
        for c in rows.columns
        if c.startswith(f"{BOUND}flop/") and c.removeprefix(BOUND) not in doubles
    ]
    return pl.max_horizontal(
        compute.fill_null(0.0), other_bounds(rows, 0.5), *(pl.col(c).fill_null(0.0) for c in others)
    )
