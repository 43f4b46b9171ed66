"""TR305."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context, in_family, places
from timeroof.advice.rule import Claim, Rule
from timeroof.core.units import format_seconds
from timeroof.core.vocabulary import CONTRACTIONS, IdleCause, OpFamily

CASE = ["op", "shape", "dtype", "module"]
MIN_TIME_SHARE = 0.03
# Ops that a backward pass calls by itself with the shapes of the forward pass.
OWN_OF_BACKWARD = r"(?i)(_backward|::(add|mul|sum|copy|clone|fill|zero|view|t|div|neg|empty)_?$)"
# Gradients of products are products, often of the same sizes: they tell nothing by themselves.
PLAIN_PRODUCT = r"(?i)::(mm|bmm|(batch)?matmul(v\d)?|baddbmm|dot(_general)?|mv|(xla)?einsum)$"
# Families whose ops a backward pass has other ops for.
FORWARD_ONLY = (*CONTRACTIONS, OpFamily.SOFTMAX, OpFamily.NORM, OpFamily.BATCH_NORM)


class Recomputation(Rule):
    """The same work done again: a forward pass repeated inside the backward pass.

    **What.** Contractions of the backward phase with the op, shape, dtype and module of a row
    of the forward phase, together 3 % of the run or more. Plain products (`mm`, `bmm`) count only
    where something is repeated that no gradient calls: a softmax, a norm, a layer with its bias.

    **Why.** Activation checkpointing trades memory for a second forward pass; where memory
    suffices, it is time for nothing. It also comes in through reversible layers, and compilers
    that recompute.

    **Example.** `torch.utils.checkpoint` around every block of a model that would fit without.

    **Seconds.** The time of the repeated rows: keeping the activations instead removes them.

    A matter of counts: it is said whatever the times vary by. Of a program that waited for a CPU
    the shares are those of the rest of the run.

    **Silent** without phases, modules or shapes: then nothing tells that it is the same work.
    """

    code = "TR305"
    name = "recomputation"
    title = "The backward pass recomputes forward work"
    counts = seen = removes = True
    actions = {
        "torch": "Checkpoint fewer blocks where memory allows. Or keep the products and recompute"
        " only cheap ops: create_selective_checkpoint_contexts.",
        "tensorflow": "Use tf.recompute_grad for fewer layers.",
        "jax": "Use jax.checkpoint with a policy such as dots_saveable.",
        "any": "Keep the results where memory allows.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows of the backward pass that repeat rows of the forward pass."""
        named = context.rows.filter(
            pl.col("op").is_not_null() & pl.col("module").is_not_null(),
            pl.col("shape").is_not_null() & (pl.col("contraction") | in_family(*FORWARD_ONLY)),
            ~pl.col("op").str.contains(OWN_OF_BACKWARD),
        )
        forward = named.filter(pl.col("phase") == "forward").select(CASE).unique()
        rows = named.filter(pl.col("phase") == "backward")
        rows = rows.join(forward, on=CASE, how="semi", nulls_equal=True)
        plain = pl.col("op").str.contains(PLAIN_PRODUCT)
        if not rows.filter(~plain).height:
            return []
        rows = rows.filter("contraction").with_columns(pl.col("time_s").alias("busy_gain_s"))
        time_s = float(rows["time_s"].sum())
        own_s = context.total_s - context.totals.idle_by_cause.get(IdleCause.CPU_WAIT, 0.0)
        if not time_s or time_s < MIN_TIME_SHARE * own_s:
            return []
        why = (
            f"{rows['calls'].sum():,.0f} products of the forward pass run again in the backward"
            f" pass, for {format_seconds(time_s)} ({context.share(time_s)}).{places(rows)}"
        )
        title = f"The backward pass recomputes forward work: {context.of_run(time_s)}"
        evidence = {"time_s": time_s, "modules": rows["module"].n_unique()}
        return self.claim(context, rows, why, evidence, title=title, least_share=0.0)
