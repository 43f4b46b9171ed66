"""How the amounts of a recorded call came about: the formula that counted them, with its sizes.

The call is counted once more, by the very same functions, with sizes that carry names
(`timeroof.work.traced`). So text and number of a formula are one definition.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from timeroof.core.columns import Row
from timeroof.core.machine import Machine
from timeroof.work.call import Arg, Call, Tensor
from timeroof.work.cost import Cost
from timeroof.work.counting import count
from timeroof.work.families.hlo import INSTRUCTION, named_inputs
from timeroof.work.names.facts import read_name
from timeroof.work.recorded import COUNTED_KINDS, RecordedCall, amounts_of_row
from timeroof.work.registry import find_rule
from timeroof.work.traced import Number, Written, is_traced, size, times, written

CALLS = "calls"


class NamedCall(Call, frozen=True, cache_hash=True):
    """A call whose sizes carry names: equal to no plain one, so that caches keep them apart."""


class _Names:
    """Names of sizes; one that already stands for another number gives way."""

    def __init__(self, stated: Mapping[str, tuple[str, ...]]) -> None:
        self.stated = stated
        self.values: dict[str, int] = {}

    def of(self, parameter: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A tensor's sizes under their names."""
        stated = self.stated.get(parameter, ())
        if len(stated) != len(shape) or not all(map(self._is_free, stated, shape)):
            stated = tuple(f"{parameter}{place}" for place in range(len(shape)))
        self.values |= dict(zip(stated, shape, strict=True))
        return tuple(size(name, value) for name, value in zip(stated, shape, strict=True))

    def _is_free(self, name: str, value: int) -> bool:
        return self.values.get(name, value) == value


def named_call(call: Call) -> NamedCall:
    """A call with names for the sizes of its tensors: as its formula calls them, else x0, x1.

    >>> called = named_call(Call.of("aten::mm", Tensor((2, 3)), Tensor((3, 4))))
    >>> written(2 * called.inputs[0].shape[0] * called.inputs[1].shape[1]).text
    '2·M·N'
    """
    if call.op == INSTRUCTION:
        return NamedCall(call.op, named_inputs(call))
    rule = find_rule(call.op)
    names = _Names(rule.sizes if rule is not None else {})
    parameters = rule.parameters if rule is not None else ()
    inputs = tuple(
        _named(value, parameters[place] if place < len(parameters) else f"in{place}_", names)
        for place, value in enumerate(call.inputs)
    )
    outputs = call.outputs
    if outputs is not None:
        outputs = tuple(
            t for place, value in enumerate(outputs)
            if isinstance(t := _named(value, f"out{place}_", names), Tensor)
        )  # fmt: skip
    kwargs = tuple((key, _named(value, key, names)) for key, value in call.kwargs)
    return NamedCall(call.op, inputs, outputs, kwargs)


def _named(value: Arg, name: str, names: _Names) -> Arg:
    if isinstance(value, Tensor) and all(type(n) is int for n in value.shape):
        return msgspec.structs.replace(value, shape=names.of(name, value.shape))
    if isinstance(value, tuple):
        return tuple(_named(v, f"{name}_{place}_", names) for place, v in enumerate(value))
    return value


def derived_amounts(
    recorded: RecordedCall, row: Row, machine: Machine | None
) -> dict[str, Written]:
    """The formulas of a row's amounts, over all its calls; without those that are unknown.

    `row` has the columns of a profile's row. What the source measured is not among them.
    """
    if row["kind"] not in COUNTED_KINDS and recorded.call.op != INSTRUCTION:
        return {}
    facts = msgspec.structs.asdict(read_name(row["name"]))
    named = recorded._replace(call=named_call(recorded.call))
    found, per_launch = amounts_of_row(named, {**row, **facts}, machine)
    often = row["calls"] if per_launch or recorded.times is None else recorded.times
    calls: Number = 1 if often == 1 else times(CALLS, often)
    return {
        resource: written(amount * calls)
        for resource, amount in found.items()
        if isinstance(amount, int | float)
    }


def unknown_reason(recorded: RecordedCall) -> str | None:
    """Why a call cannot be counted; None where it can."""
    cost: Cost = count(recorded.call)
    return cost.unknown


__all__ = ["CALLS", "NamedCall", "derived_amounts", "is_traced", "named_call", "unknown_reason"]
