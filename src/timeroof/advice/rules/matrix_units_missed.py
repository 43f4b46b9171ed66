"""TR301."""

from __future__ import annotations

import re

import polars as pl

from timeroof.advice.context import Context, places
from timeroof.advice.rule import NATIVE, SIXTEEN_BIT, Claim, Rule, flop_bound, native_rate, on_unit
from timeroof.core.units import format_amount, format_percent, format_seconds, resource_words

# A row misses the matrix units if they do less than this part of its FLOPs …
MOST_ON_UNITS = 0.5
# … and arithmetic on the slower unit is at least this part of its time.
MIN_COMPUTE_SHARE = 0.2
# Autocast is in use where 16-bit matrix units do this part of all contractions.
MIN_AUTOCAST_SHARE = 0.1

_SHAPES = (
    "16-bit products miss the matrix units",
    "Make channels, features and batch multiples of 8 (16 for FP8). ",
)
_TF32 = ("FP32 products run without TF32", "")
_AUTOCAST = (
    "Autocast leaves products in FP32",
    "Part of the model runs in 16 bits already. Include this part. ",
)


# Chips before Ampere, and most of AMD's, have no such unit.
_OR_TF32 = re.compile(r", or allow TF32: [^()]*\([^()]*\)")


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
        "torch convolution": "Use channels_last and torch.backends.cudnn.benchmark = True. Put"
        " torch.autocast around the whole forward pass, or allow TF32:"
        " torch.set_float32_matmul_precision('high').",
        "torch": "Put torch.autocast around the whole forward pass, or allow TF32:"
        " torch.set_float32_matmul_precision('high').",
        "tensorflow": "Call mixed_precision.set_global_policy('mixed_float16'), or allow TF32:"
        " tf.config.experimental.enable_tensor_float_32_execution(True).",
        "jax": "Use jax.default_matmul_precision('tensorfloat32') or bfloat16 inputs.",
        "any": "Use sizes, memory format and dtype that the matrix unit takes.",
    }

    def claims(self, context: Context) -> list[Claim]:
        """Rows beside the matrix units, one claim per reason."""
        rows = context.rows.filter(
            pl.col("contraction") & ~pl.col("tiny"),
            pl.col("total_flops") > 0,
            pl.col("tensor_flops") < MOST_ON_UNITS * pl.col("total_flops"),
            flop_bound(context.rows) >= MIN_COMPUTE_SHARE * pl.col("time_s"),
        )
        found: list[Claim] = []
        for precision in ("fp16", "bf16"):
            part = rows.filter(pl.col("precision") == precision)
            found += self._missed(context, part, NATIVE[precision], _SHAPES)
        single = rows.filter(pl.col("precision") == "fp32")
        if uses_sixteen_bits(context):
            return found + self._missed(context, single, SIXTEEN_BIT, _AUTOCAST, 0.5)
        return found + self._missed(context, single, NATIVE["fp32"], _TF32)

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
            f"Products of {format_amount(flops, 'FLOP')} take {format_seconds(time_s)}"
            f" ({context.share(time_s)}), {format_percent(share)} of them on matrix units. The"
            f" {resource_words(unit)} peak is {format_amount(rate, 'FLOP/s')}.{places(rows)}"
        )
        evidence = {"flops": flops, "matrix_unit_share": share, "unit": name, "time_s": time_s}
        words, hint = reason
        title = f"{words}: {context.of_run(time_s)}"
        action = hint + context.action(self.actions, rows)
        if context.rate("flop/tf32-tensor") is None:
            action = _OR_TF32.sub("", action)
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
