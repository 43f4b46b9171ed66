"""The nodes of a PyTorch ExecutionTrace, in its two layouts, and Chakra's converted graphs."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, NamedTuple

import msgspec
import numpy as np

from timeroof.core.errors import InputError
from timeroof.read.idle import Ints
from timeroof.read.open import Entry, Input, short_name
from timeroof.read.torch.tables import OP, Trace

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


# Shapes that an ExecutionTrace of the same run lends to a Kineto trace.
#
# Ops are matched by their record function id where the Kineto trace has one. Older traces
# do not: then the sequence of op names that the ExecutionTrace has on a thread is looked for
# among the ops of the trace's threads, and every place where it occurs takes its shapes.


# A shorter sequence may be found where it does not belong.
_MIN_OPS = 3


def lend_shapes(trace: Trace, companions: tuple[Input, ...]) -> list[str]:
    """Give ops without a record the shapes of the ExecutionTrace of their process; notes."""
    notes = []
    for found in companions:
        for entry in found.entries:
            if not looks_like_nodes(entry.head):
                continue
            whole = document(entry)
            if not _same_process(trace, whole.get("pid")):
                continue
            lent, how = _lend(trace, nodes_of(whole))
            name = short_name(entry.name)
            if lent:
                notes.append(f"{lent} ops take shapes from {name}, matched by {how}")
            else:
                notes.append(f"{name} has no shapes for this trace: its ops do not match")
    return notes


def _same_process(trace: Trace, pid: object) -> bool:
    """Whether a process is one of the trace; several ranks' traces may be given together."""
    processes = {str(p) for p, _ in trace.threads.values_in_order()}
    return pid is None or str(pid) in processes


def _lend(trace: Trace, nodes: list[Node]) -> tuple[int, str]:
    ops = trace.frames["kind"] == OP
    ids = trace.frames["record_id"][ops]
    if len(ids) and np.mean(ids > 0) > 0.5:
        return _by_id(trace, nodes), "record function id"
    return _by_order(trace, nodes), "the order of ops"


def _by_id(trace: Trace, nodes: list[Node]) -> int:
    """Give shapes by record function id, where the names agree too."""
    frames = trace.frames
    rows = np.flatnonzero((frames["kind"] == OP) & (frames["record_id"] > 0))
    found = dict(zip(frames["record_id"][rows].tolist(), rows.tolist(), strict=True))
    names = trace.names.values_in_order()
    codes = frames["name"]
    pairs = [
        (row, node)
        for node in nodes
        if (row := found.get(float(node.record_id))) is not None and names[codes[row]] == node.name
    ]
    return _give(trace, [r for r, _ in pairs], [n for _, n in pairs])


def _by_order(trace: Trace, nodes: list[Node]) -> int:
    """Give shapes wherever a thread has the same sequence of ops."""
    frames, lent = trace.frames, 0
    threads: dict[int, list[Node]] = defaultdict(list)
    known = {n for n, c in trace.names.items() if c in set(frames["name"].tolist())}
    for node in nodes:
        if node.name in known:
            threads[node.thread].append(node)
    mentioned = np.array([trace.names[n] for n in {node.name for node in nodes} & known])
    for thread in range(len(trace.threads)):
        of_thread = (frames["thread"] == thread) & (frames["kind"] == OP)
        rows = np.flatnonzero(of_thread & np.isin(frames["name"], mentioned))
        rows = rows[np.lexsort((-frames["end"][rows], frames["start"][rows]))]
        for sequence in threads.values():
            lent += _lend_sequence(trace, rows, sequence)
    return lent


def _lend_sequence(trace: Trace, rows: Ints, nodes: list[Node]) -> int:
    ops = _ops_only(trace, nodes)
    if len(ops) < _MIN_OPS or len(rows) < len(ops):
        return 0
    wanted = np.array([trace.names[n.name] for n in ops], np.int32).tobytes()
    text = trace.frames["name"][rows].astype(np.int32).tobytes()
    lent, place = 0, text.find(wanted)
    while place >= 0:
        if place % 4:
            place = text.find(wanted, place + 1)
            continue
        first = place // 4
        lent += _give(trace, rows[first : first + len(ops)].tolist(), ops)
        place = text.find(wanted, place + len(wanted))
    return lent


def _ops_only(trace: Trace, nodes: list[Node]) -> list[Node]:
    """Nodes that the trace has as ops and not as annotations."""
    frames = trace.frames
    ops = set(frames["name"][frames["kind"] == OP].tolist())
    return [n for n in nodes if trace.names[n.name] in ops]


def _give(trace: Trace, rows: list[int], nodes: list[Node]) -> int:
    """Set the signatures of ops that have none, or none with values; how many were set."""
    signatures = trace.signatures.values_in_order()
    column = trace.frames["signature"].copy()
    given = 0
    for row, node in zip(rows, nodes, strict=True):
        own = column[row]
        if node.signature[0] and (own < 0 or not signatures[own][3]):
            column[row] = trace.signatures[node.signature]
            given += 1
    trace.frames["signature"] = column
    return given
