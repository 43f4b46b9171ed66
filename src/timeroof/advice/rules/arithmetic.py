"""FLOPs in the wrong unit or format, too slow, or done again."""

from __future__ import annotations

import polars as pl

from timeroof.advice import context as of
from timeroof.advice.context import Context, flop_bounds, native_rate, on_unit, shapes_in
from timeroof.advice.rule import Claim, Rule
from timeroof.core.report import BOUND
from timeroof.core.units import format_amount, format_percent, format_seconds

# A row misses the matrix units if they do less than this part of its FLOPs …
MOST_ON_UNITS = 0.5
# … and arithmetic on the slower unit is at least this part of its time.
MIN_COMPUTE_SHARE = 0.2
# Autocast is in use where 16-bit matrix units do this part of all contractions.
MIN_AUTOCAST_SHARE = 0.1

_SHAPES = (
    "Matrix units are missed by 16-bit work",
    "Make channels, features and batch multiples of 8 (16 for FP8), use the memory format that the"
    " kernels want, and let another algorithm be chosen. ",
)
_TF32 = ("FP32 products do not use TF32", "Allow TF32. ")
_AUTOCAST = (
    "Autocast leaves products in FP32",
    "Part of the model runs in 16 bits already; include this part. ",
)


class MatrixUnitsMissed(Rule):
    """Contractions that run beside the matrix units (tensor cores, AMX, MFMA).

    **What.** Matrix products and convolutions in 16-bit formats whose FLOPs mostly run on
    vector units; FP32 ones on a device with TF32; FP32 ones in a run that uses autocast
    elsewhere.

    **Why.** A matrix unit is 4 to 16 times as fast. Sizes that are no multiples of 8, a memory
    format or an algorithm that has no such kernel, a dtype that was forgotten, and TF32
    switched off are the usual reasons. In the paper PyTorch's FP16 convolution with stride 1
    takes 1248 µs without tensor cores, TensorFlow's 254 µs with them.

    **Example.** `torch.backends.cuda.matmul.allow_tf32 = False` on an A100 (the default).

    **Seconds.** Time less the bound with contractions on the matrix unit (bytes halved where
    FP32 data would become 16-bit).

    **Silent** where the machine has no such unit or only emulates it, and where arithmetic is
    less than a fifth of the time.
    """

    code = "TR301"
    name = "matrix-units-missed"
    title = "Matrix units are missed"
    actions = {
        "torch": "torch.backends.cudnn.benchmark = True, channels_last, torch.autocast around the"
        " whole forward pass, torch.set_float32_matmul_precision('high') for TF32.",
        "tensorflow": "mixed_precision.set_global_policy('mixed_float16'), channels_last data, and"
        " cuDNN auto-tuning on; tf.config.experimental.enable_tensor_float_32_execution(True).",
        "jax": "jax.default_matmul_precision('tensorfloat32') or bfloat16 inputs.",
        "any": "Use sizes, memory format and dtype that the matrix unit takes.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows beside the matrix units, one claim per reason."""
        rows = context.rows.filter(
            pl.col("contraction") & ~pl.col("tiny"),
            pl.col("total_flops") > 0,
            pl.col("tensor_flops") < MOST_ON_UNITS * pl.col("total_flops"),
            of.flop_bound(context.rows) >= MIN_COMPUTE_SHARE * pl.col("time_s"),
        )
        found: list[Claim] = []
        for precision in ("fp16", "bf16"):
            part = rows.filter(pl.col("precision") == precision)
            found += self._missed(context, part, of.NATIVE[precision], _SHAPES)
        single = rows.filter(pl.col("precision") == "fp32")
        if uses_sixteen_bits(context):
            return found + self._missed(context, single, of.SIXTEEN_BIT, _AUTOCAST, 0.5)
        return found + self._missed(context, single, of.NATIVE["fp32"], _TF32)

    def _missed(
        self,
        context: Context,
        rows: pl.DataFrame,
        units: tuple[str, ...],
        reason: tuple[str, str],
        byte_factor: float = 1.0,
    ) -> list[Claim]:
        native = native_rate(context, units)
        if native is None or not rows.height:
            return []
        unit, rate = native
        after = context.bound_after(on_unit(rows, rate, byte_factor))
        rows = rows.with_columns((pl.col("time_s") - after).alias("busy_gain_s"))
        time_s, flops = float(rows["time_s"].sum()), float(rows["total_flops"].sum())
        share = float(rows["tensor_flops"].sum()) / flops
        name = unit.removeprefix("flop/")
        why = (
            f"{format_amount(flops, 'FLOP')} of contractions take {format_seconds(time_s)} with"
            f" {format_percent(share)} of them on matrix units; {name} units do"
            f" {format_amount(rate, 'FLOP/s')}."
        )
        evidence = {"flops": flops, "matrix_unit_share": share, "unit": name, "time_s": time_s}
        title, hint = reason
        action = hint + context.action(self.actions)
        return self.claim(context, rows, why, evidence, title=title, action=action)


def uses_sixteen_bits(context: Context) -> bool:
    """Whether a good part of the contractions' time may already be on 16-bit matrix units.

    Contractions of unknown work may be.
    """
    # Whole passes are cases of a study, not parts of one model.
    work = context.rows.filter(pl.col("contraction"), pl.col("kind") != "unit")
    narrow = pl.col("precision").is_in(["fp16", "bf16"]) & (pl.col("tensor_flops") > 0)
    maybe = work.filter(narrow.fill_null(False) | pl.col("total_flops").is_null())
    return float(maybe["time_s"].sum()) >= MIN_AUTOCAST_SHARE * float(work["time_s"].sum()) > 0


class Float64(Rule):
    """Double precision, which deep learning rarely needs.

    **What.** Rows whose data or FLOPs are fp64.

    **Why.** Twice the bytes, and half (CPU, data-centre GPU) to a 64th (consumer GPU) of the
    FLOP rate. It usually comes in by accident: a NumPy array, a Python float in a tensor, a
    default.

    **Example.** `torch.from_numpy(np.random.rand(n, d))` is float64, and so is every result of
    it once the model was made `.double()` to accept it.

    **Seconds.** Time less the bound in fp32: FLOPs at the fp32 rate, half the bytes and page
    faults.

    **Silent** where neither dtype nor FLOPs tell the format, and below 1 % of the run.
    """

    code = "TR302"
    name = "float64"
    title = "Double precision is used"
    actions = {
        "torch": "Convert inputs where they enter (torch.from_numpy(x).float()), keep the model in"
        " float32, and check torch.get_default_dtype().",
        "tensorflow": "Cast inputs with tf.cast(x, tf.float32);"
        " keras.backend.set_floatx('float32').",
        "jax": "Leave jax_enable_x64 off, and cast NumPy inputs to float32.",
        "any": "Convert to single precision where data enter, unless the method needs fp64.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows in double precision."""
        rows = context.rows.filter(pl.col("precision") == "fp64")
        if not rows.height:
            return []
        after = context.bound_after(_in_single(context, rows), fault_s=pl.col("fault_s") / 2)
        rows = rows.with_columns((pl.col("time_s") - after).alias("busy_gain_s"))
        time_s = float(rows["time_s"].sum())
        why = (
            f"{rows.height} rows, {format_seconds(time_s)}"
            f" ({format_percent(time_s / context.total_s)} of the run), compute in fp64."
        )
        doubles = [c for c in ("flop/fp64", "flop/fp64-tensor") if c in rows.columns]
        flops = float(rows.select(pl.sum_horizontal(doubles).sum()).item()) if doubles else None
        return self.claim(context, rows, why, {"time_s": time_s, "fp64_flops": flops})


def _in_single(context: Context, rows: pl.DataFrame) -> pl.Expr:
    """Seconds at the roof in single precision; 0 for what nothing is known of."""
    single = context.rate("flop/fp32")
    doubles = [c for c in ("flop/fp64", "flop/fp64-tensor") if c in rows.columns]
    compute = pl.sum_horizontal(doubles) / single if single and doubles else pl.lit(0.0)
    others = [c for c in flop_bounds(rows) if c.removeprefix(BOUND) not in doubles]
    bounds = [compute, of.other_bounds(rows, 0.5), *(pl.col(c) for c in others)]
    return pl.max_horizontal(bound.fill_null(0.0) for bound in bounds)


# A unit that is hardly faster is not worth other numbers.
LEAST_SPEEDUP = 1.5


class WidePrecision(Rule):
    """FP32 contractions on a device whose 16-bit matrix units are much faster.

    **What.** Matrix products and convolutions in fp32, in a run that uses no 16-bit format at
    all, on a machine with 16-bit matrix units.

    **Why.** Most networks train and run as well with bf16 products and fp32 sums: half the
    bytes, and several times the FLOP rate. It changes the numbers, so it is something to try,
    not to assume.

    **Example.** A training loop without `torch.autocast` on an A100.

    **Seconds.** Time × (1 − bound in 16 bits / bound now): the change of format alone, at
    today's efficiency.

    **Silent** where the machine has no 16-bit unit, only emulates one, or has one that is less
    than 1.5 times as fast as its fp32 unit (a CPU without matrix units), and where 16-bit formats
    are in use (then TR301 looks at what was left out).
    """

    code = "TR303"
    name = "wide-precision"
    explains = False
    title = "FP32 where 16 bits may be exact enough"
    actions = {
        "torch": "Try torch.autocast(device_type, dtype=torch.bfloat16) around forward and loss"
        " (float16 with GradScaler on devices without bf16), and compare the loss curves.",
        "tensorflow": "Try mixed_precision.set_global_policy('mixed_bfloat16' or 'mixed_float16').",
        "jax": "Try bfloat16 parameters and activations with float32 sums.",
        "any": "Try 16-bit products with 32-bit sums, and compare the results.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """FP32 contractions that a narrower format would shorten."""
        native = native_rate(context, of.SIXTEEN_BIT)
        if native is None or uses_sixteen_bits(context):
            return []
        unit, rate = native
        fp32 = context.rate("flop/fp32")
        if fp32 is not None and rate < LEAST_SPEEDUP * fp32:
            return []
        rows = context.rows.filter(
            pl.col("precision") == "fp32",
            pl.col("contraction") & (pl.col("total_flops") > 0),
            pl.col("limit").is_in(["compute", "memory"]) & ~pl.col("tiny"),
        )
        saved = 1 - on_unit(rows, rate, 0.5) / pl.col("work_bound_s")
        rows = rows.with_columns((pl.col("time_s") * saved).alias("busy_gain_s"))
        time_s, flops = float(rows["time_s"].sum()), float(rows["total_flops"].sum())
        name = unit.removeprefix("flop/")
        why = (
            f"{format_amount(flops, 'FLOP')} of fp32 contractions take {format_seconds(time_s)}"
            f" ({format_percent(time_s / context.total_s)} of the run); {name} units do"
            f" {format_amount(rate, 'FLOP/s')}, and 16-bit data are half the bytes."
        )
        return self.claim(context, rows, why, {"flops": flops, "time_s": time_s, "unit": name})


LOW = 0.5
TILE = 16


class LowComputeEfficiency(Rule):
    """Kernels bound by arithmetic that reach less than half of its roof.

    **What.** Rows limited by a FLOP ceiling that run at less than 50 % of it, where no other
    finding explains them.

    **Why.** The algorithm does not fit the shape (another one might), the last tiles are mostly
    padding (a side just above a multiple of the tile), there are fewer tiles than cores,
    threads are missing or share cores, or the clock is low.

    **Example.** A product with a side of 129 in tiles of 128: half of the second tile is
    wasted.

    **Seconds.** Time less the bound.

    **Silent** below 1 % of the run; rows without FLOPs or a ceiling have no such limit.
    """

    code = "TR304"
    name = "low-compute-efficiency"
    last_resort = True
    title = "Arithmetic runs at less than half of its roof"
    actions = {
        "torch cpu": "Check the threads (torch.get_num_threads(), OMP_NUM_THREADS = physical cores,"
        " pinning), sides that are multiples of 16, channels_last, larger batches.",
        "torch": "torch.backends.cudnn.benchmark = True (another algorithm), sides that are"
        " multiples of 64 or 128, channels_last, torch.compile(mode='max-autotune'), larger"
        " batches.",
        "tensorflow": "Keep cuDNN auto-tuning on (TF_CUDNN_USE_AUTOTUNE=1), pad sides to"
        " multiples of 64, larger batches.",
        "any": "Try another algorithm, sides that fill the tiles, and more parallel work.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Slow rows among those that arithmetic limits."""
        rows = context.rows.filter(
            pl.col("limit") == "compute",
            pl.col("kernel_efficiency") < LOW,
            ~pl.col("tiny") & (pl.col("work_bound_s") > 0),
        ).with_columns(
            (pl.col("time_s") - context.bound_after(pl.col("work_bound_s"))).alias("busy_gain_s")
        )
        time_s = float(rows["time_s"].sum())
        if not time_s:
            return []
        reached = float(rows["work_bound_s"].sum()) / time_s
        odd = [s for s in rows["shape"].drop_nulls().to_list() if has_odd_side(s)]
        why = (
            f"{rows.height} rows that arithmetic limits take {format_seconds(time_s)} and reach"
            f" {format_percent(reached)} of their roof"
        )
        why += f"; {len(odd)} of them have sides that do not fill a tile of {TILE}." if odd else "."
        sides = {"rows_with_odd_sides": len(odd), "threads": context.threads}
        evidence = {"time_s": time_s, "efficiency": reached, **sides}
        return self.claim(context, rows, why, evidence)


def has_odd_side(shape: str) -> bool:
    """Whether a matrix has a side that is no multiple of a small tile.

    >>> has_odd_side("[[129, 64], [64, 64]]"), has_odd_side("[[128, 64]]"), has_odd_side("?")
    (True, False, False)
    """
    sides = [side for sizes in shapes_in(shape) if len(sizes) >= 2 for side in sizes[-2:]]
    return any(side > TILE and side % TILE for side in sides)


CASE = ["op", "shape", "dtype", "module"]
MIN_REPEATED_SHARE = 0.03
# Ops that a backward pass calls by itself with the shapes of the forward pass.
OWN_OF_BACKWARD = r"(?i)(_backward|::(add|mul|sum|copy|clone|fill|zero|view|t|div|neg|empty)_?$)"


class Recomputation(Rule):
    """The same work done again: a forward pass repeated inside the backward pass.

    **What.** Contractions of the backward phase with the op, shape, dtype and module of a row
    of the forward phase, together 3 % of the run or more.

    **Why.** Activation checkpointing trades memory for a second forward pass; where memory
    suffices, it is time for nothing. It also comes in through reversible layers, and compilers
    that recompute.

    **Example.** `torch.utils.checkpoint` around every block of a model that would fit without.

    **Seconds.** The time of the repeated rows: keeping the activations instead removes them.

    **Silent** without phases, modules or shapes: then nothing tells that it is the same work.
    """

    code = "TR305"
    name = "recomputation"
    title = "Forward work is repeated in the backward pass"
    removes = True
    actions = {
        "torch": "Checkpoint fewer blocks, or select what is kept"
        " (create_selective_checkpoint_contexts: keep the products, recompute the cheap ops).",
        "tensorflow": "Use tf.recompute_grad for fewer layers.",
        "jax": "Use jax.checkpoint with a policy such as dots_saveable.",
        "any": "Keep the results where memory allows.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows of the backward pass that repeat rows of the forward pass."""
        named = context.rows.filter(
            pl.col("op").is_not_null() & pl.col("module").is_not_null(),
            pl.col("shape").is_not_null() & pl.col("contraction"),
            ~pl.col("op").str.contains(OWN_OF_BACKWARD),
        )
        forward = named.filter(pl.col("phase") == "forward").select(CASE).unique()
        rows = named.filter(pl.col("phase") == "backward")
        rows = rows.join(forward, on=CASE, how="semi", nulls_equal=True).with_columns(
            pl.col("time_s").alias("busy_gain_s")
        )
        time_s = float(rows["time_s"].sum())
        if not time_s or time_s < MIN_REPEATED_SHARE * context.total_s:
            return []
        why = (
            f"{rows.height} rows of the forward pass run again in the backward pass, for"
            f" {format_seconds(time_s)} ({format_percent(time_s / context.total_s)} of the run)."
        )
        evidence = {"time_s": time_s, "modules": rows["module"].n_unique()}
        return self.claim(context, rows, why, evidence)
