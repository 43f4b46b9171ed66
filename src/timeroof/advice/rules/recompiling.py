"""TR109."""

from __future__ import annotations

from timeroof.advice.context import Context
from timeroof.advice.rule import COMPILING, Claim, Rule, idle_seconds, with_idle_gain
from timeroof.core.units import format_seconds

# Of fewer steps nobody knows whether the first ones compiled for all.
LEAST_STEPS = 4


def _steps(context: Context) -> int:
    """How many steps of the reported kind there were; 0 where that is not known."""
    steps = context.totals.steps
    return sum(k.count for k in steps.kinds if k.reported) if steps is not None else 0


class Recompiling(Rule):
    """A step that is traced or compiled again every time.

    **What.** Time of settled steps that goes into tracing and compiling.

    **Why.** A compiler works once per function, shape and format, and keeps the result. A function
    that is made anew in the loop, a Python number as an argument or a shape that changes makes it
    start again.

    **Example.** `jax.jit(lambda x: …)` inside the training loop; a `tf.function` that is given
    `i` instead of `tf.constant(i)`; the last, smaller batch of every epoch.

    **Seconds.** All of it: a program that was compiled before costs the step nothing.

    A matter of counts: it is said whatever the times vary by, as settled steps compile nothing.

    **Silent** where the source does not tell compiling from other work of the host, of fewer
    than four steps, and where steps compile only at the start of the program.
    """

    code = "TR109"
    name = "recompiling"
    title = "Steps compile again"
    counts = seen = True
    actions = {
        "jax": "Make the function once, outside the loop. Pad inputs to a few fixed shapes. Pass"
        " numbers that change as arrays. jax.log_compiles() shows what is compiled and why.",
        "tensorflow": "Make the tf.function once. Give it an input_signature, pass numbers that"
        " change as tensors, and pad inputs to a few fixed shapes.",
        "torch": "Mark sizes that change as dynamic (torch.compile(dynamic=True))."
        " TORCH_LOGS=recompiles shows what is compiled and why.",
        "any": "Compile once, outside the loop, for a few fixed shapes.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Seconds of compiling."""
        seconds = idle_seconds(context, COMPILING)
        if not seconds or 0 < _steps(context) < LEAST_STEPS:
            return []
        rows, outside = with_idle_gain(context, COMPILING)
        why = (
            f"Tracing and compiling take {format_seconds(seconds)} ({context.share(seconds)}) of"
            " every step."
        )
        title = f"Every step compiles again: {context.of_run(seconds)}"
        evidence = {"idle_s": seconds}
        return self.claim(context, rows, why, evidence, title=title, outside_s=outside)
