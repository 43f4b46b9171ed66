"""TR101."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context, places
from timeroof.advice.rule import HOST, Claim, Rule, idle_seconds, idle_share
from timeroof.core.units import format_seconds
from timeroof.model.bounds import MOST_OP_COSTS, op_cost_s

# Every program starts some small ops; below this share they are not worth a line.
LEAST_SHARE = 0.1
# Where times say nothing: launching alone must cost so many times what all of the work needs.
CERTAIN = 2.0


class TinyKernels(Rule):
    """Kernels that take longer to launch than their work takes at the roof.

    **What.** On a device with a queue: rows whose launches cost at least as much as their work
    would at the roof, and whose kernels are at most four launches long. On a CPU: rows whose
    ops take at most fifty times what an op from Python costs, at most half of it work; views
    too. Optimizer steps have their own rule, TR103.

    **Why.** A launch has a smallest cost, 4 µs on a V100, around 1 µs for an eager op on a CPU.
    Below it, better kernels change nothing: only fewer launches do. The paper's LSTMs spend 90
    to 115 % of their time there in TensorFlow.

    **Example.** An `LSTMCell` called in a Python loop: 256 time steps are thousands of ops of a
    few microseconds. `nn.LSTM` is one.

    **Seconds.** The rows' time, and the idle before them that the host causes, less the work at
    the roof: what one kernel that does it all could reach. Rows whose work is unknown are not
    counted. Where rows do not know the idle before them, they get their launches' share of the
    idle that the host causes. For each launch it is at most fifty times what launching costs:
    more is the program's own work (NumPy, Python, loading), not launching.

    Of a program that waited for a CPU only counts hold: the finding is made where all launches,
    at their least cost, take twice what all of the work needs at the roof. Its seconds are those
    of launching alone.

    **Silent** below a tenth of the run, below the rows' own spread, and without a launch ceiling.
    """

    counts = True
    code = "TR101"
    name = "tiny-kernels"
    title = "Tiny kernels are launch-bound"
    actions = {
        "torch recurrent gpu": "Use nn.LSTM or nn.GRU instead of a cell in a loop: one cuDNN kernel"
        " does all time steps. Or compile: torch.compile(model, mode='reduce-overhead').",
        "torch recurrent cpu": "Use nn.LSTM or nn.GRU instead of a cell in a loop, or compile the"
        " loop with torch.compile.",
        "torch gpu": "Launch fewer, larger kernels: torch.compile(model, mode='reduce-overhead')"
        " fuses ops and records CUDA graphs. A larger batch gives each kernel more work.",
        "torch compiled gpu": "Replay the compiled kernels as a CUDA graph: mode='reduce-overhead'."
        " A larger batch gives each kernel more work.",
        "torch compiled": "Give each compiled call more work: a larger batch, or a larger region"
        " without graph breaks (TORCH_LOGS=graph_breaks).",
        "torch graphs gpu": "Graphs are replayed already. Make their kernels fewer and larger:"
        " fused ops (torch.compile), a larger batch.",
        "torch cpu": "Call fewer, larger ops: torch.compile, or vectorised code instead of Python"
        " loops.",
        "tensorflow recurrent": "Use keras.layers.LSTM with its default arguments (one cuDNN"
        " kernel) instead of a cell in RNN. Compile with tf.function(jit_compile=True).",
        "tensorflow": "Compile the step with tf.function(jit_compile=True), and use a larger"
        " batch.",
        "jax compiled": "The step is compiled already. Give each kernel more work: a larger batch,"
        " or batched operations (jax.vmap) in place of loops.",
        "tensorflow compiled": "The step is compiled already. Give each kernel more work: a"
        " larger batch.",
        "jax": "Put the whole step under jax.jit, and use lax.scan for loops.",
        "any": "Fuse small kernels, replay them as a graph, or give each more work.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows that are launched more than they work."""
        cost_s = op_cost_s(context.machine)
        if cost_s is None:
            return []
        if context.untrusted:
            return self._by_counts(context, cost_s)
        tiny = context.rows.filter(
            pl.col("tiny"), pl.col("phase").fill_null("other") != "optimizer"
        ).with_columns(
            (pl.col("time_s") - _after()).alias("busy_gain_s"),
            pl.min_horizontal(
                pl.col("idle_s") * idle_share(context, HOST),
                # A longer wait is the program's own work: it would be there without a launch.
                MOST_OP_COSTS * cost_s * pl.col("launches").fill_null(1.0),
            ).alias("idle_gain_s"),
        )
        if not tiny.height:
            return []
        beside = _idle_share(context, tiny, cost_s)
        why, evidence = _words(context, tiny, cost_s, sum(beside.values()))
        ops, taken_s = evidence["calls"], evidence["time_s"] + evidence["idle_s"]
        return self.claim(
            context,
            tiny,
            why,
            evidence,
            title=f"{ops:,.0f} tiny {context.noun}s are launch-bound: {context.of_run(taken_s)}",
            outside_s=beside,
            least_share=LEAST_SHARE,
        )

    def _by_counts(self, context: Context, cost_s: float) -> list[Claim]:
        """What launches cost at least, where times are not to be trusted."""
        launching = pl.col("launches").fill_null(0.0) * cost_s
        gain = pl.min_horizontal(launching - _after().fill_null(0.0), "time_s")
        small = context.rows.filter(
            _after().fill_null(0.0) < launching, pl.col("phase").fill_null("other") != "optimizer"
        ).with_columns(gain.alias("busy_gain_s"), launching.alias("launches_s"))
        work_s = float(context.rows.select(_after().sum()).item())
        launches = float(small["launches"].sum())
        if launches * cost_s < CERTAIN * work_s:
            return []
        needs = format_seconds(work_s)
        why = (
            f"Launching one {context.noun} costs about {format_seconds(cost_s)}. The work of all"
            f" of them needs {needs}.{places(small, by='launches_s', lead='Most launching')}"
        )
        return self.claim(
            context,
            small.drop("time_spread", strict=False),
            why,
            {"launches": launches, "launch_bound_s": launches * cost_s, "work_bound_s": work_s},
            title=f"{launches:,.0f} tiny {context.noun}s are launched for {needs} of work",
        )


def _after() -> pl.Expr:
    return pl.max_horizontal("work_bound_s", "fault_s")


def _idle_share(context: Context, tiny: pl.DataFrame, cost_s: float) -> dict[str, float]:
    """Idle that the host causes, by share of launches, where rows do not know theirs."""
    launches = float(context.rows["launches"].sum())
    if context.rows["idle_s"].sum() > 0 or not launches:
        return {}
    own = float(tiny["launches"].sum())
    seconds = min(idle_seconds(context, HOST) / launches, MOST_OP_COSTS * cost_s) * own
    return {HOST: seconds} if seconds else {}


def _words(
    context: Context, tiny: pl.DataFrame, cost_s: float, beside_s: float
) -> tuple[str, dict[str, float]]:
    launches, time_s = float(tiny["launches"].sum()), float(tiny["time_s"].sum())
    ops = max(launches, float(tiny["calls"].sum()))
    launch_s, work_s = float(tiny["launch_s"].sum()), float(tiny.select(_after().sum()).item())
    idle_s = beside_s + float(tiny["idle_gain_s"].sum())
    around = f" The {context.device_noun} idles {format_seconds(idle_s)} around them."
    on_cpu = " Python and the framework add" + f" {format_seconds(idle_s)} around them."
    idle = (on_cpu if context.ran_on_a_cpu else around) if idle_s else ""
    why = (
        f"{ops:,.0f} tiny {context.noun}s take {format_seconds(time_s / ops)} each; launching one"
        f" costs {format_seconds(cost_s)}. Their work needs"
        f" {format_seconds(work_s)} in all.{idle}{places(tiny)}"
    )
    return why, {
        "calls": ops,
        "launches": launches,
        "time_s": time_s,
        "seconds_per_call": time_s / ops,
        "launch_bound_s": launch_s,
        "work_bound_s": work_s,
        "idle_s": idle_s,
    }
