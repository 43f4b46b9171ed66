"""Sparse tensors (COO) of an execution trace: what they hold, in place of their dense shape.

A sparse tensor has no storage; its indices and values are tensors of their own. Kernels ask for
them (`_indices`, `_values`), so the trace tells which. An op with sparse arguments becomes a call
of `sparse::…` with each of them as a pair: formulas and the residency model see the bytes that
are really there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from timeroof.live.recording import OP_SCOPE, Described, TensorSeen, tensors_in

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
