"""Counting calls: the user's statement first, then the registry, then the injected fallback."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Protocol

import msgspec

from timeroof.core.errors import trace_ignored
from timeroof.work.call import Call, Tensor, UncountableError, every_tensor, frozen, parse_dtype
from timeroof.work.cost import FREE, Cost, computing_dtype, cost, possible, unknown
from timeroof.work.registry import find_rule, load_families, plain_name

# Costs that the user states (see `cost_of`): they win over everything derived.

Stated = Cost | Mapping[str, object]
UserFunction = Callable[[Call], Stated]

_STATED: dict[str, UserFunction] = {}


def cost_of(*names: str) -> Callable[[UserFunction], UserFunction]:
    """State the cost of an op: the function gets a `Call`, and returns FLOPs and bytes.

    It returns a `Cost` or a mapping with ``flops`` (a number, or numbers by format),
    ``bytes`` (or ``bytes_read`` and ``bytes_written``) and perhaps ``contraction`` (which
    part of the FLOPs are contractions; all unless it says otherwise). What it leaves out
    is unknown. Stating a cost again replaces the former statement.
    """

    def state(function: UserFunction) -> UserFunction:
        for name in names:
            _STATED[plain_name(name)] = function
        forget_counts()
        return function

    return state


def forget(*names: str) -> None:
    """Take statements back; without names, all of them."""
    for name in [plain_name(n) for n in names] or list(_STATED):
        _STATED.pop(name, None)
    forget_counts()


def stated_cost(call: Call) -> Cost | None:
    """The cost that the user stated for this call, or None if there is none."""
    function = _STATED.get(plain_name(call.op))
    if function is None:
        return None
    try:
        return as_cost(function(call), call)
    except Exception as error:  # the user's code may raise anything
        trace_ignored(f"the stated cost of {call.op} failed")
        return unknown(f"the stated cost of {call.op} failed: {type(error).__name__}: {error}")


def as_cost(stated: Stated, call: Call | None = None) -> Cost:
    """A statement as a cost of origin `user`.

    >>> as_cost({"flops": {"bf16": 10}, "bytes": 4}).contraction
    {'bf16': 10.0}
    """
    if isinstance(stated, Cost):
        return Cost(
            **{f: getattr(stated, f) for f in stated.__struct_fields__} | {"origin": "user"}
        )
    flops = _by_format(stated.get("flops"), call)
    contraction = _by_format(stated.get("contraction", stated.get("flops")), call)
    other = None
    if flops is not None and contraction is not None:
        rest = {d: n - contraction.get(d, 0.0) for d, n in flops.items()}
        other = {d: n for d, n in rest.items() if n > 0}
    read, written = _number(stated.get("bytes_read")), _number(stated.get("bytes_written"))
    moved = _number(stated.get("bytes"))
    if moved is not None:  # results are written, and the rest is read
        written = min(moved, _results_bytes(call))
        read = moved - written
    lacking = [w for w, v in (("FLOPs", flops), ("bytes", read)) if v is None]
    return Cost(
        contraction=contraction,
        other=other,
        bytes_read=read,
        bytes_written=written,
        link_bytes=_number(stated.get("link_bytes", 0.0)),
        unknown=f"the user states no {' and no '.join(lacking)}" if lacking else None,
        origin="user",
    )


def _results_bytes(call: Call | None) -> float:
    """Bytes of what a call returns; 0 where nobody recorded that."""
    outputs = () if call is None else call.outputs or ()
    try:
        return float(sum(tensor.size_bytes for tensor in outputs))
    except UncountableError:
        return 0.0


def _by_format(value: object, call: Call | None) -> dict[str, float] | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {parse_dtype(str(k)) or str(k): float(v) for k, v in value.items()}
    try:
        dtype = computing_dtype(every_tensor(*call.inputs)) if call else "fp32"
    except UncountableError:
        dtype = "fp32"
    number = _number(value)
    return None if number is None else {dtype: number}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


class Derivation(Protocol):
    """What a framework can say of an op without a formula: its results and its nature."""

    outputs: Sequence[tuple[Sequence[int], str, Sequence[int] | None]]
    pointwise: bool
    moves_nothing: bool
    # Its work is done by the ops that it calls.
    composite: bool


Fallback = Callable[[str, Sequence[object], dict[str, object]], Derivation | None]

CACHE_SIZE = 1 << 14
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
    return _applied(call, lambda: rule.apply(call))


def _applied(call: Call, formula: Callable[[], Cost]) -> Cost:
    """What a formula says; what it cannot count is unknown."""
    try:
        return possible(formula())
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
        found = _generic(call, writes, derivation.pointwise)
        return msgspec.structs.replace(found, composite=derivation.composite)
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


# Ops nest: aten::linear calls aten::addmm. Which of them does the work, so that none counts
# twice.
#
# The rule: an op that is marked composite counts only where the ops below it do none of its
# work (a number that is wrapped into a tensor is none); every other op keeps its own cost. So
# ``linear`` owes nothing when ``addmm`` was recorded below it, and counts itself in a trace that
# stops at ``linear``.
# Attribute time by self time.


# A smaller part of an op's work, done below it, is not its work: numbers turned into tensors.
LEAST_DONE = 0.01


def own_costs(parents: Sequence[int | None], costs: Sequence[Cost]) -> list[Cost]:
    """Every op's own cost, given the place of its parent in the same list (None: no parent).

    >>> inner = Cost(contraction={"fp32": 8.0})
    >>> outer = Cost(contraction={"fp32": 8.0}, composite=True)
    >>> [c.flops for c in own_costs([None, 0], [outer, inner])]
    [0.0, 8.0]
    """
    flops, moved = [0.0] * len(costs), [0.0] * len(costs)
    for place in range(len(costs) - 1, -1, -1):
        above, each = parents[place], costs[place]
        if above is not None and above < place:
            flops[above] += flops[place] + (0.0 if each.free else _or_all(each.flops))
            moved[above] += moved[place] + (0.0 if each.free else _or_all(each.bytes))

    def is_done(place: int, each: Cost) -> bool:
        if not each.known:
            return bool(flops[place] or moved[place])
        return flops[place] > LEAST_DONE * (each.flops or 0.0) or moved[place] > LEAST_DONE * (
            each.bytes or 0.0
        )

    return [FREE if c.composite and is_done(i, c) else c for i, c in enumerate(costs)]


def _or_all(amount: float | None) -> float:
    return math.inf if amount is None else amount


def kernel_cost(op: str, cost: Cost) -> Cost:
    """The cost of a device kernel linked to an op: an op that does nothing explains none.

    >>> kernel_cost("aten::view", FREE).unknown
    'a kernel ran under aten::view, which does no work of its own'
    """
    if cost.free:
        return unknown(f"a kernel ran under {op}, which does no work of its own")
    return cost


# Formulas for single kernels of an op whose record does not tell its work.
#
# An engine's fused op may hide its weights, but the kernels that it launched have names and
# grids: tiles times blocks are sizes. What follows from them is inferred, never counted. A
# formula here stands for one launch of one kernel, not for the whole op.


Grid = tuple[int, ...]


class Kernel(msgspec.Struct, frozen=True):
    """A kernel's name, and the telling kernels of the same call with their grids, in order."""

    name: str
    launched: tuple[tuple[str, Grid], ...] = ()

    @property
    def grid(self) -> Grid | None:
        """The grid of this kernel, where it is the only one of its name in the call."""
        found = [g for n, g in self.launched if n == self.name]
        return found[0] if len(set(found)) == 1 else None


KernelFunction = Callable[[Call, Kernel], Cost]
_KERNELS: dict[str, KernelFunction] = {}


def kernel_formula(*ops: str) -> Callable[[KernelFunction], KernelFunction]:
    """Register a function that counts the kernels of these ops one by one."""

    def register(function: KernelFunction) -> KernelFunction:
        _KERNELS.update(dict.fromkeys(ops, function))
        return function

    return register


def count_kernel(call: Call, kernel: Kernel) -> Cost | None:
    """The cost of one launch; None where the op is counted as a whole. Never raises."""
    load_families()
    function = _KERNELS.get(plain_name(call.op))
    if function is None or stated_cost(call) is not None:
        return None
    return _applied(call, lambda: function(call, kernel))
