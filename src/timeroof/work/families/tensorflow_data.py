"""TensorFlow's ops that move data, reduce it, update weights, or only keep books."""

from __future__ import annotations

from timeroof.work.call import Arg, Call, Tensor, UncountableError, integers
from timeroof.work.cost import FREE, Cost, cost
from timeroof.work.registry import formula

# Control flow, names for the same bytes, questions, and lists that hold tensors by reference.
BOOKKEEPING = (
    "Const", "Enter", "Exit", "Merge", "Switch", "NextIteration", "LoopCond", "Identity",
    "IdentityN", "NoOp", "_Arg", "_Retval", "_DeviceArg", "_DeviceRetval", "ReadVariableOp",
    "VarHandleOp", "VariableV2", "VarIsInitializedOp", "Shape", "ShapeN", "Rank", "Size", "Reshape",
    "ExpandDims", "Squeeze", "StopGradient", "PreventGradient", "EagerConst", "_EagerConst",
    "TensorListReserve", "TensorListElementShape", "TensorListLength", "TensorListGetItem",
    "TensorListSetItem", "TensorListPushBack", "TensorListPopBack", "EmptyTensorList",
    "TensorArrayV3", "TensorArrayGradV3", "TensorArraySizeV3", "TensorArrayReadV3",
    "TensorArrayWriteV3", "TensorArrayCloseV3", "BroadcastGradientArgs", "BroadcastArgs",
    "ControlTrigger", "Placeholder", "PlaceholderWithDefault", "AssignVariableOp", "StackV2",
    "StackPushV2", "StackPopV2", "RefEnter", "_HostSend", "_HostRecv", "_Send", "_Recv", "Assert",
    "DestroyResourceOp", "_SOURCE", "_SINK", "EnsureShape", "CheckNumerics", "VariableShape",
    "InvertPermutation", "ConcatOffset", "DeviceIndex", "StatefulPartitionedCall",
    "PartitionedCall", "While", "StatelessWhile", "If", "StatelessIf", "Case", "_Retval",
    "OptionalHasValue", "OptionalGetValue", "OptionalFromValue", "OptionalNone",
    "IsVariableInitialized", "StatelessRandomGetKeyCounter",
    "StatelessRandomGetAlg", "StatelessRandomGetKeyCounterAlg", "Variable", "ImmutableConst",
    "HostConst", "Snapshot",
)  # fmt: skip


@formula(*(f"tf::{name}" for name in dict.fromkeys(BOOKKEEPING)))
def keeps_books(call: Call) -> Cost:
    """Nothing is computed and no array is moved."""
    return FREE


_MOVES = (
    "Transpose", "ConjugateTranspose", "Cast", "Slice", "StridedSlice", "StridedSliceGrad", "Split",
    "SplitV", "Pack", "Unpack", "ConcatV2", "Concat", "Pad", "PadV2", "MirrorPad", "Tile",
    "BroadcastTo", "Fill", "ZerosLike", "OnesLike", "Range", "Reverse", "ReverseV2", "Roll",
    "TensorListStack", "TensorListFromTensor", "TensorListConcatV2", "TensorListGather",
    "TensorArrayScatterV3", "TensorArrayGatherV3", "TensorArrayConcatV3", "TensorArraySplitV3",
    "GatherNd", "OneHot", "Bitcast", "Copy", "_CopyFromGpuToHost", "MatrixBandPart", "DeepCopy",
    "RandomUniform", "RandomStandardNormal", "RandomUniformInt", "TruncatedNormal",
    "StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2",
    "StatelessRandomUniformIntV2", "StatelessRandomUniformFullIntV2", "StatelessRandomUniform",
    "StatelessRandomNormal", "SpaceToBatchND", "BatchToSpaceND", "SpaceToDepth", "DepthToSpace",
    "Where", "LinSpace",
)  # fmt: skip


@formula(*(f"tf::{name}" for name in _MOVES))
def moved(call: Call) -> Cost:
    """Every element of the result is written once and, but for fills, read once."""
    given = [t for t in _flat(call.inputs) if isinstance(t, Tensor)]
    made = [t for t in call.outputs or () if isinstance(t, Tensor)]
    if not made and not given:
        raise UncountableError("neither its operands nor its results were recorded")
    results = made or [max(given, key=lambda t: t.count)]
    name = call.op.split("::")[1]
    fills = name in ("Fill", "ZerosLike", "OnesLike", "Range", "LinSpace") or "Random" in name
    return cost([] if fills else results, results, origin="modelled")


def _flat(values: Arg) -> list[Arg]:
    if isinstance(values, tuple):
        return [leaf for value in values for leaf in _flat(value)]
    return [values]


@formula("tf::Sum", "tf::Mean", "tf::Max", "tf::Min", "tf::Prod", "tf::All", "tf::Any",
         "tf::ArgMax", "tf::ArgMin", "tf::Cumsum", "tf::EuclideanNorm", "tf::L2Loss",
         "tf::SegmentSum", "tf::UnsortedSegmentSum")  # fmt: skip
def reduced(call: Call, x: Tensor) -> Cost:
    """One operation per element that is read."""
    made = [t for t in call.outputs or () if isinstance(t, Tensor)]
    return cost([x], made, other=x.count, origin="counted" if made else "modelled")


@formula("tf::SparseSoftmaxCrossEntropyWithLogits", "tf::SoftmaxCrossEntropyWithLogits")
def cross_entropy(logits: Tensor, labels: Tensor) -> Cost:
    """Loss and gradient at once: softmax (5), logarithm, difference and product per logit."""
    return cost([logits, labels], [logits, Tensor(logits.shape[:1], logits.dtype)],
                other=8 * logits.count)  # fmt: skip


@formula("tf::MaxPool", "tf::MaxPoolV2", "tf::AvgPool")
def pool(call: Call, x: Tensor, ksize: Arg = None) -> Cost:
    """One operation per element of a window."""
    made = [t for t in call.outputs or () if isinstance(t, Tensor)]
    window = 1
    for size in integers(ksize, "ksize", 4):
        window *= size
    if not made:
        raise UncountableError("its result was not recorded")
    return cost([x], made, other=window * made[0].count)


@formula("tf::MaxPoolGrad", "tf::AvgPoolGrad")
def pool_gradient(call: Call) -> Cost:
    """One addition per element of the incoming gradient; a maximum is looked for again."""
    given = [t for t in _flat(call.inputs) if isinstance(t, Tensor)]
    made = [t for t in call.outputs or () if isinstance(t, Tensor)]
    return cost(given, made or given[:1], other=max(t.count for t in given), origin="modelled")


# FLOPs per weight, and how many arrays of its size are read and written.
_UPDATES = {
    "ResourceApplyGradientDescent": (2, 2, 1), "ResourceApplyMomentum": (4, 3, 2),
    "ResourceApplyKerasMomentum": (4, 3, 2), "ResourceApplyAdam": (12, 4, 3),
    "ResourceApplyAdagradV2": (5, 3, 2), "ResourceApplyRMSProp": (8, 4, 3),
    "AssignAddVariableOp": (1, 2, 1), "AssignSubVariableOp": (1, 2, 1),
}  # fmt: skip
# TensorFlow 1 has the same for its own variables.
_UPDATES |= {
    name.removeprefix("Resource").removesuffix("VariableOp"): figures
    for name, figures in _UPDATES.items()
}


@formula(*(f"tf::{name}" for name in _UPDATES))
def updated(call: Call) -> Cost:
    """A variable changed in place by a gradient as large as it is."""
    flops, reads, writes = _UPDATES[call.op.split("::")[1]]
    given = [t for t in _flat(call.inputs) if isinstance(t, Tensor)]
    if not given:
        raise UncountableError("its gradient was not recorded")
    grad = max(given, key=lambda t: t.count)
    alike = [Tensor(grad.shape, grad.dtype) for _ in range(max(reads, writes))]
    return cost(alike[:reads], alike[:writes], other=flops * grad.count, origin="modelled")


@formula("tf::GatherV2")
def gathered(call: Call, x: Tensor, index: Tensor) -> Cost:
    """The rows that the index names, read and written once."""
    made = [t for t in call.outputs or () if isinstance(t, Tensor)]
    rows = made or [Tensor((*index.shape, *x.shape[1:]), x.dtype)]
    return cost([index, *rows], rows)


@formula("tf::ResourceGather")
def gathered_of_variable(call: Call, index: Tensor) -> Cost:
    """The rows of a variable, whose size nobody records, read and written once."""
    rows = [t for t in call.outputs or () if isinstance(t, Tensor)]
    if not rows:
        raise UncountableError("its result was not recorded")
    return cost([index, *rows], rows)
