"""Shapes that an ExecutionTrace of the same run lends to a Kineto trace.

Ops are matched by their record function id where the Kineto trace has one. Older traces
do not: then the sequence of op names that the ExecutionTrace has on a thread is looked for
among the ops of the trace's threads, and every place where it occurs takes its shapes.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from timeroof.read.opening import Input, short_name
from timeroof.read.torch.codes import Ints
from timeroof.read.torch.execution_trace_nodes import Node, document, looks_like_nodes, nodes_of
from timeroof.read.torch.trace import OP, Trace

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
