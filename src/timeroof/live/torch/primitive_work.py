"""Which part of an op's work each of its primitives does: every amount by the same of theirs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from timeroof.work import Cost
from timeroof.work import amounts as amounts_of

# What a primitive's own line tells apart; bytes and page faults follow all of its FLOPs.
_TOLD = ("flop/", "contraction_flops", "padding_flops")


def parts_of(
    amounts: Mapping[str, float | None],
    costs: Sequence[Cost],
    calls: Sequence[float],
    units: Collection[str],
) -> dict[str, list[float | None]]:
    """Per amount of an op, the part of each primitive.

    A sum for a bias is vector work of the primitive that does it, and takes nothing of the
    products: both gradients of a convolution have as many, in their format.

    >>> product, sums = Cost(contraction={"bf16": 9.0}), Cost(contraction={"bf16": 9.0},
    ...     other={"fp32": 4.0})
    >>> parts_of({"flop/bf16": 18.0, "flop/fp32": 4.0}, [product, sums], [1.0, 1.0], ())
    {'flop/bf16': [9.0, 9.0], 'flop/fp32': [0.0, 4.0]}
    """
    told = [amounts_of(cost, units) for cost in costs]
    flops = [(cost.flops or 0.0) * n for cost, n in zip(costs, calls, strict=True)]
    # Calls that tell no sizes are held to be alike.
    usual = _shares(flops) or _shares(calls) or [1.0 / len(costs)] * len(costs)
    found: dict[str, list[float | None]] = {}
    for name, total in amounts.items():
        own = [(t.get(name) or 0.0) * n for t, n in zip(told, calls, strict=True)]
        weights = _shares(own) if name.startswith(_TOLD) else None
        found[name] = whole_parts(total, weights or usual)
    return found


def _shares(values: Sequence[float]) -> list[float] | None:
    total = sum(values)
    return [value / total for value in values] if total > 0 else None


def whole_parts(total: float | None, weights: Sequence[float]) -> list[float | None]:
    """Parts of an amount by weight that sum to it, whole numbers where it is one.

    >>> whole_parts(10.0, [1 / 3, 2 / 3]), whole_parts(None, [1.0])
    ([3.0, 7.0], [None])
    """
    if total is None:
        return [None] * len(weights)
    if not float(total).is_integer():
        return [total * weight for weight in weights]
    edges, run = [0.0], 0.0
    for weight in weights:
        run += weight
        edges.append(float(round(total * run)))
    return [after - before for before, after in pairwise(edges)]
