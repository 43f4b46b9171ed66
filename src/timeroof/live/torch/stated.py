"""Costs that a program states of its ops, worked out where the formulas are: in its process."""

from __future__ import annotations

from pathlib import Path

from timeroof.live.calls import call_of
from timeroof.live.torch.describing import described_from_json
from timeroof.work.cost import Cost
from timeroof.work.counting import stated_cost


def stated_costs(path: str) -> dict[int, dict[str, object]]:
    """What the program states of ops of a described step, by their places in it."""
    data = Path(path).read_bytes()
    ops = described_from_json(data) if data else []
    costs = ((place, stated_cost(call_of(op))) for place, op in enumerate(ops) if not op.scope)
    return {place: _plain(cost) for place, cost in costs if cost is not None}


def _plain(cost: Cost) -> dict[str, object]:
    """A cost as plain data."""
    found = {name: getattr(cost, name) for name in cost.__struct_fields__}
    return {n: dict(v) if hasattr(v, "items") else v for n, v in found.items()}
