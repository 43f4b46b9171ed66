"""TR106."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import NAMED_PLACES, Context, places
from timeroof.advice.rule import HOST, SYNC, Claim, Rule, idle_seconds, with_idle_gain
from timeroof.core.units import format_seconds
from timeroof.core.vocabulary import FrameworkName

# A line that waits in at least so many steps of all waits in every one.
MOST_STEPS = 0.5


class HostWaits(Rule):
    """A host that waits for the device, and so leaves it without work afterwards.

    **What.** Idle time of the device that follows a synchronisation. On a CPU, in JAX and
    TensorFlow, time in which a line of the program waits for results or copies them and nothing is
    computed; in JAX also what the host does between kernels, where a line waits in every step.

    **Why.** After the host has waited, the queue is empty: the device idles until the host has
    issued enough work again.

    **Example.** `loss.item()`, `print(loss)`, `tensor.cpu()`, `if (x > 0).any():` in every
    step.

    **Seconds.** The idle seconds of that cause. In JAX on a CPU also Python's and the dispatch's,
    at most as long as kernels run, which could hide them.

    **Silent** where the source has no timestamps, and below 1 % of the run.
    """

    code = "TR106"
    name = "host-waits"
    title = "Synchronisation leaves the device idle"
    idle_group = SYNC
    actions = {
        "torch inference": "Read results back once, at the end: no .item() or .cpu() between ops."
        " Copy with non_blocking=True from pinned memory."
        " torch.cuda.set_sync_debug_mode('warn') names the lines.",
        "torch": "Read values back rarely: sum losses with .detach() and log every n steps. Copy"
        " with non_blocking=True from pinned memory. torch.cuda.set_sync_debug_mode('warn')"
        " names the lines.",
        "tensorflow": "Do not fetch values every step. Log inside tf.function with tf.summary.",
        "jax": "Do not call block_until_ready, float(x) or np.asarray(x) inside the loop: keep"
        " results in a list and read them at the end.",
        "any": "Read results back rarely and late.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Idle seconds after synchronisation."""
        if context.ran_on_a_cpu:
            return self._on_a_cpu(context)
        seconds = idle_seconds(context, SYNC)
        if not seconds:
            return []
        rows, outside = with_idle_gain(context, SYNC)
        why = (
            f"The {context.device_noun} idles {format_seconds(seconds)}"
            f" ({context.share(seconds)}) after the host has waited for it."
        )
        title = f"Synchronisation leaves the {context.device_noun} idle: {context.of_run(seconds)}"
        why += places(rows, by="idle_gain_s", lead="Longest before")
        evidence = {"idle_s": seconds}
        return self.claim(context, rows, why, evidence, title=title, outside_s=outside)

    def _on_a_cpu(self, context: Context) -> list[Claim]:
        """Results that are copied for Python; and what the host could do while kernels run, were it
        not to wait for them in every step."""
        seconds, steps = idle_seconds(context, SYNC), context.totals.steps
        waits = [w for w in (steps.waits if steps is not None else ()) if w.calls >= MOST_STEPS]
        behind_s = 0.0
        if context.framework == FrameworkName.JAX and any(w.busy_s > 0 for w in waits):
            behind_s = min(idle_seconds(context, HOST), context.totals.kernel_s or 0.0)
        lines = ", ".join(w.line for w in waits[:NAMED_PLACES])
        why = f"Python waits for results or copies them for {format_seconds(seconds)} of a step"
        why += ", and nothing is computed meanwhile." + (f" Read at {lines}." if lines else "")
        if behind_s:
            why += (
                f" The next step is prepared only afterwards: {format_seconds(behind_s)} that its"
                " kernels could hide."
            )
        where = f" at {waits[0].line}" if waits else " in the loop"
        title = f"Reading results{where} takes {context.of_run(seconds + behind_s)}"
        evidence = {"idle_s": seconds, "host_s": behind_s, "lines": [w.line for w in waits]}
        outside = {SYNC: seconds, HOST: behind_s}
        none = context.rows.head(0).with_columns(pl.lit(0.0).alias("busy_gain_s"))
        return self.claim(context, none, why, evidence, title=title, outside_s=outside)
