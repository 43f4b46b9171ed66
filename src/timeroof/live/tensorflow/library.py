"""Nodes whose graph was made before anybody looked: from the functions that the program defined.

A function's nodes are those of the graph before it is optimised. They run under the names of the
calls that they were inlined from (``StatefulPartitionedCall/dense/MatMul``), and a product with
what was fused into it bears the name of the last op (``dense/Relu:_FusedMatMul``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from timeroof.live.tensorflow.graph import Graph, Node, NodeRun
from timeroof.live.tensorflow.ops import plain_op

_CALLS = re.compile(r"^((?:.*/)?(?:Stateful)?PartitionedCall(?:_\d+)?/)?(.*)$")
# How many ops are fused with a product at most.
_MOST_FUSED = 4
_THROUGH = ("Identity", "ReadVariableOp", "Cast")


def completed(graph: Graph, runs: Sequence[NodeRun], library: Sequence[Graph]) -> Graph:
    """The graph with the nodes that ran and are not in it, as far as functions have them."""
    missing = [run for run in runs if not is_known(run.node, run.op, graph)]
    if not missing:
        return graph
    names = {_split(run.node)[1] for run in missing}
    merged: dict[str, Node] = {}
    for each in sorted(library, key=lambda one: len(names & one.keys())):
        if names & each.keys():
            merged |= each
    found = dict(graph)
    for run in missing:
        calls, name = _split(run.node)
        node = _as_run(name, plain_op(run.op), merged)
        if node is not None:
            found[run.node] = _called(calls, run.op, node)
            for source, _ in node.inputs:
                # Shapes are worked out once; who asks for one still tells whose it is.
                if source in merged and merged[source].op in ("Shape", "ShapeN"):
                    found.setdefault(calls + source, _called(calls, "", merged[source]))
    return found


def _called(calls: str, op: str, node: Node) -> Node:
    """A node of a function under the names of the calls that it was inlined from."""
    inputs = tuple((calls + source, slot) for source, slot in node.inputs)
    return Node(op or node.op, inputs, node.attributes)


def is_known(node: str, op: str, graph: Graph) -> bool:
    """Whether a graph has a node as it ran."""
    return node in graph and plain_op(graph[node].op) == plain_op(op)


def _split(node: str) -> tuple[str, str]:
    """The calls that a node was inlined from, and its own name.

    >>> _split("StatefulPartitionedCall_1/net/MatMul"), _split("net/MatMul")
    (('StatefulPartitionedCall_1/', 'net/MatMul'), ('', 'net/MatMul'))
    """
    found = _CALLS.match(node)
    return (found[1] or "", found[2]) if found else ("", node)


def _as_run(name: str, op: str, library: Graph) -> Node | None:
    """A node of a function as it ran: alone, or with the ops that were fused into it."""
    node = library.get(name)
    if node is None or not op.startswith("_Fused"):
        return node if node is not None and plain_op(node.op) == op else None
    product = op.removeprefix("_Fused")
    fused: list[str] = []
    more: list[tuple[str, int]] = []
    for _ in range(_MOST_FUSED):
        if node is None or node.op == product:
            break
        if node.op not in _THROUGH:
            fused.append(node.op)
            more = [*node.inputs[1:], *more]
        node = library.get(node.inputs[0][0]) if node.inputs else None
    if node is None or node.op != product:
        return None
    names = tuple(reversed(["Add" if one == "AddV2" else one for one in fused]))
    return Node(op, (*node.inputs, *more), {**node.attributes, "fused_ops": names})
