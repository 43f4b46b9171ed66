"""Amounts of rows: what the described ops of each add up to."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from timeroof.core.machine import Machine
from timeroof.core.resources import DRAM
from timeroof.live.calls import Counted
from timeroof.live.memory import Traffic
from timeroof.live.rows import Rows
from timeroof.live.torch.compiling import is_compiled, is_glue
from timeroof.live.torch.contexts import ENGINE
from timeroof.live.torch.recording import Described
from timeroof.work import Cost
from timeroof.work import amounts as amounts_of

Amounts = dict[str, float | None]


def op_amounts(
    counted: Sequence[Counted], found: Traffic | None, units: Collection[str]
) -> list[Amounts]:
    """Amounts of every described op; bytes at each level from the residency model.

    Compiled kernels whose tensors were not seen move what their code says, at every level.
    """
    listed: list[Amounts] = []
    for place, c in enumerate(counted):
        amount = dict(amounts_of(c.cost, units))
        if found is not None and c.cost.bytes is not None:
            for level, values in found.by_level.items():
                moved = c.cost.bytes if c.without_tensors else float(values[place])
                amount[f"byte/{level}"] = moved
        elif c.cost.bytes is None:
            amount[DRAM] = None
        listed.append(amount)
    return listed


def stated_amounts(cost: Cost, units: Collection[str]) -> Amounts:
    """Amounts of a region whose cost the user stated."""
    return dict(amounts_of(cost, units))


def matrix_units(machine: Machine | None) -> list[str]:
    """The tensor precisions that a machine has."""
    if machine is None:
        return []
    names = {c.resource.removeprefix("flop/") for c in machine.ceilings}
    return sorted(n for n in names if n.endswith("-tensor"))


def launches_of(ops: Sequence[Described], counted: Sequence[Counted]) -> list[int]:
    """Launches of every op: 1 where it does work of its own, at whatever depth.

    A dozen ops inside one call of Python (an LSTM's cells) and a dozen calls count alike; views,
    and ops that only call others, do not count.
    """
    return [int(_works(op, one.cost)) for op, one in zip(ops, counted, strict=True)]


def _works(op: Described, cost: Cost) -> bool:
    if is_compiled(op.name):
        return True
    # Annotations, nodes of autograd and wrappers are not ops.
    is_op = op.scope == 0 and not op.name.startswith(ENGINE) and not is_glue(op.name, op.sequence)
    return is_op and not cost.free


def summed(rows: Rows, listed: Sequence[Amounts]) -> list[Amounts]:
    """Amounts per row; unknown where one op's is. Rows without described ops have none."""
    names = sorted({name for amount in listed for name in amount})
    totals: list[Amounts] = [{} for _ in rows.keys]
    for row, amount in zip(rows.of_described, listed, strict=True):
        if row < 0:
            continue
        total = totals[row]
        known = amount.get("flop/fp32", 0.0) is not None
        for name in names:
            value = amount.get(name, 0.0 if known or not name.startswith("flop/") else None)
            before = total.get(name, 0.0)
            total[name] = None if value is None or before is None else before + value
    return totals
