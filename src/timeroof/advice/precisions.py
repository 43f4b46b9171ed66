"""What a row's bound would be, were its arithmetic done in another format."""

from __future__ import annotations

import polars as pl

from timeroof.advice.context import Context
from timeroof.core.verdict import BOUND

# Units that multiply matrices of 16-bit numbers, best first.
SIXTEEN_BIT = ("flop/bf16-tensor", "flop/fp16-tensor", "flop/bf16")
NATIVE = {
    "fp16": ("flop/fp16-tensor",),
    "bf16": ("flop/bf16-tensor", "flop/bf16"),
    "fp32": ("flop/tf32-tensor",),
}


def native_rate(context: Context, resources: tuple[str, ...]) -> tuple[str, float] | None:
    """The first resource that the device has a unit of its own for, and its rate."""
    emulated = context.machine.emulated if context.machine is not None else {}
    for resource in resources:
        rate = context.rate(resource)
        if rate is not None and resource not in emulated:
            return resource, rate
    return None


def contraction_amount() -> pl.Expr:
    """FLOPs that a matrix unit could do; all FLOPs of a contraction where not told apart."""
    return pl.coalesce(pl.col("contraction_flops"), pl.col("total_flops"))


def flop_bounds(rows: pl.DataFrame) -> list[str]:
    """Bounds by arithmetic."""
    return [c for c in rows.columns if c.startswith(f"{BOUND}flop/")]


def other_bounds(rows: pl.DataFrame, byte_factor: float = 1.0) -> pl.Expr:
    """The largest bound by bytes, which a narrower format shortens, and by links."""
    memory = [c for c in rows.columns if c.startswith((f"{BOUND}byte/", f"{BOUND}link/"))]
    if not memory:
        return pl.lit(0.0)
    return pl.max_horizontal(memory).fill_null(0.0) * byte_factor


def flop_bound(rows: pl.DataFrame) -> pl.Expr:
    """The largest bound by arithmetic."""
    bounds = flop_bounds(rows)
    return pl.max_horizontal(bounds).fill_null(0.0) if bounds else pl.lit(0.0)


def on_unit(rows: pl.DataFrame, rate: float, byte_factor: float = 1.0) -> pl.Expr:
    """Seconds at the roof with all contractions on a unit of that rate."""
    return pl.max_horizontal(contraction_amount() / rate, other_bounds(rows, byte_factor))
