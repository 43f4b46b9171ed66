"""A PyTorch ExecutionTrace's nodes, in its two layouts; also Chakra's converted graphs.

Files are read with this, and what a live run describes: so it needs nothing that would weigh on
the program that runs. Torch writes names and texts unescaped, and numbers that JSON does not
have. Every node begins with a line of its number, its name and its parent, and has one line each
for inputs, outputs and attributes: so names can be told from what surrounds them, and a node
whose tensors cannot be read still has its place among the others.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from timeroof.core.errors import InputError
from timeroof.read.open import Entry

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
            raise InputError(f"is larger than {MAX_BYTES} bytes", where=entry.name)
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
            raise InputError(f"is no whole JSON ({error})", where=where) from error
    if not isinstance(found, dict):
        raise InputError("is no ExecutionTrace", where=where)
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
