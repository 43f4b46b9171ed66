"""The ladder's lower rungs: each phase as one kernel, and the whole step as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from timeroof.core.resources import DRAM
from timeroof.live.amounts import Amounts
from timeroof.live.memory import Traffic

FLOPS = ("flop/", "padding_flops")


def rungs(
    phases: Sequence[str],
    amounts: Sequence[Amounts],
    found: Traffic | None,
    table: pl.DataFrame,
) -> pl.DataFrame | None:
    """Rows `fused` (one per phase that works) and `ideal`; None without tensor identities.

    Fusing never needs more memory traffic than the ops one by one have in their caches.
    """
    if found is None or not amounts:
        return None
    names = sorted({n for amount in amounts for n in amount if n.startswith(FLOPS)})
    lines: list[dict[str, Any]] = []
    moved = found.by_level["dram"]
    for phase in dict.fromkeys(phases):
        places = [i for i, p in enumerate(phases) if p == phase]
        bytes_s = min(float(found.ladder.phases[phase].total_bytes), float(moved[places].sum()))
        line = _line("fused", [amounts[i] for i in places], names, bytes_s)
        if any(line[n] for n in (*names, DRAM)):
            lines.append(line | {"phase": phase, "time_s": _time(table, phase)})
    if not lines:
        return None
    least = min(float(found.ladder.step.total_bytes), sum(line[DRAM] for line in lines))
    whole = _line("ideal", amounts, names, least)
    lines.append(whole | {"phase": None, "time_s": float(table["time_s"].sum())})
    return pl.DataFrame(lines, infer_schema_length=None)


def _line(
    name: str, amounts: Sequence[Amounts], names: Sequence[str], moved: float
) -> dict[str, Any]:
    flops = {n: float(sum(a.get(n) or 0.0 for a in amounts)) for n in names}
    return {"name": name, "kind": "unit", "calls": 1.0, "launches": 1.0, DRAM: moved} | flops


def _time(table: pl.DataFrame, phase: str) -> float:
    return float(table.filter(pl.col("phase") == phase)["time_s"].sum())
