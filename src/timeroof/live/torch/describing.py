"""Torch's execution trace of a step as described ops."""

from __future__ import annotations

from timeroof.live.recording import Described, TensorSeen
from timeroof.read.torch.execution_nodes import TENSOR, Node, Side, decoded, nodes_of

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
