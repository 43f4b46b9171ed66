"""Whether a matrix unit (tensor core, AMX) did the work of a row, and what says so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timeroof.study.factors.cases import Row, defined_flops, flops, label, origin, scope

if TYPE_CHECKING:
    from timeroof.core.machine import Machine

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
