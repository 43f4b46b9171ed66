"""Units of amounts and rates: integer operations are operations, no floating-point ones."""

from __future__ import annotations

from collections.abc import Mapping

from timeroof.core.resources import FAULT, LAUNCH
from timeroof.core.units import format_amount, format_seconds

INTEGER = "flop/int"


def work_unit(resource: str) -> str:
    """What a resource is counted in.

    >>> [work_unit(r) for r in ("flop/fp32", "flop/int8-tensor", "byte/dram", "link/nvlink")]
    ['FLOP', 'OP', 'B', 'B']
    """
    if not resource.startswith("flop/"):
        return "B"
    return "OP" if resource.startswith(INTEGER) else "FLOP"


def format_rate(resource: str, rate: float) -> str:
    """A rate as a person reads it; launches and faults as seconds each.

    >>> format_rate("flop/int8", 2e11), format_rate("byte/l2", 4.66e11), format_rate("launch", 1e7)
    ('200 GOP/s', '466 GB/s', '100 ns each')
    """
    if resource in (LAUNCH, FAULT):
        return f"{format_seconds(1 / rate)} each"
    return format_amount(rate, f"{work_unit(resource)}/s")


def format_work(amounts: Mapping[str, float | None]) -> list[str]:
    """Operations by precision as totals: floating-point ones, then integer ones.

    >>> format_work({"fp32": 1e9, "fp16-tensor": 2e9, "int8": 5e8, "fp64": None})
    ['3.00 GFLOP', '500 MOP']
    """
    sums: dict[str, float] = {}
    for precision, amount in amounts.items():
        if amount is not None:
            unit = work_unit(f"flop/{precision}")
            sums[unit] = sums.get(unit, 0.0) + float(amount)
    # No operations at all are said once, as those that most programs have.
    said = {u: s for u, s in sums.items() if s > 0} or dict(list(sums.items())[:1])
    return [format_amount(said[unit], unit) for unit in ("FLOP", "OP") if unit in said]
