"""TR306."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context, places
from timeroof.advice.rule import Claim, Rule
from timeroof.core.units import format_amount

# Kernels whose products are so many times those of the definition.
LEAST_RATIO = 1.2


class ExcessWork(Rule):
    """A compiler that makes kernels which multiply more than the program asks for.

    **What.** Kernels whose products have at least 1.2 times the FLOPs of those that the program
    defines in their place, before it was compiled.

    **Why.** A compiler chooses how to compute what it is given. Where it has no kernel of that
    shape it takes a larger one and throws a part of the result away.

    **Example.** The gradient of a depthwise convolution's weights in XLA on a CPU: the dense
    convolution of all channels with all channels is computed, and all but its diagonal is masked.

    **Seconds.** The kernels' time, less the part of their FLOPs that the program defines.

    A matter of counts: it is said whatever the times vary by.

    **Silent** where nobody knows what the program defines: outside of JAX's live runs, for loops
    that data end, and on several devices.
    """

    code = "TR306"
    name = "excess-work"
    title = "Compiled kernels do more work than the program defines"
    counts = seen = True
    actions = {
        "jax convolution": "Write the convolution so that its gradient has kernels of its own:"
        " a depthwise one as a sum of shifted products, a grouped one as jax.vmap over groups of"
        " dense ones.",
        "any": "Write this op in another way, so that the compiler has a kernel for it.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows that execute more products than are defined."""
        if "defined_flops" not in context.rows.columns:
            return []
        more = pl.col("contraction_flops") - pl.col("defined_flops")
        rows = context.rows.filter(
            pl.col("contraction_flops") >= LEAST_RATIO * pl.col("defined_flops")
        ).with_columns((pl.col("time_s") * more / pl.col("contraction_flops")).alias("busy_gain_s"))
        executed = float(rows["contraction_flops"].sum())
        defined = float(rows["defined_flops"].sum())
        if not executed or not defined:
            return []
        time_s = float(rows["time_s"].sum())
        why = (
            f"The program defines {format_amount(defined, 'FLOP')} of products here; its compiler"
            f" made kernels that execute {format_amount(executed, 'FLOP')}.{places(rows)}"
        )
        title = (
            f"Compiled kernels execute {executed / defined:.3g} times the defined products:"
            f" {context.of_run(time_s)}"
        )
        evidence = {"executed_flops": executed, "defined_flops": defined, "time_s": time_s}
        return self.claim(context, rows, why, evidence, title=title)
