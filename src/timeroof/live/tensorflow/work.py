"""What a step of TensorFlow computed: its nodes, eager ops and XLA's instructions, described."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from timeroof.core.machine import Machine
from timeroof.live import memory
from timeroof.live.calls import Counted, count_calls
from timeroof.live.memory import Traffic, traffic_of
from timeroof.live.recording import OP_SCOPE, Described, Recording, pairs
from timeroof.live.tensorflow.graph import Graph, Node, NodeRun, described_graph
from timeroof.live.tensorflow.ops import (
    ALIASES,
    described_op,
    needs_attributes,
    plain_op,
    tensor_seen,
)
from timeroof.live.tensorflow.steps import EagerOp, GraphOp, TensorflowStep
from timeroof.live.xla import work as xla
from timeroof.live.xla.steps import Kernel, kernels_in_order
from timeroof.work.cost import unknown
from timeroof.work.hlo.names import module_of, phase_of

NO_GRAPH = "its graph was made before anybody looked: sizes of windows and the like are unknown"
NOT_DESCRIBED = "no step was described in which this op ran"
_GRADIENTS = re.compile(r"(?:^|/)(?:gradient_tape|gradients(?:_\d+)?)/")
_UPDATES = re.compile(r"^(?:Resource)?(?:Sparse)?Apply[A-Z]")


# Eager ops as their recorder heard of them.


def eager_described(ops: Sequence[Any]) -> list[Described]:
    """Described ops; a result that is an operand under another name lies where that lies."""
    storage: dict[int, int] = {}
    found = []
    for op, inputs, outputs, attributes, phase, module, source in ops:
        if plain_op(op) in ALIASES and inputs and outputs and inputs[0] and outputs[0]:
            storage[outputs[0][2]] = storage.get(inputs[0][2], inputs[0][2])
        tensors = [
            [None if t is None else tensor_seen(t[0], t[1], storage.get(t[2], t[2])) for t in group]
            for group in (inputs, outputs)
        ]
        one = described_op(op, tensors[0], tensors[1], attributes)
        # A gradient says which op's it is, not which layer's.
        where = module if phase == "forward" else None
        found.append(replace(one, phase=phase, module=where, source=source))
    return found


# Steps.


def settle(recording: Recording) -> None:
    """Describe what ran in the timed steps, in the order of a typical one."""
    steps = [s for s in (*recording.timed, recording.block) if isinstance(s, TensorflowStep)]
    if not steps:
        return
    eager = [op for op in recording.described if not isinstance(op, xla.Executed)]
    for step in steps:
        if not eager and step.eager:
            eager = eager_described(step.eager)
    by_count = sorted(steps, key=lambda step: len(step.kernels))
    typical = by_count[len(by_count) // 2]
    trains = recording.kind.startswith("training")
    table = _Table(eager, trains)
    order = [typical, *(s for s in steps if s is not typical)]
    placed = {id(step): table.add(step) for step in order}
    recording.described = table.ops
    recording.timed = [_placed(step, placed.get(id(step))) for step in recording.timed]
    if recording.block is not None:
        recording.block = _placed(recording.block, placed.get(id(recording.block)))


def _placed(step: Any, described: Any) -> Any:
    return step if described is None else replace(step, described=described)


class _Table:
    """Described ops of all steps: those of the first in its order, then what only others ran."""

    def __init__(self, eager: list[Described], trains: bool) -> None:
        self.ops: list[Described] = []
        self._eager, self._trains = eager, trains
        self._places: dict[tuple[object, ...], int] = {}

    def add(self, step: TensorflowStep) -> object:
        """Put the events of a step in their places."""
        described = np.full(len(step), -1, np.int64)
        ordered = list(kernels_in_order(step))
        nodes = [place for place, kernel in ordered if isinstance(kernel.op, GraphOp)]
        runs = step.runs(nodes)
        graph = completed(_graph_of(step, nodes), runs, step.graphs)
        is_first = not self.ops
        listed = is_first or any(step.kernels[n].key not in self._places for n in nodes)
        found = described_graph(runs, graph) if listed else []
        of_node = dict(zip(nodes, found, strict=False))
        of_eager = self._matched(ordered)
        for place, kernel in ordered:
            key: tuple[object, ...] = kernel.key
            if isinstance(kernel.op, EagerOp):
                key = ("eager", kernel.op.op, of_eager.get(place))
            if is_first or key not in self._places:
                self._places.setdefault(key, len(self.ops))
                self.ops.append(self._described(kernel, of_node.get(place), graph, key))
            described[place] = self._places[key]
        return described

    def _matched(self, ordered: Sequence[tuple[int, Kernel]]) -> dict[int, int]:
        """Places of eager ops among those that were described: the same names in the same order."""
        own = [(place, kernel.name) for place, kernel in ordered if isinstance(kernel.op, EagerOp)]
        theirs = [(i, op.name) for i, op in enumerate(self._eager)]
        both = pairs([name for _, name in own], [name for _, name in theirs])
        return {own[mine][0]: theirs[other][0] for mine, other in both}

    def _described(
        self, kernel: Kernel, found: Described | None, graph: Graph, key: tuple[object, ...]
    ) -> Described:
        if isinstance(kernel.op, GraphOp) and found is not None:
            return _of_node(kernel, kernel.op, found, graph, trains=self._trains)
        if isinstance(kernel.op, EagerOp):
            heard = self._eager[key[2]] if isinstance(key[2], int) else None
            plain = heard or Described(
                name=kernel.name, parent=None, thread=0, sequence=-1, scope=OP_SCOPE, schema="",
                inputs=(), outputs=(),
            )  # fmt: skip
            return _executed(plain, kernel, None if heard is not None else NOT_DESCRIBED)
        made = xla.executed(kernel, "tensorflow", self._trains)
        # Name scopes tell gradients and updates: what has another scope, or is a product without
        # any, is the forward pass.
        is_product = bool(xla.cost_of(kernel).contraction_flops)
        is_forward = made.phase is None and (made.module is not None or is_product)
        return replace(made, phase="forward") if is_forward else made


class NodeExecuted(xla.Executed):
    """An execution of an op of TensorFlow's own; `why` says why nothing is known of it."""

    why: str | None = None


def _executed(op: Described, kernel: Kernel, why: str | None) -> NodeExecuted:
    own = {f.name: getattr(op, f.name) for f in fields(Described)}
    made = NodeExecuted(**own, kernel_of=kernel)
    object.__setattr__(made, "why", why)
    return made


def _of_node(
    kernel: Kernel, run: GraphOp, found: Described, graph: Graph, *, trains: bool
) -> Described:
    lacks = needs_attributes(run.op) and not is_known(run.node, run.op, graph)
    name = run.node
    named = replace(found, module=module_of(name), phase=_phase(run, trains=trains))
    return _executed(named, kernel, NO_GRAPH if lacks else None)


def _phase(run: GraphOp, *, trains: bool) -> str:
    if run.is_data:
        return "data"
    if _GRADIENTS.search(run.node):
        return "backward"
    if _UPDATES.match(run.op):
        return "optimizer"
    told = phase_of(run.node)
    # Counters and metrics are set beside the passes.
    is_set = trains and plain_op(run.op).startswith("Assign")
    return told or ("other" if is_set else "forward")


def _graph_of(step: TensorflowStep, nodes: Sequence[int]) -> Graph:
    """The nodes of all graphs, those of the graph that ran most of a step's before others."""
    names = {op.node for n in nodes if isinstance(op := step.kernels[n].op, GraphOp)}
    shared = [(len(names & graph.keys()), graph) for graph in step.graphs]
    merged: dict[str, Any] = {}
    for _, graph in sorted((each for each in shared if each[0]), key=lambda each: each[0]):
        merged |= graph
    return merged


# Amounts.


def count(ops: Sequence[Described]) -> list[Counted]:
    """Instructions by XLA's programs, other ops by their formulas."""
    by_formula = count_calls(ops)
    by_program = xla.count(ops)
    return [
        program if not isinstance(op, NodeExecuted)
        else formula if op.why is None or formula.cost.free
        else Counted(formula.call, unknown(op.why))
        for op, formula, program in zip(ops, by_formula, by_program, strict=True)
    ]  # fmt: skip


def traffic(
    ops: Sequence[Described], counted: Sequence[Counted], phases: Sequence[str], machine: Machine
) -> Traffic:
    """Instructions by buffer assignment, other ops by their tensors."""
    programs, results = xla.ranges_of(ops, counted)
    order = range(len(ops))
    tensors = memory.all_ranges(ops, counted, order)
    ranges = [
        tensors[place] if isinstance(op, NodeExecuted) else programs[place]
        for place, op in enumerate(ops)
    ]
    return traffic_of(ranges, order, phases, machine, results)


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
