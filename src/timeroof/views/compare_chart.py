"""The combined chart of two runs: matched kernels before and after, joined by arrows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timeroof.core.errors import InputError
from timeroof.core.units import format_seconds
from timeroof.views.page.text import clip, plain_line
from timeroof.views.pictures.arrows import Move, OtherBalance, arrow_chart
from timeroof.views.pictures.of_report import chart_roofs
from timeroof.views.pictures.points import Roofs, Unit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from timeroof.core.machine import Machine
    from timeroof.core.report import Report
    from timeroof.model.compare.compare import Comparison

# Lines whose slopes differ by less than this (as a logarithm) are one line on paper.
SAME_LINE = 0.05


def comparison_figure(comparison: Comparison, a: Report, b: Report, *, title: str = "") -> Figure:
    """Arrows from A to B in the combined chart, on the first run's roofs.

    Kernels that changed significantly get arrows and numbers, the largest first; without any,
    the chart shows where the kernels are.
    """
    if comparison.delta_s is None:
        raise InputError(
            f"{comparison.reason}, so there is nothing to draw", advice="write html, md or json"
        )
    roofs = chart_roofs(a) or chart_roofs(b)
    if roofs is None:
        raise InputError(
            "neither run has a compute and a memory ceiling for a chart",
            advice="name a machine with --machine",
        )
    moves = [_move(row, roofs.level) for row in comparison.rows.iter_rows(named=True)]
    moves.sort(key=lambda m: (not m.arrow, -abs(m.after.time_s - m.before.time_s)))
    heading = clip(
        plain_line(title or f"{Path(comparison.a).name} → {Path(comparison.b).name}"), 90
    )
    balances = [] if a.machine == b.machine else balances_of([b.machine], roofs)
    notes = [] if any(m.arrow for m in moves) else ["no kernel changed by more than the noise"]
    return arrow_chart(moves, roofs, title=heading, balances=balances, notes=notes)


def balances_of(machines: list[Machine | None], roofs: Roofs) -> list[OtherBalance]:
    """Balances of other machines for the same compute unit and memory level."""
    found = []
    for machine in machines:
        rates = {} if machine is None else machine.roofs()
        compute, memory = (
            rates.get(r) for r in (f"flop/{roofs.compute_name}", f"byte/{roofs.level}")
        )
        if machine is not None and compute is not None and memory is not None:
            name = clip(plain_line(machine.name), 30)
            found.append(OtherBalance(name, compute.rate / memory.rate))
    return _told_apart(found, roofs.balance)


def _told_apart(balances: list[OtherBalance], axes: float) -> list[OtherBalance]:
    """Balances that are lines of their own: equal ones would be printed over one another."""
    kept: list[OtherBalance] = []
    for balance in balances:
        taken = [axes, *(k.flops_per_byte for k in kept)]
        if all(abs(math.log(balance.flops_per_byte / t)) > SAME_LINE for t in taken):
            kept.append(balance)
    return kept


def _move(row: dict[str, Any], level: str) -> Move:
    text = f"{_named(row)}  {format_seconds(row['a_s'])} → {format_seconds(row['b_s'])}"
    before, after = (_unit(row, side, level) for side in "ab")
    return Move(before, after, text, arrow=bool(row["significant"]))


def _named(row: dict[str, Any]) -> str:
    """A kernel and its layer, which tells rows of one name apart, in the room of the key."""
    if not row["where"]:
        return clip(plain_line(row["name"]), 34)
    return f"{clip(plain_line(row['name']), 18)} {clip(plain_line(row['where']), 15)}"


def _unit(row: dict[str, Any], side: str, level: str) -> Unit:
    """One side of a pair; what is not known is NaN and not drawn."""
    flops, moved, time_s = (row[f"{side}.{c}"] for c in ("flops", f"byte/{level}", "time_s"))
    known = math.nan if flops is None or moved is None else moved
    return Unit(row["name"], flops or 0.0, {level: known}, time_s or 0.0)
