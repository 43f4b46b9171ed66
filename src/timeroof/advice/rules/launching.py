"""Launches and calls that cost more than the work they start."""

from __future__ import annotations

import math

import polars as pl

from timeroof.advice.context import HOST, Context, idle_seconds, idle_share, in_family, shapes_in
from timeroof.advice.rule import Claim, Rule
from timeroof.core.report import BOUND
from timeroof.core.units import format_percent, format_seconds
from timeroof.core.vocabulary import OpFamily
from timeroof.model.bounds import MOST_OP_COSTS, is_settled, op_cost_s

# Every program starts some small ops; below this share they are not worth a line.
LEAST_TINY_SHARE = 0.1


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
    counted. Where rows do not know the idle before them, they get
    their launches' share of the idle that the host causes, at most fifty times what an op costs
    for each: more is the program's own work (NumPy, Python), not launching.

    **Silent** below a tenth of the run, below the rows' own spread, and without a launch ceiling.
    """

    code = "TR101"
    name = "tiny-kernels"
    title = "Launching takes longer than the work"
    actions = {
        "torch gpu": "Give the device fewer, larger kernels: torch.compile(model,"
        " mode='reduce-overhead') (CUDA graphs), nn.LSTM/nn.GRU instead of a cell in a loop, a"
        " larger batch, foreach or fused optimizers.",
        "torch cpu": "Call fewer, larger ops: nn.LSTM/nn.GRU instead of a cell in a loop,"
        " torch.compile, vectorised code instead of Python loops, a larger batch.",
        "tensorflow": "Use keras.layers.LSTM with its default arguments (one cuDNN kernel) instead"
        " of a cell in RNN or dynamic_rnn, tf.function(jit_compile=True), a larger batch.",
        "jax": "Put the whole step under jax.jit, use lax.scan for loops, and a larger batch.",
        "any": "Fuse small kernels, replay them as a graph, or give each more work.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows that are launched more than they work."""
        cost_s = op_cost_s(context.machine)
        if cost_s is None:
            return []
        tiny = context.rows.filter(
            pl.col("tiny"), pl.col("phase").fill_null("other") != "optimizer"
        ).with_columns(
            (pl.col("time_s") - _after()).alias("busy_gain_s"),
            (pl.col("idle_s") * idle_share(context, HOST)).alias("idle_gain_s"),
        )
        if not tiny.height:
            return []
        beside = _idle_share(context, tiny, cost_s)
        words = _words(tiny, cost_s, sum(beside.values()))
        return self.claim(context, tiny, *words, outside_s=beside, least_share=LEAST_TINY_SHARE)


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


def _words(tiny: pl.DataFrame, cost_s: float, beside_s: float) -> tuple[str, dict[str, float]]:
    launches, time_s = float(tiny["launches"].sum()), float(tiny["time_s"].sum())
    ops = max(launches, float(tiny["calls"].sum()))
    launch_s, work_s = float(tiny["launch_s"].sum()), float(tiny.select(_after().sum()).item())
    idle_s = beside_s + float(tiny["idle_gain_s"].sum())
    around = f" The host leaves the device idle for {format_seconds(idle_s)} around them."
    why = (
        f"{ops:,.0f} launches or calls of {format_seconds(time_s / ops)} each; starting one takes"
        f" {format_seconds(cost_s)} or more, together {format_percent(ops * cost_s / time_s)} of"
        f" their time, while the work at the roof takes {format_seconds(work_s)}."
        f"{around if idle_s else ''}"
    )
    evidence = {"launches": launches, "time_s": time_s, "seconds_per_call": time_s / ops}
    return why, evidence | {"launch_bound_s": launch_s, "work_bound_s": work_s, "idle_s": idle_s}


SMALL = 8
# Products this thin must hold this share of the run: a thin last layer alone is no small batch.
MIN_THIN_SHARE = 0.1
# Arithmetic takes at most this part of the time: a larger batch has room to fill.
MOST_COMPUTE = 0.5


class SmallBatch(Rule):
    """Matrix products so thin that weights are fetched, and kernels launched, for a few samples.

    **What.** Matrix products with a dimension of at most 8 whose FLOPs take less than half of
    their time at the roof, where they hold a tenth of the run or more.

    **Why.** A product of a few rows reads the whole weight matrix for each of them: its
    intensity is about the batch size. Until compute becomes the limit, more samples cost no
    more time.

    **Example.** Requests served one by one through `nn.Linear(2048, 2048)`: 16 MB are read per
    sample. 64 requests together read them once.

    **Seconds.** Time less the compute bound: what the same samples take in a batch large enough
    to amortise weights and launches.

    **Silent** where shapes are not known, and below 1 % of the run.
    """

    code = "TR102"
    name = "small-batch"
    title = "The batch is too small for the machine"
    actions = {
        "torch": "Process more samples per call: a larger batch (with gradient accumulation"
        " reduced accordingly), requests collected before the model is called, sequences packed.",
        "tensorflow": "Process more samples per call: dataset.batch(n) with a larger n, or"
        " batching in the server.",
        "any": "Process more samples per call; where latency forbids it, quantise the weights:"
        " fewer bytes per sample.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Thin products that wait for weights or launches."""
        products = context.rows.filter(
            in_family(OpFamily.PRODUCT, OpFamily.BATCHED_PRODUCT), pl.col("shape").is_not_null()
        )
        flops = [c for c in products.columns if c.startswith(f"{BOUND}flop/")]
        if not products.height or not flops:
            return []
        thin = products.filter(
            pl.col("shape").replace_strict(_thin(products), return_dtype=pl.Boolean),
            pl.max_horizontal(flops) <= MOST_COMPUTE * pl.col("time_s"),
        ).with_columns((pl.col("time_s") - pl.max_horizontal(flops)).alias("busy_gain_s"))
        time_s = float(thin["time_s"].sum())
        if time_s < MIN_THIN_SHARE * context.total_s:
            return []
        least = min(smallest_side(s) or SMALL for s in thin["shape"].to_list())
        compute_s = float(thin.select(pl.max_horizontal(flops).sum()).item())
        why = (
            f"Matrix products with a side of {least} take {format_seconds(time_s)}"
            f" ({format_percent(time_s / context.total_s)}); their arithmetic takes"
            f" {format_seconds(compute_s)}, the rest is fetching weights and launching."
        )
        evidence = {"smallest_side": least, "time_s": time_s, "compute_bound_s": compute_s}
        return self.claim(context, thin, why, evidence)


def _thin(rows: pl.DataFrame) -> dict[str, bool]:
    sides = {shape: smallest_side(shape) for shape in rows["shape"].unique().to_list()}
    return {shape: side is not None and side <= SMALL for shape, side in sides.items()}


def smallest_side(shape: str) -> int | None:
    """The smallest side of the matrices of a product, vectors being one row.

    A library's product is one triple of sides, m × n × k; tensors come at least in pairs.

    >>> smallest_side("[[1, 2048], [2048, 2048]]"), smallest_side("[[10], [64, 32], [32, 10]]")
    (1, 10)
    >>> smallest_side("2048x1x2048"), smallest_side("[[8, 1, 64], [8, 64, 64]]")
    (1, 8)
    """
    matrices = [s for s in shapes_in(shape) if len(s) >= 2]
    if not matrices:
        return None
    if len(matrices) == 1 and len(matrices[0]) == 3:
        return min(matrices[0])
    sides = [min(_flat_sides(s)) for s in matrices]
    return min(sides)


def _flat_sides(sizes: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a matrix, leading dimensions being more rows."""
    return math.prod(sizes[:-1]), sizes[-1]


MIN_LAUNCHES = 50
# Launching holds at least this part of the optimizer's time.
MIN_LAUNCH_SHARE = 0.2


class OptimizerLaunches(Rule):
    """An optimizer step of many small launches, one or more per parameter.

    **What.** The rows of the optimizer phase, where they are 50 launches or more and launching
    is at least a fifth of their time.

    **Why.** A step reads and writes every parameter once; that is pure bandwidth, and a handful
    of kernels can do it. One launch per parameter and operation puts the launch cost on top,
    hundreds of times. DeepCAM's Adam in the paper: 2709 launches, 17 ms, of which 6 ms are
    traffic.

    **Example.** `torch.optim.Adam(params, foreach=False)`.

    **Seconds.** Time, and the idle before the kernels that the host causes, less the work at the
    roof; of rows whose work is known.

    **Silent** without phases or a launch ceiling, and below 1 % of the run.
    """

    code = "TR103"
    name = "optimizer-launches"
    title = "The optimizer launches once per parameter"
    actions = {
        "torch": "Use the fused optimizer (Adam(..., fused=True)) or foreach=True, or compile the"
        " step (torch.compile(optimizer.step)); apex and DeepSpeed have fused LAMB and AdamW.",
        "tensorflow": "Compile the update (tf.function(jit_compile=True)), or use an optimizer"
        " with jit_compile=True.",
        "any": "Update all parameters in a few kernels: flattened or fused.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """The optimizer's rows, if launching is a good part of them."""
        after = pl.max_horizontal("work_bound_s", "fault_s")
        idle = pl.col("idle_s") * idle_share(context, HOST)
        rows = context.rows.filter(pl.col("phase") == "optimizer", is_settled()).with_columns(
            (pl.col("time_s") - after).alias("busy_gain_s"), idle.alias("idle_gain_s")
        )
        launches, time_s = float(rows["launches"].sum()), float(rows["time_s"].sum())
        launch_s = launches * (op_cost_s(context.machine) or 0.0)
        elapsed_s = time_s + float(rows["idle_gain_s"].sum())
        if launches < MIN_LAUNCHES or launch_s < MIN_LAUNCH_SHARE * elapsed_s:
            return []
        work_s = float(rows["work_bound_s"].sum())
        why = (
            f"{launches:,.0f} launches in {format_seconds(elapsed_s)}, of which launching is at"
            f" least {format_percent(launch_s / elapsed_s)}; the traffic of all parameters takes"
            f" {format_seconds(work_s)} at the roof."
        )
        evidence = {"launches": launches, "time_s": time_s}
        evidence |= {"launching_s": launch_s, "work_bound_s": work_s}
        return self.claim(context, rows, why, evidence)
