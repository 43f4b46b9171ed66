"""TR110."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context, places
from timeroof.advice.rule import HOST, Claim, Rule, idle_seconds
from timeroof.core.units import format_seconds
from timeroof.core.vocabulary import EAGER

# Fewer ops of a step are no step that somebody wrote without a compiled function.
LEAST_OPS = 8


def runs_one_by_one(context: Context) -> bool:
    """Whether a program of a framework that compiles functions runs most ops by themselves."""
    return context.eager_ops >= LEAST_OPS


class Eager(Rule):
    """A step of JAX or TensorFlow whose ops run one by one, in no compiled function.

    **What.** Eight ops a step or more, and most of all, that the program runs by themselves: in
    JAX outside of `jax.jit`, in TensorFlow outside of `tf.function`.

    **Why.** Every op costs Python and the framework's dispatch, which a compiled function pays once
    per call. Only in a function can a compiler fuse ops.

    **Example.** `jax.value_and_grad(loss)(params, batch)` and the update in the training loop;
    `GradientTape` outside of a `tf.function`; `model.compile(run_eagerly=True)`.

    **Seconds.** The idle that the host causes, by the share of the launches that are such ops.
    What a compiler saves by fusing them is TR203's.

    A matter of counts: it is said whatever the times vary by.

    **Silent** where a step is compiled, whatever few ops it runs beside, below 5 % of the run, and
    for PyTorch, whose eager steps are TR104's.
    """

    code = "TR110"
    name = "eager"
    title = "Ops run one by one"
    counts = seen = True
    actions = {
        "jax": "Put the step, from the loss to the update, into one function under jax.jit.",
        "tensorflow": "Put the step, from the tape to the update, into one tf.function; in Keras,"
        " compile(run_eagerly=False).",
        "any": "Compile the step as one function.",
    }
    least_share = 0.05

    def claims(self, context: Context) -> list[Claim]:
        """The host's seconds between those ops."""
        if not runs_one_by_one(context):
            return []
        rows = context.rows.filter(pl.col("label.mode") == EAGER)
        share = context.eager_ops / float(context.rows["launches"].sum())
        seconds = idle_seconds(context, HOST) * share
        why = (
            f"{round(context.eager_ops)} ops of a step run one by one. Python and the framework"
            f" take {format_seconds(seconds)} ({context.share(seconds)}) between them."
            f"{places(rows)}"
        )
        title = f"{round(context.eager_ops)} ops run one by one: {context.of_run(seconds)}"
        evidence = {"idle_s": seconds, "ops": context.eager_ops}
        none = rows.with_columns(pl.lit(0.0).alias("busy_gain_s"), pl.lit(0.0).alias("idle_gain_s"))
        return self.claim(
            context, none, why, evidence, title=title, outside_s={HOST: seconds},
            least_share=self.least_share,
        )  # fmt: skip
