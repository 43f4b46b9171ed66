"""A graph of TensorFlow as it was executed: events with their nodes → described ops.

An event bears its node's name and the shapes of its inputs; the graph says which node made each
of them. So every input gets the storage of the array that its maker wrote last, and every result
the shape under which somebody read it. Graphs come from the wire: `GraphDef`, and the
`RunMetadata` that a runtime collects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from timeroof.core.errors import TimeroofError, trace_ignored
from timeroof.core.wire import Span, fields, integers, signed, text
from timeroof.live.recording import Described, TensorSeen
from timeroof.live.tensorflow.ops import (
    ALIASES,
    GROUP_INPUT,
    GROUP_SIZE,
    described_op,
    plain_op,
    tensor_seen,
)
from timeroof.read.xla.space import Plane

_SHAPE = re.compile(r"^(\w+)\[([\d,]*)\]$")


class Node(NamedTuple):
    """A node of the graph that ran: its op, where its inputs come from, its attributes."""

    op: str
    inputs: tuple[tuple[str, int], ...]
    attributes: Mapping[str, object]


Graph = Mapping[str, Node]


class NodeRun(NamedTuple):
    """One execution of a node: when it began, and the shapes of its inputs."""

    start_ps: int
    node: str
    op: str
    shapes: tuple[tuple[str, tuple[int, ...]] | None, ...]


def node_runs(planes: Iterable[Plane]) -> list[NodeRun]:
    """The executed nodes of a trace in the order in which they began."""
    found = []
    for plane in planes:
        for line in plane.lines() if plane.name.startswith("/host:CPU") else ():
            for event in line.events():
                node, colon, op = event.full_name.rpartition(":")
                shape = event.stats.get("shape")
                if colon and op == event.name and node and not node.endswith(":"):
                    start = line.timestamp_ns * 1000 + event.offset_ps
                    found.append(NodeRun(start, node, op, parse_shapes(shape)))
    return sorted(found)


def parse_shapes(text: object) -> tuple[tuple[str, tuple[int, ...]] | None, ...]:
    """Formats and shapes of inputs as events tell them; None for what has no shape.

    >>> parse_shapes("(float[16,32];int32[];)")
    (('float', (16, 32)), ('int32', ()), None)
    """
    if not isinstance(text, str) or not text.strip("()"):
        return ()
    return tuple(_shape(part) for part in text.strip("()").split(";"))


def _shape(text: str) -> tuple[str, tuple[int, ...]] | None:
    found = _SHAPE.match(text.strip())
    if found is None:
        return None
    return found[1], tuple(int(d) for d in found[2].split(",") if d)


@dataclass
class _Made:
    """Results of nodes: which storage holds each now, since when, and what is known of it."""

    storage: dict[tuple[str, int], int] = field(default_factory=dict)
    since: dict[tuple[str, int], int] = field(default_factory=dict)
    seen: dict[int, TensorSeen] = field(default_factory=dict)
    count: int = 0

    def fresh(self) -> int:
        """A storage that nobody had before."""
        self.count += 1
        return self.count

    def of(self, source: tuple[str, int]) -> int:
        """The storage of a result; one from before where its maker left no event."""
        if source not in self.storage:
            self.storage[source] = self.fresh()
        return self.storage[source]


def described_graph(runs: Sequence[NodeRun], graph: Graph) -> list[Described]:
    """Executed nodes as described ops; nodes that the graph does not have are left as they are."""
    made = _Made()
    steps: list[tuple[NodeRun, list[int], list[int]]] = []
    for moment, run in enumerate(runs):
        node = graph.get(run.node)
        sources = node.inputs if node is not None else ()
        given = [made.of(source) for source in sources]
        given += [made.fresh() for _ in range(len(run.shapes) - len(given))]
        for storage, shape in zip(given, run.shapes, strict=False):
            tensor = None if shape is None else tensor_seen(shape[1], shape[0], storage)
            if tensor is not None:
                made.seen.setdefault(storage, tensor)
        steps.append((run, given, _results(run, given, sources, made, moment)))
    return [_described(run, given, own, graph, made) for run, given, own in steps]


def _results(
    run: NodeRun, given: list[int], sources: Sequence[tuple[str, int]], made: _Made, moment: int
) -> list[int]:
    """Where the results of a node are now: new, or those of an operand under another name."""
    op = plain_op(run.op)
    if op == "Merge" and sources:
        # Whichever came last: what enters a loop, then what its last turn made.
        latest = max(range(len(sources)), key=lambda i: made.since.get(sources[i], -1))
        kept: int | None = given[latest]
    else:
        kept = given[0] if given and (op in ALIASES or op == "Switch") else None
    own = []
    for slot in range(_MOST_RESULTS):
        made.storage[run.node, slot] = made.fresh() if kept is None else kept
        made.since[run.node, slot] = moment
        own.append(made.storage[run.node, slot])
    return own if kept is None else []


# Results beyond these are looked for by nobody that reads few.
_MOST_RESULTS = 8


def _described(
    run: NodeRun, given: list[int], own: list[int], graph: Graph, made: _Made
) -> Described:
    inputs = []
    for storage, shape in zip(given, run.shapes, strict=False):
        inputs.append(None if shape is None else tensor_seen(shape[1], shape[0], storage))
    outputs = [made.seen.get(storage) for storage in own]
    while outputs and outputs[-1] is None:
        outputs.pop()
    node = graph.get(run.node)
    if node is None:
        return described_op(run.op, inputs, outputs, {})
    if not outputs:
        outputs = _of_asked_size(run, node, graph, made)
    return described_op(run.op, inputs, outputs, {**_group(run, node, graph), **node.attributes})


def _group(run: NodeRun, node: Node, graph: Graph) -> dict[str, object]:
    """How many take part in a collective, where a constant of the graph says so."""
    place = GROUP_INPUT.get(plain_op(run.op))
    if place is None or place >= len(node.inputs):
        return {}
    maker = graph.get(node.inputs[place][0])
    return {} if maker is None else {GROUP_SIZE: maker.attributes.get("value")}


def _of_asked_size(run: NodeRun, node: Node, graph: Graph, made: _Made) -> list[TensorSeen | None]:
    """The result of a convolution's gradient, which is as large as the array whose shape it is
    given; where nobody was seen to read the result."""
    place = 1 if "BackpropFilter" in run.op else 0 if "BackpropInput" in run.op else None
    if place is None or place >= len(node.inputs):
        return []
    maker, slot = node.inputs[place]
    shapes = graph.get(maker)
    if shapes is None or shapes.op not in ("Shape", "ShapeN") or slot >= len(shapes.inputs):
        return []
    like = made.seen.get(made.of(shapes.inputs[slot]))
    return [] if like is None else [like]


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
