"""How an op's work is shared among its kernels: what each does, as far as names tell it.

An op may launch several kernels. The one that does its arithmetic has the op's work; what the
others do must not be counted as 0, and not twice. A kernel that does a nameable part (it changes
a tensor's layout, it gathers statistics) has the call of that part. What partial sums or sorts
move, nobody recorded: unknown. This is the only place that says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from timeroof.work.call import Call, Tensor, UncountableError
from timeroof.work.counting import STUMBLES
from timeroof.work.families.conv import convolution
from timeroof.work.families.copies import CHANGE_LAYOUT
from timeroof.work.families.lookups import (
    part_before_update,
    prepares_update,
    preparing,
    updates_tables,
)
from timeroof.work.names.facts import read_name
from timeroof.work.registry import find_rule, plain_name

# Kernels that write a tensor in another order and do nothing else.
_LAYOUT = re.compile(r"^transpose_|batched_transpose|nchwToNhwc|nhwcToNchw", re.IGNORECASE)
# Kernels that only prepare or finish what another kernel of their op computes.
_BESIDE = re.compile(
    rf"{_LAYOUT.pattern}|im2(?:d2)?col|SubTensorOp|splitKreduce|reduce_1Block"
    r"|epilogue::impl::globalKernel",
    re.IGNORECASE,
)
# Parts of batch normalisation that are ops of their own elsewhere, and how many of the op's
# arguments they take.
_OF_BATCH_NORM = (
    (re.compile(r"batch_norm_collect_statistics"), "aten::batch_norm_stats", 1),
    (re.compile(r"batch_norm_transform_input"), "aten::batch_norm_elemt", 3),
)
INPUT, WEIGHT = 1, 2
_GRADIENTS_OF_CONVOLUTIONS = (
    "aten::convolution_backward", "aten::convolution_backward_overrideable",
)  # fmt: skip
# An amount that is known to lie within a factor of two is known by its lower end.
_MOST_RANGE = 2.0


def is_beside(kernel: str) -> bool:
    """Whether a kernel by its name only prepares or finishes the work of its op.

    >>> is_beside("batched_transpose_16x32_half"), is_beside("ampere_sgemm_128x64_nn")
    (True, False)
    """
    return _BESIDE.search(kernel) is not None


def prepared(names: Sequence[str]) -> tuple[list[int], list[int]]:
    """Codes of ops that update tables, and of kernels that prepare what these do."""
    ops = [code for code, name in enumerate(names) if updates_tables(name)]
    kernels = enumerate(names) if ops else ()
    return ops, [code for code, name in kernels if part_before_update(name)]


def changes_layout(kernel: str) -> bool:
    """Whether a kernel by its name writes a tensor in another order."""
    return _LAYOUT.search(kernel) is not None


def computes_gradients(op: str) -> bool:
    """Whether an op computes gradients of a convolution, as its `output_mask` asks."""
    return op in _GRADIENTS_OF_CONVOLUTIONS


def gradient_of(kernel: str) -> int:
    """Which gradient of a convolution a kernel by its name computes: INPUT, WEIGHT or 0.

    >>> gradient_of("cudnn::cnn::wgrad2d_c1_k1_nhwc_kernel") == WEIGHT
    True
    """
    return {"dgrad": INPUT, "wgrad": WEIGHT}.get(read_name(kernel).pass_name or "", 0)


def part_of(call: Call, kernel: str, layouts: int = 0, gradient: int = 0) -> Call | None:
    """The call of the part that one kernel of an op does; None: the op's own work, or unknown.

    `layouts` is how many kernels of the call change layouts. Theirs is the part of all of them
    together: which tensor each one moves, its name does not say. `gradient` is the one that it
    computes, where another kernel of the call computes the other.

    >>> x, weight = Tensor((8, 64, 28, 28), "fp16"), Tensor((64, 64, 3, 3), "fp16")
    >>> sizes = ((1, 1), (1, 1), (1, 1), 1, False, False, False)
    >>> conv = Call("aten::cudnn_convolution", (x, weight, *sizes))
    >>> [t.shape for t in part_of(conv, "nchwToNhwcKernel", 3).inputs]
    [(8, 64, 28, 28), (64, 64, 3, 3), (8, 64, 28, 28)]
    >>> part_of(conv, "sm80_xmma_fprop", 3), part_of(conv, "nchwToNhwcKernel", 1)
    (None, None)
    """
    if layouts and changes_layout(kernel):
        return _changes(call, layouts)
    if prepares := prepares_update(call.op, kernel):
        return preparing(call, prepares)
    if gradient:
        return _masked(call, gradient)
    if "batch_norm" in call.op:
        for name, op, arguments in _OF_BATCH_NORM:
            if name.search(kernel):
                return Call(op, call.inputs[:arguments])
    return None


def _masked(call: Call, gradient: int) -> Call | None:
    """The call with nothing but one gradient asked for."""
    rule = find_rule(call.op)
    place = rule.parameters.index("output_mask") if rule is not None else len(call.inputs)
    if place >= len(call.inputs):
        return None
    mask = (gradient == INPUT, gradient == WEIGHT, False)
    inputs = (*call.inputs[:place], mask, *call.inputs[place + 1 :])
    return Call(call.op, inputs, call.outputs, call.kwargs)


def _changes(call: Call, layouts: int) -> Call | None:
    """The layout changes of a convolution: each of its tensors at least once."""
    try:
        tensors = [t for t in _of_convolution(call) if _has_layouts(t)]
    except (UncountableError, *STUMBLES):
        return None
    if not tensors or layouts < len(tensors):
        return None
    # Which tensor is moved once more is not known: it may be the largest.
    least = sum(t.size_bytes for t in tensors)
    more = (layouts - len(tensors)) * max(t.size_bytes for t in tensors)
    return Call(CHANGE_LAYOUT, tuple(tensors)) if least + more <= _MOST_RANGE * least else None


def _of_convolution(call: Call) -> list[Tensor]:
    """Tensors that a convolution reads and writes; its two gradients are computed apart."""
    rule = find_rule(call.op)
    if rule is None or "convolution" not in plain_name(call.op):
        return []
    given = dict(zip(rule.parameters, call.inputs, strict=False))
    x, weight, grad = given.get("x"), given.get("weight"), given.get("grad")
    if not isinstance(x, Tensor) or not isinstance(weight, Tensor):
        return []
    if isinstance(grad, Tensor):
        return [grad, weight, x, grad, x, weight]
    stride, padding, dilation, groups = (
        given.get(name) for name in ("stride", "padding", "dilation", "groups")
    )
    return [x, weight, convolution(x, weight, stride, padding, dilation, groups).out]


def _has_layouts(tensor: Tensor) -> bool:
    """Whether channels before or after places makes a difference."""
    return len(tensor.shape) > 2 and tensor.shape[1] > 1 and prod(tensor.shape[2:]) > 1
