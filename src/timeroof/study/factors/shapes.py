"""Shapes that fit a matrix unit against shapes that do not, of nearly the same work."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import polars as pl

from timeroof.core.profile import LABEL
from timeroof.study.factors.cases import (
    Row,
    Sweep,
    busy,
    defined_flops,
    label,
    number,
    ops,
    samples,
    sweeps,
)
from timeroof.study.factors.conclusion import Effect
from timeroof.study.factors.matrix_unit import ABOVE_VECTORS, matrix_use
from timeroof.study.factors.noise import compare

if TYPE_CHECKING:
    from timeroof.core.machine import Machine

# Sides of this multiple fill the rows of every unit there is; odd ones fill none.
FITS = 16
# Work must agree within this: a larger product is faster by itself.
NEAR = 1.1
SIDES = {
    "gemm": ("m", "n", "k"),
    "conv2d": ("filters", "channels"),
    "attention": ("sequence", "head_dim"),
    "lstm": ("batch", "features", "hidden"),
}


def shape_effects(rows: pl.DataFrame, machine: Machine | None) -> list[Effect]:
    """Seconds per FLOP of odd sides over those of the nearest that fit."""
    found = []
    for op in ops(rows):
        for sweep in sweeps(rows, op):
            if sweep.parameter in SIDES.get(op, ()):
                found += _of_sweep(sweep, machine)
    return found


def _of_sweep(sweep: Sweep, machine: Machine | None) -> list[Effect]:
    fitting = [row for row in sweep.rows if _side(row, sweep) % FITS == 0]
    odd = [row for row in sweep.rows if _side(row, sweep) % 2 == 1]
    found = []
    for row in odd:
        base = min(fitting, key=lambda r: _distance(r, row), default=None)
        if base is None or _distance(base, row) > math.log(NEAR):
            continue
        ratio = compare(
            *([s / (defined_flops(r) or math.nan) for s in samples(r)] for r in (base, row))
        )
        if ratio is not None:
            name = sweep.parameter
            facts = {"kind": "shape", **_use(base, row, machine)}
            found.append(
                Effect(
                    f"{sweep.op} {sweep.series}",
                    f"{name} {label(base, name)}",
                    f"{name} {label(row, name)}",
                    ratio,
                    (base["id"], row["id"]),
                    facts,
                    busy(base, row),
                )
            )
    return found


def _side(row: Row, sweep: Sweep) -> int:
    return int(number(row[f"{LABEL}{sweep.parameter}"]) or 0)


def _distance(a: Row, b: Row) -> float:
    work = [defined_flops(row) for row in (a, b)]
    if not all(work):
        return math.inf
    return abs(math.log(float(work[0] or 1) / float(work[1] or 1)))


def _use(base: Row, row: Row, machine: Machine | None) -> dict[str, object]:
    """Missed where the fitting shape uses the unit and vectors alone could do the odd one."""
    fit, own = matrix_use(base, machine), matrix_use(row, machine)
    verdict, told_by = own.verdict, own.told_by
    if fit.verdict == "used" and verdict == "not shown" and _within_vectors(row, machine):
        verdict, told_by = "missed", "the rate"
    return {
        "matrix_unit": verdict,
        "matrix_unit_told_by": told_by,
        "share_of_ceiling": own.share_of_ceiling,
        "emulated": None,
    }


def _within_vectors(row: Row, machine: Machine | None) -> bool:
    """Whether vectors alone could have run at the row's rate."""
    base = str(label(row, "precision")).removesuffix("-autocast")
    ceiling = machine.rate(f"flop/{base}") if machine else None
    work = defined_flops(row)
    return bool(ceiling and work and work / row["time_s"] <= ABOVE_VECTORS * ceiling)
