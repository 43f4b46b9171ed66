"""TR106."""

from __future__ import annotations

from timeroof.advice.context import Context, places
from timeroof.advice.rule import SYNC, Claim, Rule, idle_seconds, with_idle_gain
from timeroof.core.units import format_seconds


class HostWaits(Rule):
    """A host that waits for the device, and so leaves it without work afterwards.

    **What.** Idle time of the device that follows a synchronisation; on a CPU, time in which
    results of JAX are copied for Python and nothing is computed.

    **Why.** After the host has waited, the queue is empty: the device idles until the host has
    issued enough work again.

    **Example.** `loss.item()`, `print(loss)`, `tensor.cpu()`, `if (x > 0).any():` in every
    step.

    **Seconds.** The idle seconds of that cause.

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
        seconds = idle_seconds(context, SYNC)
        if not seconds:
            return []
        rows, outside = with_idle_gain(context, SYNC)
        if context.ran_on_a_cpu:
            why = f"Results are copied for Python, and nothing is computed meanwhile.{places(rows)}"
            title = f"Reading results in the loop takes {context.of_run(seconds)}"
            return self.claim(
                context, rows, why, {"idle_s": seconds}, title=title, outside_s=outside
            )
        why = (
            f"The {context.device_noun} idles {format_seconds(seconds)}"
            f" ({context.share(seconds)}) after the host has waited for it."
        )
        title = f"Synchronisation leaves the {context.device_noun} idle: {context.of_run(seconds)}"
        why += places(rows, by="idle_gain_s", lead="Longest before")
        evidence = {"idle_s": seconds}
        return self.claim(context, rows, why, evidence, title=title, outside_s=outside)
