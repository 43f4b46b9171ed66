"""TR104."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context, places
from timeroof.advice.rule import HOST, Claim, Rule, idle_seconds, with_idle_gain
from timeroof.advice.rules.eager import runs_one_by_one
from timeroof.core.units import format_seconds

MIN_IDLE_SHARE = 0.05

# No launch takes so long; what does happens in the first calls.
FIRST_CALL_S, FEW_CALLS = 0.1, 3


class HostBound(Rule):
    """A device that waits because the host issues work too late; on a CPU, time between ops.

    **What.** Idle time whose cause is the host (launch-starved, python, autograd, dispatch,
    runtime), 5 % of the run or more.

    **Why.** The device could work, but nothing is in its queue: Python, the framework's
    dispatch and autograd take longer than the kernels. Faster kernels only lengthen the wait.
    A CPU is its own host: while it runs Python and the framework, it runs no op.

    **Example.** A model of many small layers in eager mode on a large GPU.

    **Seconds.** The idle seconds of that cause.

    **Silent** where the source has no timestamps, so that idle is not known, and where most ops
    of a JAX or TensorFlow program run one by one (TR110).
    """

    code = "TR104"
    name = "host-bound"
    title = "The device waits for the host"
    actions = {
        "torch gpu": "Compile the model: torch.compile(model, mode='reduce-overhead') also records"
        " CUDA graphs. A larger batch hides the host as well. py-spy shows where Python spends"
        " its time.",
        "torch graphs gpu": "Graphs are replayed already. Shorten what the host does between"
        " replays: scheduling, sampling, copies and Python. Or give each replay more work.",
        "torch compiled gpu": "The model is compiled already: mode='reduce-overhead' also records"
        " CUDA graphs. Move Python, hooks and logging out of the step; py-spy shows where it"
        " spends its time.",
        "torch compiled cpu": "The model is compiled already. Move Python, hooks and logging out of"
        " the step; py-spy shows where it spends its time.",
        "torch recurrent cpu": "Use nn.LSTM or nn.GRU instead of a Python loop over time steps, or"
        " compile the loop with torch.compile.",
        "torch cpu": "Compile the model with torch.compile. Replace Python loops over small ops."
        " Move hooks and logging out of the step.",
        "tensorflow": "Wrap the step in tf.function, and run several steps per call"
        " (steps_per_execution).",
        "jax compiled": "The step is compiled already. Donate its buffers (donate_argnums), and"
        " read results seldom: float(x) and logging make the next call wait.",
        "tensorflow compiled": "The step is compiled already. Run several steps per call"
        " (steps_per_execution), and read results seldom.",
        "jax": "Put the whole step under jax.jit and donate its buffers.",
        "any": "Issue work earlier and in larger pieces.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Idle seconds that the host causes."""
        seconds = idle_seconds(context, HOST)
        if seconds < MIN_IDLE_SHARE * context.total_s or runs_one_by_one(context):
            return []
        rows, outside = with_idle_gain(context, HOST)
        on_cpu = context.device_kind == "cpu"
        spent = f"{format_seconds(seconds)} ({context.share(seconds)})"
        if on_cpu:
            why = f"Python and the framework take {spent} between ops."
            title = f"Python and framework overhead takes {context.of_run(seconds)}"
        else:
            why = f"The {context.device_noun} idles {spent} while the host prepares kernels."
            title = f"The {context.device_noun} waits for the host: {context.of_run(seconds)}"
        first_s = 0.0 if on_cpu else _first_calls_s(rows)
        if first_s >= seconds / 2:
            why += (
                f" {format_seconds(first_s)} of it are waits of {format_seconds(FIRST_CALL_S)} and"
                " more before single kernels, as where a first call loads libraries, tunes or"
                " compiles."
            )
        why += places(rows, by="idle_gain_s", lead="Longest before")
        evidence = {"idle_s": seconds, "first_calls_s": first_s}
        action = context.action(self.actions, rows)
        if first_s >= seconds / 2:
            action = f"Record after a few warm-up steps. {action}"
        return self.claim(
            context, rows, why, evidence, title=title, action=action, outside_s=outside
        )


def _first_calls_s(rows: pl.DataFrame) -> float:
    """Waits before kernels that ran a few times at most, too long for any launch."""
    calls = pl.col("calls").fill_null(1.0)
    long = pl.col("idle_gain_s") >= FIRST_CALL_S * calls
    return float(rows.filter(long & (calls <= FEW_CALLS))["idle_gain_s"].sum())
