"""TR104."""

from __future__ import annotations

from timeroof.advice.context import HOST, Context, idle_seconds, with_idle_gain
from timeroof.advice.rule import Claim, Rule
from timeroof.core.units import format_percent, format_seconds

MIN_IDLE_SHARE = 0.05


class HostBound(Rule):
    """A device that waits because the host issues work too late; on a CPU, time between ops.

    **What.** Idle time whose cause is the host (launch-starved, python, autograd, dispatch,
    runtime), 5 % of the run or more.

    **Why.** The device could work, but nothing is in its queue: Python, the framework's
    dispatch and autograd take longer than the kernels. Faster kernels only lengthen the wait.
    A CPU is its own host: while it runs Python and the framework, it runs no op.

    **Example.** A model of many small layers in eager mode on a large GPU.

    **Seconds.** The idle seconds of that cause.

    **Silent** where the source has no timestamps, so that idle is not known.
    """

    code = "TR104"
    name = "host-bound"
    title = "The device waits for the host"
    cpu_title = "Python and framework overhead between ops"
    actions = {
        "torch gpu": "Take the host out of the loop: torch.compile, CUDA graphs"
        " (mode='reduce-overhead'), a larger batch; profile the Python side (timeroof run,"
        " py-spy).",
        "torch gpu graphs": "Graphs are replayed already. Shorten what the host does between"
        " replays: scheduling, sampling, copies and Python; or give each replay more work.",
        "torch cpu": "Spend less time between ops: torch.compile, fewer Python loops and small"
        " ops, hooks and logging out of the step.",
        "tensorflow": "Wrap the step in tf.function, run several steps per call"
        " (steps_per_execution).",
        "jax": "Put the whole step under jax.jit and donate its buffers.",
        "any": "Issue work earlier and in larger pieces.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Idle seconds that the host causes."""
        seconds = idle_seconds(context, HOST)
        if seconds < MIN_IDLE_SHARE * context.total_s:
            return []
        rows, outside = with_idle_gain(context, HOST)
        on_cpu = context.device_kind == "cpu"
        share = format_percent(seconds / context.total_s)
        where = (
            "ops, in Python and the framework"
            if on_cpu
            else "kernels while the host prepares the next one"
        )
        why = f"{format_seconds(seconds)} ({share}) pass between {where}."
        title = self.cpu_title if on_cpu else self.title
        evidence = {"idle_s": seconds}
        return self.claim(context, rows, why, evidence, title=title, outside_s=outside)
