"""An executed op of TensorFlow as a described one, whose arguments are those of its formula.

TensorFlow keeps sizes of windows, transpositions and formats in attributes; the formulas of
`timeroof.work.families.tensorflow` take them after the tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from timeroof.live.recording import OP_SCOPE, Described, TensorSeen
from timeroof.work.call import FORMATS, parse_dtype
from timeroof.work.families.tensorflow import COLLECTIVES

Attributes = Mapping[str, object]
Tensors = Sequence[TensorSeen | None]

# What oneDNN's and Grappler's rewriting puts around an op's own name.
_HEADS = ("_MklNative", "_Mkl", "_ITEX")
WITH_BIAS = "WithBias"
GROUP_SIZE = "group_size"
# Which input of a collective is its group's size, where that is none of its attributes.
GROUP_INPUT = {
    **dict.fromkeys(("CollectiveReduceV2", "CollectiveGatherV2", "CollectiveBcastSendV2"), 1),
    **dict.fromkeys(("CollectiveReduceScatterV2", "CollectiveAllToAllV2"), 1),
    "CollectiveBcastRecvV2": 0,
}
# Ops whose result is their first operand, under another name or shape.
ALIASES = frozenset({
    "Identity", "Enter", "Exit", "NextIteration", "LoopCond", "Reshape", "ExpandDims", "Squeeze",
    "StopGradient", "ReadVariableOp", "_Retval", "_DeviceRetval", "PreventGradient", "EnsureShape",
    "IdentityN", "RefEnter",
})  # fmt: skip


# Of lists of tensors these take over what one side has; elements that no side has set are not
# there, so nothing is computed.
_LISTS = frozenset({"AddN", "ZerosLike"})


def plain_op(op: str) -> str:
    """The op that computes the same, without what a rewriting put around its name.

    >>> plain_op("_MklNativeFusedConv2D"), plain_op("_MklMatMul"), plain_op("_FusedMatMul")
    ('_FusedConv2D', 'MatMul', '_FusedMatMul')
    >>> plain_op("_MklNativeConv2DBackpropFilterWithBias"), plain_op("MatMul")
    ('Conv2DBackpropFilter', 'MatMul')
    """
    for head in _HEADS:
        if op.startswith(head):
            rest = op.removeprefix(head).removesuffix(WITH_BIAS)
            return f"_{rest}" if rest.startswith("Fused") else rest
    return op


def tensor_seen(shape: Sequence[int], dtype: str, storage: int) -> TensorSeen | None:
    """A dense array; None where its format is none that is counted (resources, variants, text)."""
    name = parse_dtype(dtype)
    if name is None:
        return None
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    width = max(FORMATS[name].bits // 8, 1)
    return TensorSeen(tuple(shape), name, tuple(reversed(strides)), storage, 0, width, "cpu")


def described_op(op: str, inputs: Tensors, outputs: Tensors, attributes: Attributes) -> Described:
    """One executed op."""
    name = plain_op(op)
    if name in _LISTS and not any(inputs):
        name = "TensorListSetItem"
    told = {**attributes, WITH_BIAS: op.endswith(WITH_BIAS)}
    arranged = _ARRANGED.get(name, _as_given)(list(inputs), list(outputs), told)
    return Described(
        name=f"tf::{name}", parent=None, thread=0, sequence=-1, scope=OP_SCOPE, schema="",
        inputs=tuple(arranged), outputs=tuple(t for t in outputs if t is not None),
    )  # fmt: skip


Arrange = Callable[[list[TensorSeen | None], list[TensorSeen | None], Attributes], list[object]]


def _as_given(
    inputs: list[TensorSeen | None], outputs: list[TensorSeen | None], attributes: Attributes
) -> list[object]:
    return [t for t in inputs if t is not None]


def _window(attributes: Attributes) -> list[object]:
    return [
        _numbers(attributes.get("strides")),
        attributes.get("padding", "VALID"),
        attributes.get("data_format", "NHWC"),
        _numbers(attributes.get("dilations")),
    ]


def _numbers(value: object) -> tuple[int, ...] | None:
    return tuple(int(v) for v in value) if isinstance(value, list | tuple) and value else None


def _fused(attributes: Attributes) -> tuple[str, ...]:
    names = attributes.get("fused_ops", ())
    return tuple(str(n) for n in names) if isinstance(names, list | tuple) else ()


def _conv(
    inputs: list[TensorSeen | None], outputs: list[TensorSeen | None], attributes: Attributes
) -> list[object]:
    return [*inputs[:2], *_window(attributes), _fused(attributes)]


def _conv_input(
    inputs: list[TensorSeen | None], outputs: list[TensorSeen | None], attributes: Attributes
) -> list[object]:
    """The input's size is the size of the result."""
    return [_size(outputs), *inputs[1:3], *_window(attributes)]


def _conv_filter(
    inputs: list[TensorSeen | None], outputs: list[TensorSeen | None], attributes: Attributes
) -> list[object]:
    """The filter's size is the size of the result."""
    bias = bool(attributes.get(WITH_BIAS))
    return [inputs[0], _size(outputs), *inputs[2:3], *_window(attributes), bias]


def _size(outputs: list[TensorSeen | None]) -> tuple[int, ...] | None:
    return outputs[0].shape if outputs and outputs[0] is not None else None


def _product(
    inputs: list[TensorSeen | None], outputs: list[TensorSeen | None], attributes: Attributes
) -> list[object]:
    turned = [bool(attributes.get(a, attributes.get(b))) for a, b in _TURNED]
    return [*inputs[:2], *turned, _fused(attributes)]


_TURNED = (("transpose_a", "adj_x"), ("transpose_b", "adj_y"))


def _einsum(
    inputs: list[TensorSeen | None], outputs: list[TensorSeen | None], attributes: Attributes
) -> list[object]:
    return [tuple(inputs), attributes.get("equation", "")]


def _composed(
    inputs: list[TensorSeen | None], outputs: list[TensorSeen | None], attributes: Attributes
) -> list[object]:
    names = attributes.get("op_names", ())
    return [inputs[0] if inputs else None, names if isinstance(names, tuple) else ()]


def _exchanged(
    inputs: list[TensorSeen | None], outputs: list[TensorSeen | None], attributes: Attributes
) -> list[object]:
    """The message, and how many send one: replicas, devices or workers."""
    message = next((t for t in (*inputs[:1], *outputs) if t is not None), None)
    told = [attributes.get(name) for name in (GROUP_SIZE, "num_devices")]
    return [message, next((n for n in told if isinstance(n, int)), None)]


def _pool(
    inputs: list[TensorSeen | None], outputs: list[TensorSeen | None], attributes: Attributes
) -> list[object]:
    return [inputs[0], _numbers(attributes.get("ksize"))]


_ARRANGED: dict[str, Arrange] = {
    **dict.fromkeys(("MatMul", "_FusedMatMul"), _product),
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _product),
    **dict.fromkeys(("Conv2D", "_FusedConv2D", "DepthwiseConv2dNative"), _conv),
    "_FusedDepthwiseConv2dNative": _conv,
    **dict.fromkeys(("Conv2DBackpropInput", "DepthwiseConv2dNativeBackpropInput"), _conv_input),
    **dict.fromkeys(("Conv2DBackpropFilter", "DepthwiseConv2dNativeBackpropFilter"), _conv_filter),
    **dict.fromkeys(("Einsum", "XlaEinsum"), _einsum),
    **dict.fromkeys(("MaxPool", "AvgPool"), _pool),
    "_UnaryOpsComposition": _composed,
    **dict.fromkeys(COLLECTIVES, _exchanged),
}


def needs_attributes(op: str) -> bool:
    """Whether what an op does cannot be told from its tensors alone."""
    name = plain_op(op)
    return name in _ARRANGED and name not in COLLECTIVES


def is_exchange(op: str) -> bool:
    """Whether devices or workers send one another something in an op.

    >>> is_exchange("tf::CollectiveReduceV2"), is_exchange("tf::GatherV2")
    (True, False)
    """
    return op.removeprefix("tf::") in COLLECTIVES
