"""Counting calls: the user's statement first, then the registry, then the injected fallback."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from timeroof.work.args import UncountableError, every_tensor
from timeroof.work.call import Call, Tensor, frozen
from timeroof.work.cost import FREE, Cost, cost, possible, unknown
from timeroof.work.dtypes import parse_dtype
from timeroof.work.registry import find_rule
from timeroof.work.user import stated_cost, when_changed


class Derivation(Protocol):
    """What a framework can say of an op without a formula: its results and its nature."""

    outputs: Sequence[tuple[Sequence[int], str, Sequence[int] | None]]
    pointwise: bool
    moves_nothing: bool


Fallback = Callable[[str, Sequence[object], dict[str, object]], Derivation | None]

CACHE_SIZE = 1 << 17
# What a formula may stumble over when arguments are not what the op's schema says.
STUMBLES = (
    TypeError, ValueError, IndexError, KeyError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip


def count(call: Call, fallback: Fallback | None = None) -> Cost:
    """The cost of a call. Never raises: what cannot be counted is unknown, with a reason.

    >>> from timeroof.work.call import Tensor
    >>> count(Call("aten::mm", (Tensor((2, 3)), Tensor((3, 4))))).contraction
    {'fp32': 48.0}
    >>> count(Call("mylib::op")).unknown
    'no formula for mylib::op'
    """
    try:
        return _counted(call, fallback)
    except TypeError:  # a list or another unhashable value among the arguments
        inputs, kwargs = frozen(call.inputs), frozen(call.kwargs)
        return _fresh(Call(str(call.op), inputs, call.outputs, kwargs), fallback)  # type: ignore[arg-type]


@lru_cache(maxsize=CACHE_SIZE)
def _counted(call: Call, fallback: Fallback | None) -> Cost:
    return _fresh(call, fallback)


def forget_counts() -> None:
    """Empty the cache of counted calls."""
    _counted.cache_clear()


when_changed(forget_counts)


def _fresh(call: Call, fallback: Fallback | None) -> Cost:
    stated = stated_cost(call)
    if stated is not None:
        return stated
    found = _by_rule(call)
    if found.unknown and fallback is not None:
        return _derived(call, fallback) or found
    return found


def _by_rule(call: Call) -> Cost:
    rule = find_rule(call.op)
    if rule is None:
        return unknown(f"no formula for {call.op}")
    try:
        return possible(rule.apply(call))
    except UncountableError as error:
        return unknown(f"{call.op}: {error.reason}")
    except STUMBLES as error:
        return unknown(f"{call.op}: malformed arguments ({type(error).__name__})")


def _derived(call: Call, fallback: Fallback) -> Cost | None:
    try:
        derivation = fallback(call.op, call.inputs, dict(call.kwargs))
        if derivation is None:
            return None
        if derivation.moves_nothing:
            return FREE
        writes = [
            Tensor(tuple(shape), parse_dtype(dtype) or dtype, tuple(strides) if strides else None)
            for shape, dtype, strides in derivation.outputs
        ]
        return _generic(call, writes, derivation.pointwise)
    except (UncountableError, *STUMBLES):
        return None


def _generic(call: Call, writes: Sequence[Tensor], pointwise: bool) -> Cost:
    values = (*call.inputs, *(v for _, v in call.kwargs))
    flops = float(sum(t.count for t in writes)) if pointwise else 0.0
    found = cost(every_tensor(*values), writes, other=flops, origin="modelled")
    if pointwise:
        return found
    return Cost(
        contraction=None,
        other=None,
        bytes_read=found.bytes_read,
        bytes_written=found.bytes_written,
        unknown=f"no formula for the FLOPs of {call.op}",
        origin="modelled",
    )


def count_many(calls: Iterable[Call], fallback: Fallback | None = None) -> list[Cost]:
    """The costs of many calls, each signature counted once."""
    known: dict[Call, Cost] = {}
    costs: list[Cost] = []
    for call in calls:
        try:
            found = known.get(call)
            if found is None:
                found = known[call] = count(call, fallback)
        except TypeError:
            found = count(call, fallback)
        costs.append(found)
    return costs


# Ops nest: aten::linear calls aten::addmm. Which of them does the work, so that none counts
# twice.
#
# The rule: an op that is marked composite counts only where none of the ops below it has
# work of its own; every other op keeps its own cost. So ``linear`` owes nothing when
# ``addmm`` was recorded below it, and counts itself in a trace that stops at ``linear``.
# Attribute time by self time.


def own_costs(parents: Sequence[int | None], costs: Sequence[Cost]) -> list[Cost]:
    """Every op's own cost, given the place of its parent in the same list (None: no parent).

    >>> inner = Cost(contraction={"fp32": 8.0})
    >>> outer = Cost(contraction={"fp32": 8.0}, composite=True)
    >>> [c.flops for c in own_costs([None, 0], [outer, inner])]
    [0.0, 8.0]
    """
    working = [False] * len(costs)
    for place, each in enumerate(costs):
        if each.free:
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
