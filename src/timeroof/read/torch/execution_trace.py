"""PyTorch ExecutionTraces, which lend shapes to Kineto traces, and Chakra's converted graphs.

Files are read with this, and what a live run describes. Torch writes names and texts unescaped,
and numbers that JSON does not have. Every node begins with a line of its number, its name and its
parent, and has one line each for inputs, outputs and attributes: so names can be told from what
surrounds them, and a node whose tensors cannot be read still has its place among the others.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import polars as pl

from timeroof.core.errors import InputError, Note
from timeroof.core.profile import Profile
from timeroof.read.formats import ReadOptions, source_of
from timeroof.read.idle import Ints
from timeroof.read.open import Entry, Input, short_name

if TYPE_CHECKING:
    from timeroof.read.torch.tables import Trace

_US = 1e-6
_TEXT = "A converted Chakra graph, maybe of a simulator: without timestamps idle time is unknown."
CONVERTED = Note(_TEXT, "no-timestamps")
# Chakra's NodeType of sends, receives and collectives.
COLLECTIVES = (5, 6, 7)
COMMUNICATES = re.compile(r"nccl|rccl", re.IGNORECASE)


def sniff(found: Input) -> bool:
    """A list of nodes with a schema, or a workload graph."""
    head = found.only.head.lstrip(b"\xef\xbb\xbf \r\n\t")
    return head[:1] == b"{" and (looks_like_nodes(head) or looks_like_graph(head))


def read(found: Input, options: ReadOptions) -> Profile:
    """The kernels of a converted graph; an ExecutionTrace alone is refused with a reason."""
    whole = document(found.only)
    graph = whole.get("workload_graph")
    if isinstance(graph, list):
        return _graph_profile(graph, found)
    what = f"is an ExecutionTrace (schema {whole.get('schema')}) and has no durations"
    advice = "read it together with the Kineto trace of the same run, to which it lends shapes"
    raise InputError(what, found.name, advice)


def _graph_profile(graph: list[object], found: Input) -> Profile:
    rows: dict[tuple[str, str], list[float]] = {}
    for node in graph:
        if (ran := _graph_node(node)) is not None:
            row = rows.setdefault(ran[0], [0.0, 0.0])
            row[0] += 1
            row[1] += ran[1]
    if not rows:
        what = "is a workload graph without a device node that has a runtime"
        raise InputError(what, found.name, "convert it again with the Kineto trace of the same run")
    cells = [(*row, calls, us * _US, "measured") for row, (calls, us) in rows.items()]
    names = ["kind", "name", "calls", "time_s", "origin.time"]
    table = pl.DataFrame(cells, schema=names, orient="row")
    return Profile.of(table, source_of("Chakra", found), notes=(CONVERTED,))


def _graph_node(node: object) -> tuple[tuple[str, str], float] | None:
    """Kind, name and microseconds of a node that ran on a device."""
    if not isinstance(node, dict) or node.get("is_cpu_op") is not False:
        return None
    name, runtime = node.get("Name"), node.get("runtime")
    if not isinstance(name, str) or isinstance(runtime, bool):
        return None
    if not isinstance(runtime, int | float) or not 0 <= runtime < math.inf:
        return None
    talks = node.get("NodeType") in COLLECTIVES or COMMUNICATES.search(name)
    return ("collective" if talks else "kernel", name), float(runtime)


# Shapes that an ExecutionTrace of the same run lends to a Kineto trace.
# Ops are matched by their record function id where the Kineto trace has one. Older traces
# do not: then the sequence of op names that the ExecutionTrace has on a thread is looked for
# among the ops of the trace's threads, and every place where it occurs takes its shapes.


class Call(NamedTuple):
    """One op of an ExecutionTrace: what it was called with, as Kineto would write it."""

    name: str
    record_id: int
    thread: int
    # JSON texts of dims, types, strides and values, as in a Kineto trace's arguments.
    signature: tuple[bytes, bytes, bytes, bytes]


def _calls(nodes: list[Node]) -> list[Call]:
    """The nodes that have a record function id, in its order."""
    calls = []
    for node in nodes:
        record_id, thread = node.attributes.get("rf_id"), node.attributes.get("tid")
        if isinstance(record_id, int):
            place = thread if isinstance(thread, int) else 0
            calls.append(Call(node.name, record_id, place, _signature(node.inputs)))
    return sorted(calls, key=lambda call: call.record_id)


def _signature(inputs: Side) -> tuple[bytes, bytes, bytes, bytes]:
    """The four texts of a call; without inputs all are empty, as for an op without a record."""
    values, shapes, types, strides = inputs
    if not types:
        return b"", b"", b"", b""
    one_by_one = []
    for place, kind in enumerate(types):
        shape = shapes[place] if place < len(shapes) else []
        value = values[place] if place < len(values) else None
        one_by_one.append(_argument(str(kind), shape, value))
    dims, kinds, texts = (msgspec.json.encode(column) for column in zip(*one_by_one, strict=True))
    return dims, kinds, msgspec.json.encode(strides) if strides else b"", texts


def _argument(kind: str, shape: Any, value: Any) -> tuple[Any, str, str]:
    """Dims, type and value of one argument, in Kineto's words.

    >>> _argument("Tensor(float)", [2, 3], [5, 6, 0, 6, 4, "cuda:0"])
    ([2, 3], 'float', '')
    >>> _argument("GenericList[Int,Int]", [[], []], [1, 2])
    ([], 'ScalarList', '[1, 2]')
    """
    tensor = TENSOR.match(kind)
    if tensor:
        return shape, tensor[1], ""
    if kind.startswith("GenericList[Tensor"):
        return shape, "TensorList", ""
    if kind.startswith("GenericList"):
        return [], "ScalarList", str(value)
    if kind in ("Int", "Double", "Bool", "Scalar"):
        return [], "Scalar", str(value)
    return [], "", "" if value in (None, "<None>") else str(value)


# A shorter sequence may be found where it does not belong.
_MIN_OPS = 3


def lend_shapes(trace: Trace, companions: tuple[Input, ...]) -> list[Note]:
    """Give ops without a record the shapes of the ExecutionTrace of their process; notes."""
    notes = []
    processes = {str(p) for p, _ in trace.threads.values_in_order()}
    for found in companions:
        for entry in found.entries:
            if not looks_like_nodes(entry.head):
                continue
            whole = document(entry)
            # Several ranks' traces may be given together.
            if (pid := whole.get("pid")) is not None and str(pid) not in processes:
                continue
            lent, how = _lend(trace, _calls(nodes_of(whole)))
            name = short_name(entry.name)
            text = f"{name} has no shapes for this trace: its ops do not match."
            if lent:
                text = f"{lent} ops take shapes from {name}, matched by {how}."
            notes.append(Note(text, "lent-shapes" if lent else "no-shapes"))
    return notes


def _lend(trace: Trace, nodes: list[Call]) -> tuple[int, str]:
    ops = trace.is_op
    ids = trace.frames["record_id"][ops]
    if len(ids) and np.mean(ids > 0) > 0.5:
        return _by_id(trace, nodes), "record function id"
    return _by_order(trace, nodes), "the order of ops"


def _by_id(trace: Trace, nodes: list[Call]) -> int:
    """Give shapes by record function id, where the names agree too."""
    frames = trace.frames
    rows = np.flatnonzero(trace.is_op & (frames["record_id"] > 0))
    found = dict(zip(frames["record_id"][rows].tolist(), rows.tolist(), strict=True))
    names = trace.names.values_in_order()
    codes = frames["name"]
    pairs = [
        (row, node)
        for node in nodes
        if (row := found.get(float(node.record_id))) is not None and names[codes[row]] == node.name
    ]
    return _give(trace, [r for r, _ in pairs], [n for _, n in pairs])


def _by_order(trace: Trace, nodes: list[Call]) -> int:
    """Give shapes wherever a thread has the same sequence of ops."""
    frames, lent = trace.frames, 0
    threads: dict[int, list[Call]] = defaultdict(list)
    known = {n for n, c in trace.names.items() if c in set(frames["name"].tolist())}
    for node in nodes:
        if node.name in known:
            threads[node.thread].append(node)
    mentioned = np.array([trace.names[n] for n in {node.name for node in nodes} & known])
    for thread in range(len(trace.threads)):
        of_thread = (frames["thread"] == thread) & trace.is_op
        rows = np.flatnonzero(of_thread & np.isin(frames["name"], mentioned))
        rows = rows[np.lexsort((-frames["end"][rows], frames["start"][rows]))]
        for sequence in threads.values():
            lent += _lend_sequence(trace, rows, sequence)
    return lent


def _lend_sequence(trace: Trace, rows: Ints, nodes: list[Call]) -> int:
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


def _ops_only(trace: Trace, nodes: list[Call]) -> list[Call]:
    """Nodes that the trace has as ops and not as annotations."""
    frames = trace.frames
    ops = set(frames["name"][trace.is_op].tolist())
    return [n for n in nodes if trace.names[n.name] in ops]


def _give(trace: Trace, rows: list[int], nodes: list[Call]) -> int:
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


Json = dict[str, Any]
JsonList = list[Any]

# These files are read whole; recorded ones have tens of megabytes.
MAX_BYTES = 1 << 30
TENSOR = re.compile(r"^Tensor\((.*)\)$")
_ERRORS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_NO_NUMBER = re.compile(r"(?<=[\[ ,:])(-?inf|-?nan)(?=[\],} ])")
_HEAD = re.compile(
    r'^ *\{\n *"id": (\d+), "name": "(.*?)", "ctrl_deps": (\d+),\n', re.MULTILINE | re.DOTALL
)
_PARTS = re.compile(r'^ *"(inputs|outputs|attrs)": (.*?),?$', re.MULTILINE)
_PROCESS = re.compile(r'^ *"pid": (\d+)', re.MULTILINE)


class Side(NamedTuple):
    """What goes into an op or comes out of it: lists of equal length, where all is recorded."""

    values: JsonList = []
    shapes: JsonList = []
    types: JsonList = []
    strides: JsonList = []


class Node(NamedTuple):
    """One op: its number, its name, the op that called it, and what it was called with."""

    id: int
    name: str
    parent: int | None
    attributes: Json
    inputs: Side
    outputs: Side


def looks_like_nodes(head: bytes) -> bool:
    """Whether a file begins like an ExecutionTrace."""
    return b'"schema"' in head and b'"nodes"' in head and b'"traceEvents"' not in head


def looks_like_graph(head: bytes) -> bool:
    """Whether a file begins like a graph that Chakra's converter wrote."""
    return b'"workload_graph"' in head


def document(entry: Entry) -> Json:
    """The file as an object, or an error that says what is wrong."""
    parts, size = [], 0
    for chunk in entry.chunks():
        size += len(chunk)
        if size > MAX_BYTES:
            raise InputError(f"is larger than {MAX_BYTES} bytes", entry.name, "record fewer steps")
        parts.append(chunk)
    return decoded(b"".join(parts), entry.name)


def decoded(data: bytes, where: str = "ExecutionTrace") -> Json:
    """The object that a text holds; what torch writes and JSON does not have is mended."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        found = msgspec.json.decode(data)
    except _ERRORS as error:
        found = _mended_document(data)
        if found is None:
            raise InputError(f"is no whole JSON ({error})", where, "record it again") from error
    if not isinstance(found, dict):
        raise InputError("is no ExecutionTrace", where, "record it again")
    return found


def _mended_document(data: bytes) -> Any:
    """With null for what is no number, else the nodes one by one; None where there is none."""
    text = _NO_NUMBER.sub("null", data.decode("utf-8", "replace"))
    try:
        return msgspec.json.decode(text.encode())
    except _ERRORS:
        nodes = _mended_nodes(text)
        pid = _PROCESS.search(text)
        return {"nodes": nodes, "pid": int(pid[1]) if pid else None} if nodes else None


def _mended_nodes(text: str) -> list[Json]:
    r"""The nodes of a trace, read one by one; parts that cannot be read are left out.

    >>> _mended_nodes('{\n "id": 3, "name": "a "b"", "ctrl_deps": 1,\n "attrs": []\n }')
    [{'id': 3, 'name': 'a "b"', 'ctrl_deps': 1, 'attrs': []}]
    """
    heads = list(_HEAD.finditer(text))
    ends = [h.start() for h in heads[1:]] + [len(text)]
    return [_mended(h, text[h.end() : end]) for h, end in zip(heads, ends, strict=False)]


def _mended(head: re.Match[str], body: str) -> Json:
    node: Json = {"id": int(head[1]), "name": head[2], "ctrl_deps": int(head[3])}
    for part in _PARTS.finditer(body):
        try:
            node[part[1]] = msgspec.json.decode(part[2].encode())
        except msgspec.DecodeError:
            continue
    return node


def nodes_of(found: Json) -> list[Node]:
    """The ops of an ExecutionTrace in the order in which they began."""
    listed = found.get("nodes")
    nodes = [_node(n) for n in listed if isinstance(n, dict)] if isinstance(listed, list) else []
    return sorted((n for n in nodes if n is not None), key=lambda n: n.id)


def _node(raw: Json) -> Node | None:
    number, name = raw.get("id"), raw.get("name")
    if not isinstance(number, int) or not isinstance(name, str):
        return None
    parent = raw.get("ctrl_deps", raw.get("parent"))
    sides = (_side(raw, side) for side in ("input", "output"))
    return Node(number, name, parent if isinstance(parent, int) else None, _attributes(raw), *sides)


def _attributes(raw: Json) -> Json:
    listed = raw.get("attrs")
    if not isinstance(listed, list):
        return raw
    return {a["name"]: a.get("value") for a in listed if isinstance(a, dict) and "name" in a}


def _side(raw: Json, side: str) -> Side:
    whole = raw.get(f"{side}s")
    if isinstance(whole, dict):
        return Side(*(_list(whole.get(k)) for k in ("values", "shapes", "types", "strides")))
    rest = (_list(raw.get(f"{side}_{k}")) for k in ("shapes", "types", "strides"))
    return Side(_list(whole), *rest)


def _list(value: object) -> JsonList:
    return value if isinstance(value, list) else []
