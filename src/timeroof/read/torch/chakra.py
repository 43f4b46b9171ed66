"""Chakra execution traces in protobuf (`.et`): metadata, then one message per node.

Every message stands behind its length. Nodes have microseconds of their own, the node that
launched them among their dependencies, and attributes; kernels say `is_cpu_op` false.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.core.wire import BrokenMessageError, Span, fields, integers, read_varint, signed, text
from timeroof.read.formats import ReadOptions, source_of
from timeroof.read.open import Input
from timeroof.read.torch.execution_trace import COLLECTIVES, COMMUNICATES, CONVERTED

_US = 1e-6
# Field numbers of a node and of an attribute in Chakra's et_def.proto.
_ID, _NAME, _TYPE, _CONTROL, _DURATION, _ATTRIBUTE, _LAST_FIELD = 1, 2, 3, 4, 7, 10, 11
_INT64, _BOOL = 9, 27
_COPY = re.compile(r"(?i)^(memcpy|memset)")


class Node(NamedTuple):
    """One node: where it ran, for how long, and the node that it depends on first."""

    id: int
    name: str
    type: int
    parent: int | None
    duration_us: int
    on_device: bool
    stream: int | None


def sniff(found: Input) -> bool:
    """Metadata with a version, then a node with a name."""
    head = found.only.head
    spans = _messages(head, len(head))
    try:
        about, first = next(spans), next(spans)
        known = all(number in (1, 2) for number, _ in fields(head, about))
        numbers = dict(fields(head, first))
    except (StopIteration, BrokenMessageError):
        return False
    named = text(head, numbers.get(_NAME, 0))
    return known and bool(named) and named.isprintable() and max(numbers) <= _LAST_FIELD


def read(found: Input, options: ReadOptions) -> Profile:
    """The kernels of a trace, by name, op and stream."""
    data = found.only.read()
    spans = _messages(data, len(data))
    next(spans, None)
    nodes = [_node(data, span) for span in spans]
    names = {node.id: node.name for node in nodes if not node.on_device}
    rows: dict[tuple[str, str, str | None, str | None], list[float]] = {}
    for node in nodes:
        if node.on_device and node.duration_us:
            op = names.get(node.parent) if node.parent is not None else None
            stream = None if node.stream is None else str(node.stream)
            row = rows.setdefault((_kind(node), node.name, op, stream), [0.0, 0.0])
            row[0] += 1
            row[1] += node.duration_us * _US
    if not rows:
        what = "is a Chakra trace without a device node that has a duration"
        raise InputError(what, found.name, "link it with the Kineto trace of the same run first")
    cells = [(*row, calls, time_s, "measured") for row, (calls, time_s) in rows.items()]
    schema = ["kind", "name", "op", "stream", "calls", "time_s", "origin.time"]
    table = pl.DataFrame(cells, schema=schema, orient="row", infer_schema_length=None)
    return Profile.of(table, source_of("Chakra", found), notes=(CONVERTED,))


def _messages(data: bytes, end: int) -> Iterator[Span]:
    at = 0
    while at < end:
        size, at = read_varint(data, at, end)
        if size > end - at:
            raise BrokenMessageError(at)
        yield at, at + size
        at += size


def _node(data: bytes, span: Span) -> Node:
    name, numbers, parent = "", {_ID: 0, _TYPE: 0, _DURATION: 0}, None
    attributes: dict[str, int] = {}
    for number, value in fields(data, span):
        if number == _NAME:
            name = text(data, value)
        elif number == _CONTROL and parent is None:
            parent = next(iter(integers(data, value)), None)
        elif number in numbers and not isinstance(value, tuple):
            numbers[number] = value
        elif number == _ATTRIBUTE and isinstance(value, tuple):
            attributes |= _attribute(data, value)
    on_device = attributes.get("is_cpu_op") == 0
    stream = attributes.get("stream")
    return Node(numbers[_ID], name, numbers[_TYPE], parent, numbers[_DURATION], on_device, stream)


def _attribute(data: bytes, span: Span) -> dict[str, int]:
    """An attribute's name and number; other values are not needed."""
    parts = dict(fields(data, span))
    value = parts.get(_INT64, parts.get(_BOOL))
    return {} if value is None else {text(data, parts.get(1, 0)): signed(value)}


def _kind(node: Node) -> str:
    if node.type in COLLECTIVES or COMMUNICATES.search(node.name):
        return "collective"
    copied = _COPY.match(node.name)
    return {"memcpy": "copy", "memset": "memset"}[copied[1].lower()] if copied else "kernel"
