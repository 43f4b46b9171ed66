"""The paper's own measurements as rows; `build` judges and draws them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

import polars as pl

from timeroof.core.profile import LABEL, Profile, Source, SourceFile

SOURCE = "cell outputs of the authors' notebooks, cyanguwa/DeepLearningProfiling at 1290c76"
MACHINE = "v100-paper"
FRAMEWORKS = {"PT": "PyTorch 1.5.0", "TF1": "TensorFlow 1.15.0", "TF2": "TensorFlow 2.2.0"}

# What a parameter is called in the table, in file names and on charts.
PARAMETERS: dict[str, dict[str, str]] = {
    "conv2d": {"batch": "batch size", "filters": "filters", "kernel": "kernel size",
               "stride": "stride"},
    "lstm": {"batch": "batch size", "time_steps": "time steps", "features": "features",
             "hidden": "hidden size"},
}  # fmt: skip
BASE_CASE: dict[str, dict[str, int]] = {
    "conv2d": {"batch": 16, "filters": 64, "kernel": 3, "stride": 2},
    "lstm": {"batch": 16, "time_steps": 16, "features": 32, "hidden": 16},
}


def paper_rows() -> pl.DataFrame:
    """The table as it was printed: one row per pass, sums over all its kernels."""
    file = resources.files("timeroof.paper") / "v100_passes.csv"
    return pl.read_csv(file.read_bytes(), comment_prefix="#", infer_schema_length=None)


def paper_profile() -> Profile:
    """The 264 passes as rows of kind `unit`, the case in their labels."""
    rows = paper_rows()
    flops = pl.col("fp32_flop") + pl.col("fp16_flop") + pl.col("tensor_flop")
    cases = sorted({p for names in PARAMETERS.values() for p in names})
    labels = ["framework", "precision", *cases]
    table = rows.select(
        pl.lit("unit").alias("kind"),
        _name().alias("name"),
        _name(short=True).alias("short_name"),
        pl.col("operator").alias("op"),
        pl.col("pass").alias("phase"),
        pl.col("precision").str.to_lowercase().alias("dtype"),
        pl.lit("Tesla V100-SXM2-16GB").alias("device"),
        pl.lit(1.0).alias("calls"),
        pl.col("launches"),
        pl.col("runtime_s").alias("time_s"),
        pl.col("fp32_flop").alias("flop/fp32"),
        pl.col("fp16_flop").alias("flop/fp16"),
        pl.col("tensor_flop").alias("flop/fp16-tensor"),
        *((flops / pl.col(f"ai_{level}")).alias(f"byte/{level}") for level in ("l1", "l2", "dram")),
        *(pl.col(c).cast(pl.String).alias(f"{LABEL}{c}") for c in labels),
        *(
            pl.lit("published").alias(f"origin.{what}")
            for what in ("time", "flops", "bytes/l1", "bytes/l2", "bytes/dram")
        ),
    )
    source = Source(
        tool="Nsight Compute (CUDA 11.0), one profiled iteration after five warm-ups",
        version=None,
        files=[SourceFile(name=f"timeroof/paper/v100_passes.csv: {SOURCE}")],
        command="timeroof paper",
    )
    return Profile.of(
        table,
        source,
        device="Tesla V100-SXM2-16GB",
        notes=(
            "Times are sums over the kernels of a pass, printed to 1 µs; gaps between kernels are"
            " not in them.",
            "Backward passes of the three frameworks are not the same work: TF1 conv2d is the"
            " weight gradient only, TF2 conv2d forward and twice both gradients, PT conv2d forward,"
            " sum, weight and bias gradients and an SGD step; TF1 LSTM forward and weight"
            " gradients, TF2 LSTM forward and input gradient, PT LSTM forward, weight gradients and"
            " an SGD step. TF1 passes also generate their random input.",
        ),
    )


def _name(*, short: bool = False) -> pl.Expr:
    head = pl.format("{} {} {} {}", "framework", "operator", "precision", "pass")
    if short:
        return head
    conv = ("batch", "filters", "kernel", "stride")
    lstm = ("batch", "time_steps", "features", "hidden")
    return head + pl.when(pl.col("operator") == "conv2d").then(
        pl.format(", batch {} filters {} kernel {} stride {}", *conv)
    ).otherwise(pl.format(", batch {} steps {} features {} hidden {}", *lstm))


CONV_INPUT = 112
CONV_CHANNELS = 64


def sweep(rows: pl.DataFrame, op: str, phase: str, parameter: str) -> pl.DataFrame:
    """Judged rows of one sweep, in order of the parameter, with its values in `value`."""
    value = pl.col(f"{LABEL}{parameter}").cast(pl.Int64).alias("value")
    part = base_case(rows, op, phase, free=parameter).with_columns(value)
    return part.sort("value", maintain_order=True)


def base_case(rows: pl.DataFrame, op: str, phase: str, free: str | None = None) -> pl.DataFrame:
    """Judged rows of the base case but for one parameter, each framework and precision."""
    same = [pl.col(f"{LABEL}{n}") == str(v) for n, v in BASE_CASE[op].items() if n != free]
    return rows.filter(pl.col("op") == op, pl.col("phase") == phase, *same)


def direct_flops(framework: str, params: Mapping[str, int | float | str]) -> float:
    """FLOPs of a direct forward convolution: 2 N K C R S P Q. TensorFlow pads to "same", PyTorch
    not at all (the authors' scripts)."""
    batch, filters, kernel, stride = (
        int(params[p]) for p in ("batch", "filters", "kernel", "stride")
    )
    side = (CONV_INPUT - kernel) // stride + 1 if framework == "PT" else -(-CONV_INPUT // stride)
    return 2.0 * batch * filters * CONV_CHANNELS * kernel**2 * side**2
