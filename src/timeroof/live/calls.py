"""Described ops as calls that can be counted, and their costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from timeroof.live import recording
from timeroof.live.recording import CompiledKernel, Described, LoopOp, TensorSeen
from timeroof.work import FREE, Call, Cost, Tensor, count, own_costs
from timeroof.work.call import Arg, frozen, is_floating, parse_dtype
from timeroof.work.cost import unknown
from timeroof.work.registry import find_rule
from timeroof_recorder.torch import COST

# What a framework can say of an op without running it: a fallback for ops without a formula.
Derive = Callable[..., Any]


@dataclass(frozen=True)
class Counted:
    """A described op as a call, with the cost that is its own."""

    call: Call
    cost: Cost
    # A compiled kernel that is known by its code alone.
    without_tensors: bool = False


def count_calls(
    ops: Sequence[Described], compiled: Sequence[CompiledKernel] = (),
    derive: Derive | None = None, surrounds: Callable[[Described], bool] = lambda op: False,
) -> list[Counted]:  # fmt: skip
    """Every op's own cost; what lies in a region or an op whose cost the user states owes nothing.
    What only `surrounds` others does no work."""
    calls = [call_of(op) for op in ops]
    costs = [
        Cost(**op.stated) if op.stated is not None  # type: ignore[arg-type]
        else FREE if op.scope or recording.is_meta(op) or surrounds(op) or _is_look(op)
        else count(call, derive) if op.kernel is None
        else compiled_cost(compiled[op.kernel], op, derive)
        for op, call in zip(ops, calls, strict=True)
    ]  # fmt: skip
    covered = _stated_for(ops, costs)
    costs = [FREE if inside else c for c, inside in zip(costs, covered, strict=True)]
    own = _without_wrappers(ops, _without_repeats(ops, own_costs([o.parent for o in ops], costs)))
    return [
        Counted(call, cost, op.kernel is not None and not op.inputs and not op.outputs)
        for op, call, cost in zip(ops, calls, own, strict=True)
    ]


def _is_look(op: Described) -> bool:
    """Whether an op handed back what it was given: every result lies in memory of an argument, and
    its schema marks none as written. ``real`` of a real tensor, ``contiguous`` of a contiguous
    one."""
    if not op.name.startswith("aten::") or "!" in op.schema or not op.schema:
        return False
    made = {tensor.storage for tensor in recording.tensors_in(op.outputs)}
    given = {tensor.storage for tensor in recording.tensors_in(op.inputs)}
    return bool(made) and made <= given


def _done_below(ops: Sequence[Described], own: Sequence[float | None]) -> list[float]:
    """What the ops that each op calls do of something, at whatever depth."""
    below = [0.0] * len(ops)
    for place in range(len(ops) - 1, -1, -1):
        above = ops[place].parent
        if above is not None and above < place:
            below[above] += max(below[place], own[place] or 0.0)
    return below


def _without_repeats(ops: Sequence[Described], costs: Sequence[Cost]) -> list[Cost]:
    """An op whose products are all done by ops below it owes none of its own.
    ``convolution_backward`` does them itself with oneDNN, and calls an op for them without."""
    inner = _done_below(ops, [cost.contraction_flops for cost in costs])
    return [
        FREE if c.contraction_flops and done >= 0.99 * c.contraction_flops else c
        for c, done in zip(costs, inner, strict=True)
    ]


def _without_wrappers(ops: Sequence[Described], costs: Sequence[Cost]) -> list[Cost]:
    """An op whose FLOPs and bytes are all on the account of ops that it calls owes nothing.
    ``relu`` calls ``clamp_min``, ``square`` calls ``pow``, ``sum`` its variant with an output."""
    flops = _done_below(ops, [cost.flops for cost in costs])
    moved = _done_below(ops, [cost.bytes for cost in costs])

    itself = _working_itself(ops)

    def is_wrapper(place: int, cost: Cost) -> bool:
        if itself[place]:
            return False
        owes = cost.bytes if cost.known and not cost.free else None
        all_flops = flops[place] >= 0.99 * (cost.flops or 0.0)
        return bool(owes) and all_flops and moved[place] >= 0.99 * (owes or 0.0)

    return [FREE if is_wrapper(place, cost) else cost for place, cost in enumerate(costs)]


def _working_itself(ops: Sequence[Described]) -> list[bool]:
    """Whether an op works on what it had copied; of one that calls its own variant the inner."""
    rules = [find_rule(op.op or op.name) if op.scope == recording.OP_SCOPE else None for op in ops]
    found = [rule is not None and rule.itself for rule in rules]
    for op, rule in zip(ops, rules, strict=True):
        if op.parent is not None and rule is not None and rules[op.parent] is rule:
            found[op.parent] = False
    return found


def below(ops: Sequence[Described], head: str) -> list[bool]:
    """Whether an op is an annotation whose name begins so, or is below one."""
    found: list[bool] = []
    for place, op in enumerate(ops):
        above = op.parent is not None and op.parent < place and found[op.parent]
        found.append(above or op.name.startswith(head))
    return found


def _stated_for(ops: Sequence[Described], costs: Sequence[Cost]) -> list[bool]:
    """Whether what the user states of a region or an op around it covers an op, too."""
    found: list[bool] = []
    for op, inside in zip(ops, below(ops, COST), strict=True):
        above = op.parent if op.parent is not None and op.parent < len(found) else None
        around = above is not None and (found[above] or costs[above].origin == "user")
        found.append(inside or around)
    return found


def call_of(op: Described) -> Call:
    """A described op as a call."""
    seen: list[TensorSeen] = []
    inputs = tuple(_argument(value, seen) for value in op.inputs)
    outputs = tuple(_tensor(t, None) for t in recording.tensors_in(op.outputs))
    return Call(op.op or op.name, inputs, outputs)


def _argument(value: object, seen: list[TensorSeen]) -> Arg:
    if isinstance(value, TensorSeen):
        if parse_dtype(value.dtype) is None and "null" in value.dtype:
            return None
        place = next((i for i, t in enumerate(seen) if _is_same(t, value)), None)
        seen.append(value)
        return _tensor(value, place)
    return tuple(_argument(v, seen) for v in value) if isinstance(value, tuple) else frozen(value)


def _is_same(a: TensorSeen, b: TensorSeen) -> bool:
    return (a.storage, a.offset, a.shape, a.strides) == (b.storage, b.offset, b.shape, b.strides)


def _tensor(seen: TensorSeen, place: int | None) -> Tensor:
    strides = seen.strides if len(seen.strides) == len(seen.shape) else None
    return Tensor(seen.shape, parse_dtype(seen.dtype) or seen.dtype, strides, place)


def dtype_of(call: Call) -> str | None:
    """The format of a call's first tensor, inputs before outputs."""
    values = recording.leaves((call.inputs, call.outputs or ()))
    return next((t.dtype for t in values if isinstance(t, Tensor)), None)


# The cost of a compiled kernel: its loops' operations by the formulas of ops, its arguments.


def compiled_cost(kernel: CompiledKernel, op: Described, derive: Derive | None = None) -> Cost:
    """FLOPs as ops have them, and each argument's bytes once; unknown where sizes have changed."""
    if kernel.symbolic and not _same_sizes(kernel, op):
        return unknown("a compiled kernel whose sizes differ from those it was compiled with")
    contraction: dict[str, float] = {}
    other: dict[str, float] = {}
    for loop_op, elements in kernel.work:
        _add(other, _loop_flops(loop_op, elements))
    for product in kernel.products:
        cost = count(call_of(product), derive)
        if cost.contraction is None or cost.other is None:
            return cost
        _add(contraction, cost.contraction)
        _add(other, cost.other)
    read = float(sum(a.read_bytes for a in kernel.arguments))
    written = float(sum(a.written_bytes for a in kernel.arguments))
    return Cost(contraction=contraction, other=other, bytes_read=read, bytes_written=written)


def _add(total: dict[str, float], more: Mapping[str, float]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0.0) + value


def _loop_flops(op: LoopOp, elements: int) -> Mapping[str, float]:
    """FLOPs of an operation on so many elements; one each where there is no formula.

    >>> dict(_loop_flops(LoopOp("aten::sigmoid", "torch.float32", 1), 10))
    {'fp32': 40.0}
    """
    dtype = parse_dtype(op.dtype)
    if dtype is None or not is_floating(dtype):
        return {}
    found = count(Call(op.op, (Tensor((elements,), dtype),) * op.operands))
    if found.other is None or found.contraction is None:
        return {dtype: float(elements)}
    return {**found.contraction, **found.other}


def _same_sizes(kernel: CompiledKernel, op: Described) -> bool:
    """Whether the tensors of a call are as large as they were when the kernel was compiled."""
    read = [a.size_bytes for a in kernel.arguments if a.read_bytes]
    written = [a.size_bytes for a in kernel.arguments if a.written_bytes]
    return read == _sizes(op.inputs) and written == _sizes(op.outputs)


def _sizes(values: tuple[object, ...]) -> list[int]:
    return [math.prod(t.shape) * t.item_bytes for t in recording.tensors_in(values)]
