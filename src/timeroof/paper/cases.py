"""Cases of the paper's grids: one parameter moves, the others stay at the base case."""

from __future__ import annotations

import polars as pl

from timeroof.core.profile import LABEL
from timeroof.paper.data import BASE_CASE, PARAMETERS

CONV_INPUT = 112
CONV_CHANNELS = 64


def sweep(rows: pl.DataFrame, op: str, phase: str, parameter: str) -> pl.DataFrame:
    """Judged rows of one sweep, in order of the parameter, with its values in `value`."""
    fixed = [
        pl.col(f"{LABEL}{name}") == str(BASE_CASE[op][name])
        for name in PARAMETERS[op]
        if name != parameter
    ]
    return (
        rows.filter(pl.col("op") == op, pl.col("phase") == phase, *fixed)
        .with_columns(pl.col(f"{LABEL}{parameter}").cast(pl.Int64).alias("value"))
        .sort("value", maintain_order=True)
    )


def base_case(rows: pl.DataFrame, op: str, phase: str) -> pl.DataFrame:
    """Judged rows of the base case, one per framework and precision."""
    same = [pl.col(f"{LABEL}{name}") == str(value) for name, value in BASE_CASE[op].items()]
    return rows.filter(pl.col("op") == op, pl.col("phase") == phase, *same)


def total_flops(rows: pl.DataFrame) -> pl.Expr:
    """FLOPs of all precisions."""
    return pl.sum_horizontal(c for c in rows.columns if c.startswith("flop/"))


def direct_flops(row: dict[str, str | None]) -> float:
    """FLOPs of a direct forward convolution: 2 N K C R S P Q.

    TensorFlow pads to "same", PyTorch not at all (the authors' scripts).
    """
    batch, filters, kernel, stride = (
        int(row[f"{LABEL}{p}"] or 0) for p in ("batch", "filters", "kernel", "stride")
    )
    if row[f"{LABEL}framework"] == "PT":
        side = (CONV_INPUT - kernel) // stride + 1
    else:
        side = -(-CONV_INPUT // stride)
    return 2.0 * batch * filters * CONV_CHANNELS * kernel**2 * side**2
