"""Ops nest: aten::linear calls aten::addmm. Which of them does the work, so that none counts twice.

The rule: an op that is marked composite counts only where none of the ops below it has
work of its own; every other op keeps its own cost. So ``linear`` owes nothing when
``addmm`` was recorded below it, and counts itself in a trace that stops at ``linear``.
Attribute time by self time.
"""

from __future__ import annotations

from collections.abc import Sequence

from timeroof.work.cost import FREE, Cost, unknown


def own_costs(parents: Sequence[int | None], costs: Sequence[Cost]) -> list[Cost]:
    """Every op's own cost, given the place of its parent in the same list (None: no parent).

    >>> inner = Cost(contraction={"fp32": 8.0})
    >>> outer = Cost(contraction={"fp32": 8.0}, composite=True)
    >>> [c.flops for c in own_costs([None, 0], [outer, inner])]
    [0.0, 8.0]
    """
    working = [False] * len(costs)
    for place, cost in enumerate(costs):
        if cost.free:
            continue
        above = parents[place]
        while above is not None and not working[above]:
            working[above] = True
            above = parents[above]
    return [FREE if c.composite and working[i] else c for i, c in enumerate(costs)]


def kernel_cost(op: str, cost: Cost) -> Cost:
    """The cost of a device kernel linked to an op: an op that does nothing explains none.

    >>> kernel_cost("aten::view", FREE).unknown
    'a kernel ran under aten::view, which does no work of its own'
    """
    if cost.free:
        return unknown(f"a kernel ran under {op}, which does no work of its own")
    return cost
