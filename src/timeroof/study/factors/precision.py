"""Precision: what a narrower type gains, and whether the matrix unit ran.

The same products run in every precision, in shapes that fit a matrix unit (all sides multiples of
16) and in odd ones. A gain is the time of fp32 over that of the type. The matrix unit is *used*
where a counter gives it half of the FLOPs or more, where the implementation's name says so, or
where the rate is one that vectors cannot reach; *missed* where a machine has one for the type and
counters or the implementation's name deny it, or where an odd shape falls back to the vectors'
rate. Otherwise it is not shown. A type that other arithmetic emulates is said to be emulated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from timeroof.core.profile import LABEL
from timeroof.core.units import format_percent
from timeroof.model.stats import two_samples
from timeroof.study.factors.cases import (
    Row,
    Sweep,
    busy,
    defined_flops,
    flops,
    group_titles,
    groups,
    label,
    number,
    ops,
    origin,
    samples,
    scope,
    sweeps,
)
from timeroof.study.factors.conclusion import Conclusion, Effect, settle, unclear_points

if TYPE_CHECKING:
    from timeroof.core.machine import Machine
    from timeroof.study.case import Case, DesignOptions

# Whether a matrix unit (tensor core, AMX) did the work of a row, and what says so.


# Share of FLOPs on the unit from which a row is said to use it.
HALF = 0.5
# A rate this far above the vectors' ceiling cannot be the vectors'.
ABOVE_VECTORS = 1.1

_UNIT_NAMES = re.compile(
    r"amx|tensorop|tensor_op|[hiq]gmma|wgmma|[hi]mma|mfma|wmma|xmma|s\d{3,5}gemm|\bsme",
    re.IGNORECASE,
)
_VECTOR_NAMES = re.compile(r"avx|sse4|neon|sve|simt|sgemm|gemm:jit|ref[:_]", re.IGNORECASE)


@dataclass(frozen=True)
class MatrixUse:
    """used, missed, no unit or not shown; told by counters, name or rate."""

    verdict: str
    told_by: str | None = None
    share_of_ceiling: float | None = None


def matrix_use(row: Row, machine: Machine | None) -> MatrixUse:
    """What a row says of the matrix unit of its precision.

    >>> matrix_use({"label.implementation": "brg:avx10_1_512_amx", "label.precision": "bf16",
    ...             "time_s": 1.0, "flop/bf16-tensor": 8.0}, None).verdict
    'used'
    """
    base = str(label(row, "precision") or "").removesuffix("-autocast")
    unit, vector = f"flop/{base}-tensor", f"flop/{base}"
    which = scope(row)
    roofs = machine.roofs(which) if machine else {}
    emulated = machine.emulated if machine else {}
    has_unit = unit in roofs and unit not in emulated
    work = defined_flops(row)
    rate = work / row["time_s"] if work else None
    ceiling = roofs.get(unit if has_unit else vector)
    share = float(f"{rate / ceiling.rate:.4g}") if rate and ceiling else None
    verdict, told_by = _verdict(row, base, has_unit)
    fast = bool(rate and vector in roofs and rate > ABOVE_VECTORS * roofs[vector].rate)
    if verdict is None and has_unit and fast:
        verdict, told_by = "used", "the rate"
    if verdict is None and machine is not None and not has_unit:
        verdict = "no unit"
    return MatrixUse(verdict or "not shown", told_by, share)


def _verdict(row: Row, base: str, has_unit: bool) -> tuple[str | None, str | None]:
    """What counters or the implementation's name say."""
    total, on_unit = flops(row), row.get(f"flop/{base}-tensor")
    if origin(row, "flops") == "measured" and total and on_unit is not None:
        return ("used" if on_unit >= HALF * total else "missed"), "counters"
    name = label(row, "implementation")
    if not name:
        return None, None
    if _UNIT_NAMES.search(name):
        return "used", "the implementation's name"
    if has_unit and _VECTOR_NAMES.search(name):
        return "missed", "the implementation's name"
    return None, None


# Shapes that fit a matrix unit against shapes that do not, of nearly the same work.


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
        ratio = two_samples(
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


BASE = "fp32"
FITTING, ODD = 512, 509
TYPES = ("fp32", "bf16", "fp16", "bf16-autocast")


def design(options: DesignOptions) -> list[Case]:
    """A matrix product in every precision, its inner side fitting the matrix unit or prime."""
    from timeroof.study.grid import grid_cases

    extra = () if options.device == "cpu" else ("tf32",)
    wanted = list(dict.fromkeys([*TYPES, *extra, *options.precisions]))
    kernels: dict[str, dict[str, list[int | str]]] = {"gemm": {"k": [FITTING, ODD]}}
    if not options.quick:
        kernels["conv2d"] = {}
    return [
        case
        for kernel, swept in kernels.items()
        for case in grid_cases(
            kernel,
            sweeps=swept,
            precisions=wanted,
            passes=("forward",),
            threads=(options.threads,),
            framework=options.framework,
            device=options.device,
        )
    ]


def conclude(rows: pl.DataFrame, machine: Machine | None) -> Conclusion | None:
    """What types and shapes gain; None where there is one type and no pair of shapes."""
    effects = settle([*_gains(rows, machine), *shape_effects(rows, machine)])
    if not effects:
        return None
    real = [e for e in effects if e.real]
    return Conclusion(
        factor="precision",
        found=bool(real),
        title=_title(effects, real),
        points=(*_points(effects), *unclear_points(effects)),
        effects=effects,
        kernels=tuple(i for e in effects for i in e.kernels),
        facts={"matrix_unit_basis": _basis(effects)},
        action=_action(effects),
    )


def _gains(rows: pl.DataFrame, machine: Machine | None) -> list[Effect]:
    """Every type against fp32, all else equal; the ratio is of times, so a gain is below 1."""
    every = [g for op in ops(rows) for g in groups(rows, op, ("precision",))]
    members = [g for g in every if any(label(row, "precision") == BASE for row in g)]
    found = []
    for title, group in zip(group_titles(members, "precision"), members, strict=True):
        base = next(row for row in group if label(row, "precision") == BASE)
        for row in group:
            ratio = two_samples(samples(base), samples(row)) if row is not base else None
            if ratio is not None:
                facts = {"kind": "type", **_facts(row, matrix_use(row, machine))}
                name, ids = str(label(row, "precision")), (base["id"], row["id"])
                found.append(Effect(title, BASE, name, ratio, ids, facts, busy(base, row)))
    return found


def _facts(row: Row, use: MatrixUse) -> dict[str, Any]:
    work = defined_flops(row)
    return {
        "emulated": emulated_by(row),
        "matrix_unit": use.verdict,
        "matrix_unit_told_by": use.told_by,
        "share_of_ceiling": use.share_of_ceiling,
        "flop_per_s": None if not work else float(f"{work / row['time_s']:.4g}"),
        "implementation": label(row, "implementation"),
    }


def emulated_by(row: Row) -> str | None:
    """What really runs a type that the machine has no unit for."""
    text = label(row, "emulated")
    return None if text is None or text.lower() in ("", "no", "false", "0") else text


def _basis(effects: Sequence[Effect]) -> str:
    told = {e.facts.get("matrix_unit_told_by") for e in effects} - {None}
    return "measured" if told == {"counters"} else "inferred" if told else "not known"


def _title(effects: Sequence[Effect], real: Sequence[Effect]) -> str:
    missed = [e for e in effects if e.facts.get("matrix_unit") == "missed"]
    gains = [e for e in real if e.facts["kind"] == "type" and e.ratio.value < 1]
    losses = [e for e in real if e.facts["kind"] == "type" and e.ratio.value > 1]
    best = min(gains, key=lambda e: e.ratio.value, default=None)
    head = f"{best.other} runs {1 / best.ratio.value:.2g} times as fast as fp32" if best else ""
    tail = "the matrix unit is missed in places" if missed else ""
    if head or tail:
        return f"Precision: {', but '.join(t for t in (head, tail) if t)}"
    if losses:
        worst = max(losses, key=lambda e: e.ratio.value)
        return f"Precision: {worst.other} takes {worst.ratio.value:.2g} times as long as fp32"
    if real:
        return "Precision: shapes that do not fit cost time"
    return "Precision: neither type nor shape was seen to change the time"


def _points(effects: Sequence[Effect]) -> list[str]:
    types = [e for e in effects if e.facts["kind"] == "type"]
    shapes = [e for e in effects if e.facts["kind"] == "shape"]
    parts = [_type_text(e) for e in types if e.real]
    same = [e for e in types if not e.real and not e.disturbed]
    if same:
        names = ", ".join(dict.fromkeys(f"{e.other} ({e.group.split()[0]})" for e in same))
        parts.append(f"No difference from fp32 beyond the spread: {names}.")
    parts += [_shape_text(e) for e in shapes if e.real]
    if shapes and not any(e.real or e.disturbed for e in shapes):
        parts.append("Odd shapes were not seen to cost time per FLOP.")
    parts.append(_unit_words(effects))
    return parts


def _type_text(effect: Effect) -> str:
    facts, ratio = effect.facts, effect.ratio
    interval = f"95 %: {1 / ratio.high:.3g} to {1 / ratio.low:.3g}"
    gain = f"{1 / ratio.value:.3g} times as fast as fp32 ({interval})"
    if ratio.value > 1:
        gain = f"slower than fp32, {ratio.text()} the time"
    share = facts["share_of_ceiling"]
    told = [f"{format_percent(share)} of its ceiling"] if share is not None else []
    if facts["emulated"]:
        told.append(f"emulated: {facts['emulated']}")
    elif facts["matrix_unit"] in ("used", "missed"):
        told.append(f"matrix unit {facts['matrix_unit']}, told by {facts['matrix_unit_told_by']}")
    beside = f" ({'; '.join(told)})" if told else ""
    return f"{effect.group}: {effect.other} is {gain}{beside}."


def _shape_text(effect: Effect) -> str:
    missed = effect.facts["matrix_unit"] == "missed"
    why = (
        f": the matrix unit is missed, told by {effect.facts['matrix_unit_told_by']}"
        if missed
        else ""
    )
    return (
        f"{effect.group}: a FLOP takes {effect.ratio.text()} as long in {effect.other} as in"
        f" {effect.base}{why}."
    )


def _unit_words(effects: Sequence[Effect]) -> str:
    """Which evidence the verdicts on the matrix unit rest on."""
    told = sorted({str(e.facts["matrix_unit_told_by"]) for e in effects} - {"None"})
    if told:
        counted = "counters" in told
        basis = "measured" if counted and len(told) == 1 else "inferred"
        return f"Use of the matrix unit is {basis} (from {' and '.join(told)})."
    if any(e.facts["matrix_unit"] == "no unit" for e in effects):
        return "The machine has no matrix unit for these types."
    return "Whether a matrix unit ran is not shown by these rows."


def _action(effects: Sequence[Effect]) -> str | None:
    shapes = [e for e in effects if e.real and e.facts["kind"] == "shape" and e.ratio.value > 1]
    if shapes:
        return "Pad the sides of products to multiples of 16 or 64."
    gains = [e for e in effects if e.real and e.facts["kind"] == "type" and e.ratio.value < 1]
    gains = [e for e in gains if not e.facts["emulated"]]
    best = min(gains, key=lambda e: e.ratio.value, default=None)
    return f"Use {best.other} where the model's accuracy allows it." if best else None
