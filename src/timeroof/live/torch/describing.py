"""Torch's execution trace of a step as described ops, sparse tensors with what they hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from timeroof.live.calls import call_of
from timeroof.live.frameworks import Context
from timeroof.live.recording import BACKWARD_SCOPE, OP_SCOPE, Described, TensorSeen, tensors_in
from timeroof.read.torch.execution_trace import TENSOR, Node, Side, decoded, nodes_of
from timeroof.work.cost import Cost
from timeroof.work.counting import stated_cost
from timeroof_recorder.torch import MODULE, SOURCE, phase_of_name

_NO_VALUE = "<None>"


def described_from_json(data: bytes) -> list[Described]:
    """The ops of an execution trace."""
    nodes = [n for n in nodes_of(decoded(data)) if not n.name.startswith("[pytorch|profiler|")]
    place = {node.id: i for i, node in enumerate(nodes)}
    return [_described(node, place) for node in nodes]


def _described(node: Node, place: dict[int, int]) -> Described:
    attrs = node.attributes
    return Described(
        name=node.name,
        parent=None if node.parent is None else place.get(node.parent),
        thread=int(attrs.get("tid") or 0),
        sequence=int(attrs.get("seq_id", -1)),
        scope=int(attrs.get("scope") or 0),
        schema=str(attrs.get("op_schema") or ""),
        inputs=_values(node.inputs),
        outputs=_values(node.outputs),
    )


def _values(side: Side) -> tuple[object, ...]:
    each = zip(side.values, side.shapes, side.types, side.strides, strict=False)
    return tuple(_value(value, shape, kind, strides) for value, shape, kind, strides in each)


def _value(value: object, shape: object, kind: str, strides: object) -> object:
    tensor = TENSOR.match(kind)
    if tensor is not None:
        return _tensor(value, shape, tensor[1], strides)
    if kind.startswith("GenericList[") and isinstance(value, list):
        inner = kind.removeprefix("GenericList[").removesuffix("]")
        kinds = inner.split(",") if inner else []
        if len(kinds) != len(value):
            return tuple(value)
        return tuple(
            _value(v, _at(shape, i), kinds[i], _at(strides, i)) for i, v in enumerate(value)
        )
    return None if kind == "None" or value == _NO_VALUE else value


def _at(values: object, place: int) -> object:
    return values[place] if isinstance(values, list) and place < len(values) else []


def _tensor(value: object, shape: object, dtype: str, strides: object) -> TensorSeen | None:
    if not isinstance(value, list) or len(value) < 6 or not isinstance(shape, list):
        return None
    sizes = tuple(s for s in shape if isinstance(s, int))
    steps = tuple(s for s in strides if isinstance(s, int)) if isinstance(strides, list) else ()
    if len(sizes) != len(shape):
        return None
    # What has no storage (a sparse tensor) is known by its own number, below 0.
    storage = value[1] or -value[0]
    return TensorSeen(sizes, dtype, steps, storage, value[2], value[4], str(value[5]))


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


def contexts(ops: list[Described]) -> list[Context]:
    """Phase and module of every op: below an annotation, by autograd's sequence numbers, or other.

    A backward node bears the number of the forward op that made it. Forward ops outside any
    module (a loss) are known by having made a node that was evaluated. The same holds below an
    optimizer's step, which may call a closure; its own updates are in no module and make no node.
    """
    inside = _inside(ops)
    evaluated = {op.sequence for op in ops if op.scope == BACKWARD_SCOPE and op.sequence >= 0}
    maker = _makers(ops, inside, evaluated)
    making = _with_ancestors(ops, set(maker.values()))
    found: list[Context] = []
    sequence: list[int] = []
    # The engine's own work for a node (adding gradients up) belongs to that node's maker too.
    nodes = {op.parent: op.sequence for op in ops if op.scope == BACKWARD_SCOPE}
    for place, op in enumerate(ops):
        above = None if op.parent is None or op.parent >= place else op.parent
        number = nodes.get(place, -1 if above is None else sequence[above])
        if op.scope == BACKWARD_SCOPE and op.sequence >= 0:
            number = op.sequence
        sequence.append(number)
        here = inside[place]
        if here.phase == "backward":
            made_by = maker.get(number)
            made = inside[made_by] if made_by is not None else _Inside()
            module, source = here.module or made.module, made.source or here.source
            found.append(Context("backward", module, source))
        else:
            caller, makes = (found[above] if above is not None else None), place in making
            is_firm = _is_forward(op, here, makes, caller)
            # In no module, a program's annotation around a forward op is forward.
            forward = makes or (caller is not None and caller.phase == "forward")
            other = here.phase or op.phase or ("forward" if forward else "other")
            phase = "forward" if is_firm else other
            found.append(Context(phase, here.module, here.source, is_firm))
    return found


def _is_forward(op: Described, here: _Inside, makes: bool, above: Context | None) -> bool:
    """Whether an op is in a module, made a node, or was called by one that did."""
    if here.phase == "data":
        return False
    if here.phase is None and here.module is not None:
        return True
    by_caller = above is not None and above.is_firm and op.phase is None
    return op.scope == OP_SCOPE and (makes or op.phase == "forward" or by_caller)


@dataclass(frozen=True)
class _Inside:
    phase: str | None = None
    module: str | None = None
    source: str | None = None


def _inside(ops: list[Described]) -> list[_Inside]:
    found: list[_Inside] = []
    for place, op in enumerate(ops):
        above = found[op.parent] if op.parent is not None and op.parent < place else _Inside()
        module = _after(MODULE, op.name) or op.module
        # A module that is called below an optimizer's step is called by its closure.
        is_closure = module is not None and above.phase == "optimizer"
        phase = phase_of_name(op.name) or (None if is_closure else above.phase)
        source = _after(SOURCE, op.name) or op.source or above.source
        found.append(_Inside(phase, module or above.module, source))
    return found


def _after(head: str, name: str) -> str | None:
    return name.removeprefix(head) if name.startswith(head) else None


def _makers(ops: list[Described], inside: list[_Inside], evaluated: set[int]) -> dict[int, int]:
    return {
        op.sequence: place
        for place, op in enumerate(ops)
        if op.sequence in evaluated
        and op.scope == OP_SCOPE
        and inside[place].phase in (None, "optimizer")
    }


def _with_ancestors(ops: list[Described], places: set[int]) -> set[int]:
    found: set[int] = set()
    for place in places:
        at: int | None = place
        while at is not None and at not in found:
            found.add(at)
            at = ops[at].parent
    return found


# Sparse tensors (COO): what they hold, in place of their dense shape.
#
# A sparse tensor has no storage; its indices and values are tensors of their own. Kernels ask for
# them (`_indices`, `_values`), so the trace tells which. An op with sparse arguments becomes a call
# of `sparse::…` with each of them as a pair: formulas and the residency model see the bytes that
# are really there.


_MAKERS = ("aten::_sparse_coo_tensor_with_dims_and_tensors", "aten::_sparse_coo_tensor_unsafe",
           "aten::sparse_coo_tensor")  # fmt: skip
_INDICES, _VALUES = "aten::_indices", "aten::_values"


class _Held(NamedTuple):
    """Indices and values of a sparse tensor, and where in the trace they were seen."""

    place: int
    indices: TensorSeen
    values: TensorSeen

    @property
    def pair(self) -> tuple[TensorSeen, TensorSeen]:
        return self.indices, self.values


def with_contents(ops: Sequence[Described]) -> list[Described]:
    """The same ops in the same places; those with sparse tensors name what these hold."""
    seen = _seen(ops)
    if not seen:
        return list(ops)
    ends = _ends(ops)
    found = list(ops)
    for place, op in enumerate(ops):
        is_sparse = any(t.storage in seen for t in tensors_in((op.inputs, op.outputs)))
        if is_sparse and op.scope == OP_SCOPE and op.name.startswith("aten::"):
            found[place] = replace(
                op, op="sparse::" + op.name.removeprefix("aten::"),
                inputs=_given(op.inputs, seen, place, ends[place]),
                outputs=_made(op.outputs, seen, ends[place]),
            )  # fmt: skip
    return found


def _given(
    values: tuple[object, ...], seen: dict[int, list[_Held]], place: int, end: int
) -> tuple[object, ...]:
    """Arguments with what they hold: as the op itself looked at it, else as it was before."""
    found: list[object] = []
    for value in values:
        if isinstance(value, tuple):
            found.append(_given(value, seen, place, end))
        elif isinstance(value, TensorSeen) and value.storage in seen:
            looks = seen[value.storage]
            inside = next((held for held in looks if place <= held.place < end), None)
            before = next((held for held in reversed(looks) if held.place < place), None)
            found.append((inside or before or looks[0]).pair)
        else:
            found.append(value)
    return tuple(found)


def _made(values: tuple[object, ...], seen: dict[int, list[_Held]], end: int) -> tuple[object, ...]:
    """Results with what was found in them later; those that nobody looked into are left out."""
    found: list[object] = []
    for value in values:
        if isinstance(value, TensorSeen) and value.storage in seen:
            # An empty one is another tensor's beginning: results that hold nothing are rare.
            later = (h for h in seen[value.storage] if h.place >= end and h.values.shape[0])
            after = next(later, None)
            found += after.pair if after is not None else ()
        else:
            found.append(value)
    return tuple(found)


def _seen(ops: Sequence[Described]) -> dict[int, list[_Held]]:
    """By sparse tensor, what was seen of it in order. A tensor's number may pass to another one:
    indices go with the values nearest to them that are as many."""
    parts: dict[str, dict[int, list[tuple[int, TensorSeen]]]] = {
        name: defaultdict(list) for name in (_INDICES, _VALUES)
    }
    for place, op in enumerate(ops):
        given, made = tensors_in(op.inputs), tensors_in(op.outputs)
        if op.name in parts and len(given) == len(made) == 1 and given[0].storage < 0:
            parts[op.name][given[0].storage].append((place, made[0]))
        elif op.name in _MAKERS and len(given) >= 2 and made and made[0].storage < 0:
            parts[_INDICES][made[0].storage].append((place, given[0]))
            parts[_VALUES][made[0].storage].append((place, given[1]))
    found: dict[int, list[_Held]] = {}
    for tensor, looks in parts[_VALUES].items():
        held = [_paired(place, values, parts[_INDICES][tensor]) for place, values in looks]
        known = [each for each in held if each is not None]
        if known:
            found[tensor] = known
    return found


def _paired(
    place: int, values: TensorSeen, looks: Sequence[tuple[int, TensorSeen]]
) -> _Held | None:
    fitting = [look for look in looks if look[1].shape[-1:] == values.shape[:1] and values.shape]
    if not fitting:
        return None
    nearest = min(fitting, key=lambda look: abs(look[0] - place))
    return _Held(place, nearest[1], values)


def _ends(ops: Sequence[Described]) -> list[int]:
    """The place after everything that each op calls."""
    ends = [place + 1 for place in range(len(ops))]
    for place in range(len(ops) - 1, -1, -1):
        above = ops[place].parent
        if above is not None and above < place:
            ends[above] = max(ends[above], ends[place])
    return ends
