"""Executed nodes of a TensorFlow graph become described ops: makers, loops, sizes, attributes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from timeroof.live.calls import count_calls
from timeroof.live.recording import tensors_in
from timeroof.live.tensorflow.graph import (
    Graph,
    Node,
    NodeRun,
    described_graph,
    graph_of,
    parse_shapes,
)
from timeroof.live.tensorflow.ops import described_op, plain_op, tensor_seen
from timeroof.live.tensorflow.steps import GraphOp, exchanges
from timeroof.live.xla.steps import Kernel, Level, XlaStep


def run(moment: int, node: str, op: str, shapes: str = "") -> NodeRun:
    return NodeRun(moment, node, op, parse_shapes(shapes))


def test_shapes_of_inputs_are_read_with_gaps_for_what_has_none() -> None:
    assert parse_shapes("(float[16,32];;int32[])") == (("float", (16, 32)), None, ("int32", ()))
    assert parse_shapes("()") == parse_shapes(None) == parse_shapes("") == ()
    assert parse_shapes("(float[?,2];resource)") == (None, None)


def test_names_of_rewritten_ops_are_those_of_what_they_compute() -> None:
    assert plain_op("_MklNativeFusedMatMul") == "_FusedMatMul"
    assert plain_op("_MklTranspose") == "Transpose"
    assert plain_op("_Retval") == "_Retval"


def test_a_loop_reads_what_its_last_turn_wrote() -> None:
    graph: Graph = {
        "zero": Node("Const", (), {}),
        "w": Node("_Arg", (), {}),
        "enter": Node("Enter", (("zero", 0),), {}),
        "merge": Node("Merge", (("enter", 0), ("next", 0)), {}),
        "mul": Node("MatMul", (("merge", 0), ("w", 0)), {"transpose_b": True}),
        "next": Node("NextIteration", (("mul", 0),), {}),
        "out": Node("_Retval", (("merge", 0),), {}),
    }
    turn = [
        ("merge", "Merge", "(float[4,8];)"), ("mul", "MatMul", "(float[4,8];float[8,8])"),
        ("next", "NextIteration", "(float[4,8])"),
    ]  # fmt: skip
    nodes = [
        ("enter", "Enter", "(float[4,8])"),
        *turn,
        *turn,
        turn[0],
        ("out", "_Retval", "(float[4,8])"),
    ]
    ops = described_graph([run(i, *n) for i, n in enumerate(nodes)], graph)
    first, second = (op for op in ops if op.name == "tf::MatMul")
    out = tensors_in(ops[-1].inputs)[0]
    assert tensors_in(first.outputs)[0].storage == tensors_in(second.inputs)[0].storage
    assert tensors_in(second.outputs)[0].storage == out.storage
    assert tensors_in(first.inputs)[1].storage == tensors_in(second.inputs)[1].storage
    assert len({t.storage for op in (first, second) for t in tensors_in(op.inputs)}) == 3
    costs = [one.cost for one in count_calls(ops)]
    assert sum(cost.contraction_flops or 0 for cost in costs) == 2 * 2 * 4 * 8 * 8
    assert sum(not cost.free for cost in costs) == 2


def test_the_size_of_a_gradient_is_the_size_of_its_result() -> None:
    graph: Graph = {
        "g": Node("Conv2DBackpropInput", (("s", 0), ("w", 0), ("dy", 0)),
                  {"strides": (1, 2, 2, 1), "padding": "VALID"}),
        "out": Node("_Retval", (("g", 0),), {}),
    }  # fmt: skip
    ops = described_graph(
        [
            run(0, "g", "Conv2DBackpropInput", "(int32[4];float[3,3,4,8];float[2,5,5,8])"),
            run(1, "out", "_Retval", "(float[2,12,12,4])"),
        ],
        graph,
    )
    assert count_calls(ops)[0].cost.contraction_flops == 2 * 2 * 8 * 4 * 9 * 5 * 5


def test_a_node_without_a_graph_keeps_its_inputs() -> None:
    (op,) = described_graph([run(0, "a", "AddV2", "(float[8];float[8])")], {})
    assert count_calls([op])[0].cost.flops == 8


def test_lists_of_tensors_are_added_by_taking_over_what_is_set() -> None:
    assert described_op("AddN", [None, None], [None], {}).name == "tf::TensorListSetItem"
    one = tensor_seen((4,), "float32", 1)
    added = described_op("AddN", [one, one, one], [one], {})
    assert count_calls([added])[0].cost.flops == 8
    assert tensor_seen((4,), "variant", 1) is None


def test_a_collective_has_its_message_and_the_constant_that_says_how_many_send() -> None:
    # GraphDef on the wire: a constant "n" of one integer, 2, in its content.
    tensor = bytes([0x08, 3, 0x12, 0, 0x22, 4, 2, 0, 0, 0])
    value = bytes([0x42, len(tensor)]) + tensor
    attribute = b"\x0a\x05value" + bytes([0x12, len(value)]) + value
    node = b"\x0a\x01n" + b"\x12\x05Const" + bytes([0x2A, len(attribute)]) + attribute
    graph = graph_of(bytes([0x0A, len(node)]) + node)
    assert graph["n"].attributes["value"] == 2
    exchanged = {
        **graph,
        "sum": Node("CollectiveReduceV2", (("g", 0), ("n", 0)), {"merge_op": "Add"}),
        "all": Node("CollectiveGatherV2", (("g", 0), ("unseen", 0)), {}),
    }
    reduced, gathered = described_graph(
        [
            run(0, "sum", "CollectiveReduceV2", "(float[100];int32[])"),
            run(1, "all", "CollectiveGatherV2", "(float[100];int32[])"),
        ],
        exchanged,
    )
    known, unknown = (one.cost for one in count_calls([reduced, gathered]))
    # Half of the additions, and twice half of the message over the link.
    assert (known.flops, known.link_bytes, known.bytes) == (50, 400, 800)
    assert "group's size" in (unknown.unknown or "")


def test_of_a_collective_that_is_handed_over_the_exchange_counts() -> None:
    handed = GraphOp("sum", "CollectiveReduceV2", parse_shapes("(float[100];int32[])"))
    product = GraphOp("mul", "MatMul", parse_shapes("(float[4,8];float[8,8])"))
    events = [handed, product, handed._replace(shapes=())]
    kernels = {
        place: Kernel(f"tf::{op.op}", op=op, is_collective=op.node == "sum")
        for place, op in enumerate(events)
    }
    zeros = np.zeros(3, np.int64)
    level = np.array([Level.COLLECTIVE, Level.KERNEL, Level.COLLECTIVE], np.int64)
    step = XlaStep(
        names=(), name=zeros, start_ns=zeros, end_ns=zeros, thread=zeros, sequence=zeros,
        scope=zeros, begin_ns=0, finish_ns=1, main_thread=0, level=level, kernels=kernels,
    )  # fmt: skip
    kept, levels = exchanges(step)
    assert levels.tolist() == [Level.RUNTIME, Level.KERNEL, Level.COLLECTIVE]
    assert sorted(kept) == [1, 2]
    assert kept[2].op == handed
    alone = replace(step, kernels={0: kernels[0], 1: kernels[1]})
    assert exchanges(alone)[0] == alone.kernels
