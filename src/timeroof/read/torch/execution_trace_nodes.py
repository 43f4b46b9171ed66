"""The nodes of a PyTorch ExecutionTrace, in its two layouts, and Chakra's converted graphs."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from timeroof.core.errors import InputError
from timeroof.read.opening import Entry

# These files are read whole; recorded ones have tens of megabytes.
MAX_BYTES = 1 << 30
_TENSOR = re.compile(r"^Tensor\((.*)\)$")
_ERRORS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


class Node(NamedTuple):
    """One op of an ExecutionTrace: what it was called with, as Kineto would write it."""

    name: str
    record_id: int
    thread: int
    # JSON texts of dims, types, strides and values, as in a Kineto trace's arguments.
    signature: tuple[bytes, bytes, bytes, bytes]


def looks_like_nodes(head: bytes) -> bool:
    """Whether a file begins like an ExecutionTrace."""
    return b'"schema"' in head and b'"nodes"' in head and b'"traceEvents"' not in head


def looks_like_graph(head: bytes) -> bool:
    """Whether a file begins like a graph that Chakra's converter wrote."""
    return b'"workload_graph"' in head


def document(entry: Entry) -> dict[str, Any]:
    """The file as an object, or an error that says what is wrong."""
    parts, size = [], 0
    for chunk in entry.chunks():
        size += len(chunk)
        if size > MAX_BYTES:
            raise InputError(f"is larger than {MAX_BYTES} bytes", where=entry.name)
        parts.append(chunk)
    try:
        found = msgspec.json.decode(b"".join(parts).lstrip(b"\xef\xbb\xbf"))
    except _ERRORS as error:
        raise InputError(f"is no whole JSON ({error})", where=entry.name) from error
    if not isinstance(found, dict):
        raise InputError("is no ExecutionTrace", where=entry.name)
    return found


def nodes_of(found: dict[str, Any]) -> list[Node]:
    """The ops of an ExecutionTrace in the order in which they began."""
    listed = found.get("nodes")
    nodes = [_node(n) for n in listed if isinstance(n, dict)] if isinstance(listed, list) else []
    return sorted((n for n in nodes if n is not None), key=lambda n: n.record_id)


def _node(raw: dict[str, Any]) -> Node | None:
    attrs = _attributes(raw)
    record_id, thread = attrs.get("rf_id"), attrs.get("tid")
    if not isinstance(record_id, int) or not isinstance(raw.get("name"), str):
        return None
    inputs = raw.get("inputs")
    if isinstance(inputs, dict):
        values, shapes, types = (_list(inputs.get(k)) for k in ("values", "shapes", "types"))
        strides = _list(inputs.get("strides"))
    else:
        values, strides = _list(inputs), _list(raw.get("input_strides"))
        shapes, types = _list(raw.get("input_shapes")), _list(raw.get("input_types"))
    signature = _signature(values, shapes, types, strides)
    return Node(raw["name"], record_id, thread if isinstance(thread, int) else 0, signature)


def _attributes(raw: dict[str, Any]) -> dict[str, Any]:
    listed = raw.get("attrs")
    if not isinstance(listed, list):
        return raw
    return {a["name"]: a.get("value") for a in listed if isinstance(a, dict) and "name" in a}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _signature(
    values: list[Any], shapes: list[Any], types: list[Any], strides: list[Any]
) -> tuple[bytes, bytes, bytes, bytes]:
    """The four texts of a call; without inputs all are empty, as for an op without a record."""
    if not types:
        return b"", b"", b"", b""
    dims, kinds, texts = [], [], []
    for place, kind in enumerate(types):
        shape = shapes[place] if place < len(shapes) else []
        value = values[place] if place < len(values) else None
        one = _argument(str(kind), shape, value)
        dims.append(one[0])
        kinds.append(one[1])
        texts.append(one[2])
    steps = msgspec.json.encode(strides) if strides else b""
    encoded = [msgspec.json.encode(v) for v in (dims, kinds, texts)]
    return encoded[0], encoded[1], steps, encoded[2]


def _argument(kind: str, shape: Any, value: Any) -> tuple[Any, str, str]:
    """Dims, type and value of one argument, in Kineto's words.

    >>> _argument("Tensor(float)", [2, 3], [5, 6, 0, 6, 4, "cuda:0"])
    ([2, 3], 'float', '')
    >>> _argument("GenericList[Int,Int]", [[], []], [1, 2])
    ([], 'ScalarList', '[1, 2]')
    """
    tensor = _TENSOR.match(kind)
    if tensor:
        return shape, tensor[1], ""
    if kind.startswith("GenericList[Tensor"):
        return shape, "TensorList", ""
    if kind.startswith("GenericList"):
        return [], "ScalarList", str(value)
    if kind in ("Int", "Double", "Bool", "Scalar"):
        return [], "Scalar", str(value)
    return [], "", "" if value in (None, "<None>") else str(value)
