"""Graphs of TensorFlow from the wire: `GraphDef`, and the `RunMetadata` that a runtime collects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from timeroof.core.errors import TimeroofError, trace_ignored
from timeroof.core.wire import Span, fields, integers, signed, text
from timeroof.live.tensorflow.graph import Graph, Node

# Field numbers of the messages.
_META_PARTITION, _META_FUNCTION, _FUNCTION_PARTITION = 3, 4, 1
_GRAPH_NODE = 1
_NODE_NAME, _NODE_OP, _NODE_INPUT, _NODE_ATTRIBUTE = 1, 2, 3, 5
_KEY, _VALUE = 1, 2
_LIST, _TEXT, _INTEGER, _FLOAT, _FLAG, _TENSOR = 1, 2, 3, 4, 5, 8
_CONTENT, _INT32S = 4, 7
# Bytes of one integer of 32 bits.
_ONE_INT32 = 4
# Files of one process are read until they have so many bytes together.
_MOST_BYTES = 200_000_000


def graphs_in(folder: Path, process: str) -> list[Graph]:
    """The graphs that a process's recorder kept."""
    found: list[Graph] = []
    total = 0
    for path in sorted(folder.glob(f"{process}-graphs-*.pb")):
        try:
            total += path.stat().st_size
            if total <= _MOST_BYTES:
                found += run_graphs(path.read_bytes())
        except (OSError, TimeroofError):
            trace_ignored("graphs of TensorFlow were lost")
    return found


def run_graphs(data: bytes) -> list[Graph]:
    """The graphs in a `RunMetadata`, as they ran."""
    return list(_graphs(data, (0, len(data))))


def _graphs(data: bytes, span: Span) -> Iterator[Graph]:
    for number, value in fields(data, span):
        if not isinstance(value, tuple):
            continue
        if number == _META_PARTITION:
            yield graph_of(data, value)
        elif number == _META_FUNCTION:
            for inner, graph in fields(data, value):
                if inner == _FUNCTION_PARTITION and isinstance(graph, tuple):
                    yield graph_of(data, graph)


def graph_of(data: bytes, span: Span | None = None) -> Graph:
    """The nodes of a `GraphDef` by their names."""
    found: dict[str, Node] = {}
    for number, value in fields(data, span or (0, len(data))):
        if number == _GRAPH_NODE and isinstance(value, tuple):
            name, node = _node(data, value)
            found[name] = node
    return found


def _node(data: bytes, span: Span) -> tuple[str, Node]:
    name = op = ""
    inputs: list[tuple[str, int]] = []
    attributes: dict[str, object] = {}
    for number, value in fields(data, span):
        if number == _NODE_NAME:
            name = text(data, value)
        elif number == _NODE_OP:
            op = text(data, value)
        elif number == _NODE_INPUT:
            source = text(data, value)
            if not source.startswith("^"):
                # Functions name results too: "node:output:1".
                maker, slot = source.partition(":")[0], source.rpartition(":")[2]
                inputs.append((maker, int(slot) if slot.isdigit() else 0))
        elif number == _NODE_ATTRIBUTE and isinstance(value, tuple):
            attributes |= _attribute(data, value)
    return name, Node(op, tuple(inputs), attributes)


def _attribute(data: bytes, span: Span) -> dict[str, object]:
    key, found = "", None
    for number, value in fields(data, span):
        if number == _KEY:
            key = text(data, value)
        elif number == _VALUE and isinstance(value, tuple):
            found = _attribute_value(data, value)
    return {} if found is None else {key: found}


def _attribute_value(data: bytes, span: Span) -> object:
    for number, value in fields(data, span):
        if number == _TEXT:
            return text(data, value)
        if number == _INTEGER:
            return signed(value)
        if number == _FLAG:
            return bool(value)
        if number == _LIST and isinstance(value, tuple):
            return _list(data, value)
        if number == _TENSOR and isinstance(value, tuple):
            return _one_integer(data, value)
    return None


def _one_integer(data: bytes, span: Span) -> int | None:
    """A constant's value where it is one integer of 32 bits: the size of a group, say."""
    for number, value in fields(data, span):
        if number == _INT32S:
            found = integers(data, value)
            return found[0] if len(found) == 1 else None
        if number == _CONTENT and isinstance(value, tuple) and value[1] - value[0] == _ONE_INT32:
            return int.from_bytes(data[slice(*value)], "little", signed=True)
    return None


def _list(data: bytes, span: Span) -> tuple[object, ...]:
    numbers: list[object] = []
    words: list[object] = []
    for number, value in fields(data, span):
        if number == _INTEGER:
            numbers += integers(data, value)
        elif number == _TEXT:
            words.append(text(data, value))
    return tuple(numbers or words)
