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
from typing import NamedTuple

import msgspec

from timeroof.core.machine import Machine
from timeroof.core.units import format_percent, format_seconds
from timeroof.study.case import Case
from timeroof.study.factors.conclusion import (
    INCONCLUSIVE,
    Bar,
    Conclusion,
    Effect,
    Facts,
    compared,
    digits,
    leading,
    settle,
    times,
    undecided,
)
from timeroof.study.grid import MAIN_VARIANT, DesignOptions
from timeroof.study.judged_cases import Row, Sweep, group_titles, groups, ops, sweeps

# Share of FLOPs on the unit from which a row is said to use it.
HALF = 0.5
# A rate this far above the vectors' ceiling cannot be the vectors'.
ABOVE_VECTORS = 1.1

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
BASE = "fp32"
FITTING, ODD = 512, 509
TYPES = ("fp32", "bf16", "fp16", "bf16-autocast")
UNIT_TYPES = ("bf16", "int8")
_UNIT_NAMES = re.compile(
    r"amx|tensorop|tensor_op|[hiq]gmma|wgmma|[hi]mma|mfma|wmma|xmma|s\d{3,5}gemm|\bsme",
    re.IGNORECASE,
)
_VECTOR_NAMES = re.compile(r"avx|sse4|neon|sve|simt|sgemm|gemm:jit|ref[:_]", re.IGNORECASE)


class MatrixUse(NamedTuple):
    """used, missed, no unit or not shown; told by counters, name or rate."""

    matrix_unit: str
    matrix_unit_told_by: str | None = None
    share_of_ceiling: float | None = None


def matrix_use(row: Row, machine: Machine | None) -> MatrixUse:
    """What a row says of the matrix unit of its precision.

    >>> matrix_use(Row(implementation="brg:avx10_1_512_amx", precision="bf16"), None).matrix_unit
    'used'
    """
    vector = f"flop/{_base(row)}"
    unit = f"{vector}-tensor"
    roofs = machine.roofs(row.scope) if machine else {}
    has_unit = machine is not None and unit in roofs and unit not in machine.emulated
    rate = _rate(row)
    ceiling = roofs.get(unit if has_unit else vector)
    share = digits(rate / ceiling.rate) if rate and ceiling else None
    verdict, told_by = _verdict(row, has_unit)
    fast = bool(rate and vector in roofs and rate > ABOVE_VECTORS * roofs[vector].rate)
    if verdict is None and has_unit and fast:
        verdict, told_by = "used", "the rate"
    if verdict is None and machine is not None and not has_unit:
        verdict = "no unit"
    return MatrixUse(verdict or "not shown", told_by, share)


def _base(row: Row) -> str:
    return row.precision.removesuffix("-autocast")


def _rate(row: Row) -> float | None:
    return row.defined_flops / row.time_s if row.defined_flops else None


def _verdict(row: Row, has_unit: bool) -> tuple[str | None, str | None]:
    total, on_unit = row.flops, row.flops_by.get(f"{_base(row)}-tensor")
    if row.measured("flops") and total and on_unit is not None:
        return ("used" if on_unit >= HALF * total else "missed"), "counters"
    name = row.implementation or ""
    if _UNIT_NAMES.search(name):
        return "used", "the implementation's name"
    if has_unit and _VECTOR_NAMES.search(name):
        return "missed", "the implementation's name"
    return None, None


def shape_effects(rows: Sequence[Row], machine: Machine | None) -> list[Effect | None]:
    """Seconds per FLOP of odd sides over those of the nearest that fit."""
    every = [s for op in ops(rows) for s in sweeps(rows, op) if s.parameter in SIDES.get(op, ())]
    return [effect for sweep in every for effect in _of_sweep(sweep, machine)]


def _of_sweep(sweep: Sweep, machine: Machine | None) -> list[Effect | None]:
    name, found = sweep.parameter, []
    sides = [(row, int(row.params[name])) for row in sweep.rows]
    for row in (r for r, side in sides if side % 2 == 1):
        fitting = [r for r, side in sides if side % FITS == 0]
        base = min(fitting, key=lambda r: _distance(r, row), default=None)
        if base is not None and _distance(base, row) <= math.log(NEAR):
            title, facts = f"{sweep.op} {row.series()}", _use(base, row, machine)._asdict()
            pair = (base.case([name]), base), (row.case([name]), row)
            facts = {"kind": "shape", **facts, "emulated": None}
            found.append(compared(title, *pair, facts, per=lambda r: r.defined_flops))
    return found


def _distance(a: Row, b: Row) -> float:
    if not a.defined_flops or not b.defined_flops:
        return math.inf
    return abs(math.log(a.defined_flops / b.defined_flops))


def _use(base: Row, row: Row, machine: Machine | None) -> MatrixUse:
    """Missed where the fitting shape uses the unit and vectors alone could do the odd one."""
    fit, own = matrix_use(base, machine), matrix_use(row, machine)
    hidden = fit.matrix_unit == "used" and own.matrix_unit == "not shown"
    ceiling, rate = machine.rate(f"flop/{_base(row)}") if machine else None, _rate(row)
    if hidden and ceiling and rate and rate <= ABOVE_VECTORS * ceiling:
        return own._replace(matrix_unit="missed", matrix_unit_told_by="the rate")
    return own


def design(options: DesignOptions) -> list[Case]:
    """A matrix product in every precision, its inner side fitting the matrix unit or prime."""
    extra = () if options.device == "cpu" else ("tf32",)
    wanted = list(dict.fromkeys([*TYPES, *extra, *options.precisions]))
    if not options.quick:
        products = options.cases("gemm", {"k": [FITTING, ODD]}, precisions=wanted)
        return products + options.cases("conv2d", precisions=wanted)
    # Types that have a unit of their own, and the one that is slow without: enough for an answer.
    own = [t for t in UNIT_TYPES if has_own_unit(options.machine, t)]
    quick = list(dict.fromkeys([BASE, *(own or UNIT_TYPES[:1]), *extra, *options.precisions]))
    sides = [FITTING, ODD] if any(matrix_unit(options.machine, t) for t in own) else [FITTING]
    return options.cases("gemm", {"k": sides}, precisions=quick)


def across_design(options: DesignOptions, frameworks: Sequence[str]) -> list[Case]:
    """The same product in FP32 and in the formats that all frameworks have, where several are
    compared."""
    types = (BASE, "bf16") if options.quick else (BASE, "bf16", "fp16")
    return [
        case
        for name in frameworks
        for case in msgspec.structs.replace(options, framework=name).cases(
            "gemm", precisions=types, variants=[MAIN_VARIANT[name]]
        )
    ]


def matrix_unit(machine: Machine | None, precision: str) -> bool:
    """Whether a machine has a matrix unit for a type."""
    unit = f"flop/{precision}-tensor"
    return machine is not None and unit in machine.roofs() and unit not in machine.emulated


def has_own_unit(machine: Machine | None, precision: str) -> bool:
    """Whether a machine computes in a type by vectors or a matrix unit; yes where nobody knows."""
    name = f"flop/{precision}"
    known = machine is not None and name in machine.roofs() and name not in machine.emulated
    return machine is None or known or matrix_unit(machine, precision)


def conclude(rows: Sequence[Row], machine: Machine | None) -> Conclusion | None:
    """What types and shapes gain; None where there is one type and no pair of shapes."""
    effects = settle([*_gains(rows, machine), *shape_effects(rows, machine)])
    lead = leading(sorted(effects, key=_preference))
    if lead is None:
        return None
    real = [e for e in effects if e.real]
    no_unit = machine is not None and not any(
        matrix_unit(machine, t) for t in ("bf16", "int8", "fp16", "tf32")
    )
    return Conclusion(
        "precision",
        bool(real),
        _sentence(lead, machine, no_unit=no_unit),
        _points(effects),
        effects,
        facts={
            "matrix_unit_basis": _told_by(effects)[0],
            "has_matrix_unit": _has(machine, no_unit),
        },
        action=_action(effects),
        lead=lead,
        bars=_bars(lead),
        # That there is no unit is known whatever the times say.
        open_because=None if no_unit else undecided(lead),
    )


def _has(machine: Machine | None, no_unit: bool) -> bool | None:
    return None if machine is None else not no_unit


def _preference(effect: Effect) -> tuple[bool, bool, bool, str]:
    """Types before shapes, products first, what ran on a matrix unit first."""
    unit = effect.facts.get("matrix_unit") == "used"
    product = effect.group.startswith("gemm")
    return effect.kind != "type", not product, not unit, effect.other


def _sentence(lead: Effect, machine: Machine | None, *, no_unit: bool) -> str:
    kind = "CPU" if machine is None or machine.kind == "cpu" else "device"
    typed = lead.kind == "type" and lead.verdict != "unclear"
    if no_unit:
        joined = ", yet " if lead.verdict == "faster" else ": "
        beside = f"{joined}{_against_fp32(lead)}" if typed else ""
        return f"This {kind} has no matrix unit{beside}."
    if typed and lead.facts["matrix_unit"] == "used" and lead.verdict == "faster":
        gain = times(1 / lead.ratio.value)
        return f"The matrix unit makes {lead.other} products {gain} as fast as FP32."
    if typed:
        return f"In a matrix product {_against_fp32(lead)}."
    if lead.verdict == "unclear":
        return INCONCLUSIVE
    return f"A FLOP takes {times(lead.ratio.value)} as long with {lead.other} as with {lead.base}."


def _against_fp32(lead: Effect) -> str:
    ratio, how = lead.ratio.value, "emulated " if lead.facts["emulated"] else ""
    if lead.verdict == "same":
        return f"{how}{lead.other} is about as fast as FP32 ({times(1 / ratio)})"
    if ratio > 1:
        return f"{how}{lead.other} is {times(ratio)} slower than FP32"
    return f"{how}{lead.other} is {times(1 / ratio)} as fast as FP32"


def _bars(lead: Effect) -> list[Bar]:
    seconds = lead.facts.get("time_s")
    names = (lead.base, lead.other)
    if seconds is None:
        values = (1.0, lead.ratio.value)
        return [Bar(n, v, times(v)) for n, v in zip(names, values, strict=True)]
    return [Bar(n, v, format_seconds(v)) for n, v in zip(names, seconds, strict=True)]


def _gains(rows: Sequence[Row], machine: Machine | None) -> list[Effect | None]:
    """Every type against fp32, all else equal; the ratio is of times, so a gain is below 1."""
    every = [g for op in ops(rows) for g in groups(rows, op, "precision")]
    members = [g for g in every if any(row.precision == BASE for row in g)]
    found = []
    for title, group in zip(group_titles(members, "precision"), members, strict=True):
        base = next(row for row in group if row.precision == BASE)
        found += [
            compared(title, (BASE, base), (row.precision, row), _facts(base, row, machine))
            for row in group
            if row is not base
        ]
    return found


def _facts(base: Row, row: Row, machine: Machine | None) -> Facts:
    rate = _rate(row)
    return {
        "kind": "type",
        "time_s": [base.time_s, row.time_s],
        "emulated": row.emulated,
        **matrix_use(row, machine)._asdict(),
        "flop_per_s": None if rate is None else digits(rate),
        "implementation": row.implementation,
    }


def _points(effects: Sequence[Effect]) -> list[str]:
    types = [e for e in effects if e.kind == "type"]
    shapes = [e for e in effects if e.kind == "shape"]
    parts = [_type_text(e) for e in types if e.real]
    same = [e for e in types if not e.real and not e.disturbed]
    if same:
        names = ", ".join(dict.fromkeys(f"{e.other} ({e.group.split()[0]})" for e in same))
        parts.append(f"Not different from fp32 beyond the spread: {names}.")
    parts += [_shape_text(e) for e in shapes if e.real]
    if shapes and not any(e.real or e.disturbed for e in shapes):
        parts.append("Odd shapes cost no time per FLOP.")
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
    told_by = f": the matrix unit is missed, told by {effect.facts['matrix_unit_told_by']}"
    why = told_by if missed else ""
    return (
        f"{effect.group}: a FLOP takes {effect.ratio.text()} as long in {effect.other} as in"
        f" {effect.base}{why}."
    )


def _told_by(effects: Sequence[Effect]) -> tuple[str, list[str]]:
    told = sorted({e.facts["matrix_unit_told_by"] for e in effects} - {None})
    return "measured" if told == ["counters"] else "inferred" if told else "not known", told


def _unit_words(effects: Sequence[Effect]) -> str:
    basis, told = _told_by(effects)
    if told:
        return f"Use of the matrix unit is {basis} (from {' and '.join(told)})."
    if any(e.facts["matrix_unit"] == "no unit" for e in effects):
        return "The machine has no matrix unit for these types."
    return "Whether a matrix unit ran is not shown by these rows."


def _action(effects: Sequence[Effect]) -> str | None:
    shapes = [e for e in effects if e.real and e.kind == "shape" and e.ratio.value > 1]
    if shapes:
        return "Pad the sides of products to multiples of 16 or 64."
    gains = [e for e in effects if e.real and e.kind == "type" and e.ratio.value < 1]
    gains = [e for e in gains if not e.facts["emulated"]]
    best = min(gains, key=lambda e: e.ratio.value, default=None)
    return f"Use {best.other} where the model's accuracy allows it." if best else None
