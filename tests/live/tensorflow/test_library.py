"""Nodes of a function that ran before anybody looked, from how the function was defined."""

from __future__ import annotations

from timeroof.live.tensorflow.graph import Node, NodeRun, described_graph
from timeroof.live.tensorflow.work import completed

IMAGE, FILTER, BIAS = ("float", (2, 9, 9, 3)), ("float", (3, 3, 3, 4)), ("float", (4,))
WINDOW = {"strides": (1, 2, 2, 1), "padding": "VALID", "data_format": "NHWC"}
DEFINED = {
    "net/conv": Node("Conv2D", (("x", 0), ("net/filter", 0)), WINDOW),
    "net/filter": Node("ReadVariableOp", (("v", 0),), {}),
    "net/bias": Node("BiasAdd", (("net/conv", 0), ("b", 0)), {}),
    "net/Relu": Node("Relu", (("net/bias", 0),), {}),
    "net/shapes": Node("ShapeN", (("x", 0), ("net/filter", 0)), {}),
    "net/back": Node(
        "Conv2DBackpropFilter", (("x", 0), ("net/shapes", 1), ("net/grad", 0)), WINDOW
    ),
}
CALL = "StatefulPartitionedCall/"
RUNS = [
    NodeRun(1, f"{CALL}net/Relu", "_MklNativeFusedConv2D", (IMAGE, FILTER, BIAS)),
    NodeRun(
        2, f"{CALL}net/back", "_MklNativeConv2DBackpropFilterWithBias",
        (IMAGE, ("int32", (4,)), ("float", (2, 4, 4, 4))),
    ),
]  # fmt: skip


def test_a_fused_product_gets_the_window_of_its_convolution() -> None:
    graph = completed({}, RUNS, [DEFINED])
    node = graph[f"{CALL}net/Relu"]
    assert node.attributes["strides"] == (1, 2, 2, 1)
    assert node.attributes["fused_ops"] == ("BiasAdd", "Relu")
    assert node.inputs[0] == (f"{CALL}x", 0)


def test_a_gradient_is_as_large_as_what_its_shape_was_asked_of() -> None:
    graph = completed({}, RUNS, [DEFINED])
    _, gradient = described_graph(RUNS, graph)
    assert gradient.outputs[0].shape == FILTER[1]


def test_a_node_of_another_op_is_not_taken_for_it() -> None:
    run = NodeRun(1, "net/Relu", "Tanh", (IMAGE,))
    assert completed({}, [run], [DEFINED]) == {}
