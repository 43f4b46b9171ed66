"""The same run in another precision, and on the units that another machine has."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec
import polars as pl

from timeroof.core.errors import UsageError
from timeroof.core.machine import Machine
from timeroof.core.profile import Profile
from timeroof.core.resources import LAUNCH, Scope
from timeroof.model.judge import no_ceiling

PRECISIONS = ("bf16", "fp16", "fp8", "tf32", "fp32", "fp64")
SIZES = {"fp64": 8.0, "fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0}
# The optimizer's work grows with parameters, not with samples.
_PER_SAMPLE = pl.col("phase").fill_null("other") != "optimizer"


def in_precision(profile: Profile, precision: str) -> Profile:
    """The run with contractions in another precision, and bytes of that format.

    The optimizer keeps its own format (master weights), element-wise arithmetic its unit.
    Where contractions are not told apart, all FLOPs of a row count as one.
    """
    if precision not in PRECISIONS:
        raise UsageError(
            f"{precision!r} is no precision to try", advice=f"use {', '.join(PRECISIONS)}"
        )
    table = profile.kernels
    flops = [c for c in table.columns if c.startswith("flop/")]
    if not flops:
        return profile
    target = _unit(precision)
    table = table if target in flops else table.with_columns(pl.lit(0.0).alias(target))
    flops = [c for c in table.columns if c.startswith("flop/")]
    total = pl.sum_horizontal(flops)
    moved = pl.min_horizontal(pl.col("contraction_flops").fill_null(total), total)
    share = pl.when((total > 0) & _PER_SAMPLE).then(moved / total).otherwise(0.0)
    ratio = _byte_ratio(flops, precision)
    levels = [c for c in table.columns if c.startswith("byte/")]
    kernels = table.with_columns(
        *((pl.col(c) * (1 - share)).alias(c) for c in flops if c != target),
        (pl.col(target) + share * (total - pl.col(target))).alias(target),
        *((pl.col(c) * ratio).alias(c) for c in levels),
    )
    return replace(profile, kernels=kernels)


def _unit(precision: str) -> str:
    return f"flop/{precision}" if precision in ("fp32", "fp64") else f"flop/{precision}-tensor"


def _byte_ratio(flops: list[str], precision: str) -> pl.Expr:
    """How many bytes an element has then, by one now: from the dtype, else from the FLOPs."""
    said = pl.coalesce(
        pl.when(pl.col("dtype").str.contains(pattern)).then(pl.lit(size))
        for pattern, size in (
            (r"(?i)float64|double|fp64", 8.0),
            (r"(?i)bfloat16|bf16|float16|half|fp16", 2.0),
            (r"(?i)float32|^float$|fp32|tf32", 4.0),
        )
    )
    most = pl.max_horizontal(flops)
    counted = pl.coalesce(
        pl.when((pl.col(c) == most) & (most > 0)).then(pl.lit(SIZES.get(format_of(c), 4.0)))
        for c in flops
    )
    now = pl.coalesce(said, counted)
    then = SIZES[precision]
    return pl.when(_PER_SAMPLE & now.is_not_null()).then(then / now).otherwise(1.0)


def format_of(flop_column: str) -> str:
    """The number format of a unit.

    >>> format_of("flop/bf16-tensor")
    'bf16'
    """
    return flop_column.removeprefix("flop/").removesuffix("-tensor")


# Units that do the work where a machine lacks one; the first that it has.
SUBSTITUTES: dict[str, tuple[str, ...]] = {
    "flop/fp16-tensor": ("flop/bf16-tensor", "flop/fp16", "flop/fp32"),
    "flop/bf16-tensor": ("flop/fp16-tensor", "flop/bf16", "flop/fp32"),
    "flop/tf32-tensor": ("flop/fp32",),
    "flop/fp8-tensor": ("flop/fp16-tensor", "flop/bf16-tensor", "flop/fp32"),
    "flop/fp4-tensor": ("flop/fp8-tensor", "flop/fp16-tensor", "flop/fp32"),
    "flop/int8-tensor": ("flop/int8", "flop/fp16-tensor", "flop/fp32"),
    "flop/fp64-tensor": ("flop/fp64",),
    "flop/fp16": ("flop/fp32",),
    "flop/bf16": ("flop/fp32",),
}


@dataclass(frozen=True)
class Substituted:
    """A machine that does the run's work on the units it has: `used` by the unit it lacks."""

    machine: Machine
    used: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def name_units(self, limiter: pl.Expr) -> pl.Expr:
        """Limiters by the unit that is used, not by the one that the machine lacks."""
        return limiter.replace(self.used) if self.used else limiter


def with_substitutes(
    machine: Machine, profile: Profile, scope: Scope, precision: str | None = None
) -> Substituted:
    """The machine with another unit in place of one that it lacks but the run uses.

    `precision` is the one that was asked for, if any: its absence has a note of its own.
    """
    roofs = machine.roofs(scope)
    used: dict[str, str] = {}
    notes = []
    for resource in profile.amount_columns:
        if resource in roofs or not profile.kernels.select((pl.col(resource) > 0).any()).item():
            continue
        unit = next((s for s in SUBSTITUTES.get(resource, ()) if s in roofs), None)
        if unit is not None:
            # What is itself emulated runs on the unit below.
            used[resource] = machine.emulated.get(unit, unit)
            notes.append(_replaced(machine, resource, used[resource], precision))
        elif resource.startswith("flop/"):
            notes.append(no_ceiling(machine, resource))
    if LAUNCH not in roofs:
        notes.append(
            f"{machine.name} has no launch ceiling: rows that launching limits keep their time."
        )
    emulated = {**machine.emulated, **used}
    return Substituted(msgspec.structs.replace(machine, emulated=emulated), used, tuple(notes))


def _replaced(machine: Machine, resource: str, unit: str, precision: str | None) -> str:
    wanted = format_of(resource)
    if wanted != precision or format_of(unit) == wanted:
        return f"{machine.name} has no {resource}: its {unit} is used."
    return (
        f"{machine.name} has no unit for {wanted} at all: products run on its {unit}, only the"
        f" data has the width of {wanted}."
    )
