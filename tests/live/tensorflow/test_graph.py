"""Executed nodes of a TensorFlow graph become described ops: makers, loops, sizes, attributes."""

from __future__ import annotations

from timeroof.live.calls import count_calls
from timeroof.live.recording import tensors_in
from timeroof.live.tensorflow.graph import Graph, Node, NodeRun, described_graph, parse_shapes
from timeroof.live.tensorflow.ops import described_op, plain_op, tensor_seen


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
