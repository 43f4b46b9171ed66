"""Calls from oneDNN's verbose output: a primitive, its propagation, tensors and problem.

``convolution,...,forward_training,src_f32::blocked:acdb wei_f32::... dst_f32::...,,,
mb16_ic64oc64_ih112oh55kh3sh2dh0ph0_iw112ow55kw3sw2dw0pw0`` is a convolution with sizes by
letter (dilation counts from 0); matrix products and the rest give shapes, ``16x32:32x64``.
"""

from __future__ import annotations

import re

from timeroof.work.call import Call, Tensor, Unrecorded, parse_dtype

_SIZE = re.compile(r"(mb|ic|oc|id|od|kd|sd|dd|pd|ih|oh|kh|sh|dh|ph|iw|ow|kw|sw|dw|pw|g)(\d+)")
_TENSOR = re.compile(r"\b(src|wei|dst|bia|diff_src|diff_wei|diff_dst|src0|src1)[:_]+([a-z]+\d+\w*)")
_ELTWISE = {
    "relu": "relu", "tanh": "tanh", "logistic": "sigmoid", "exp": "exp", "log": "log",
    "sqrt": "sqrt", "square": "square", "abs": "abs", "swish": "silu", "elu": "elu",
    "gelu_erf": "gelu", "gelu_tanh": "gelu", "clip": "clamp", "hardswish": "hardswish",
    "mish": "mish", "round": "round", "pow": "pow", "linear": "add",
}  # fmt: skip
_SAME_SHAPE = {
    "softmax": "aten::_softmax", "reorder": "onednn::reorder", "binary": "aten::add",
    "layer_normalization": "aten::native_layer_norm", "sum": "aten::add",
    "batch_normalization": "aten::batch_norm_elemt", "shuffle": "aten::channel_shuffle",
}  # fmt: skip


def call_from_onednn(
    primitive: str, propagation: str, tensors: str, problem: str, algorithm: str = ""
) -> Call:
    """The call behind an executed primitive; never raises.

    >>> call_from_onednn("matmul", "undef", "src_f32::b wei_f32::b dst_f32::b", "16x32:32x64").op
    'onednn::matmul'
    """
    kinds = {name: parse_dtype(kind) or kind for name, kind in _TENSOR.findall(tensors)}
    dtype = kinds.get("src") or kinds.get("diff_src") or kinds.get("src0") or ""
    sizes = {k: int(v) for k, v in _SIZE.findall(problem.replace("_", " "))}
    if primitive in ("convolution", "deconvolution"):
        return _convolution(sizes, dtype, propagation, "bia" in kinds, primitive == "deconvolution")
    if primitive == "inner_product":
        x = Tensor((sizes.get("mb", -1), _inner(sizes)), dtype)
        w = Tensor((sizes.get("oc", -1), _inner(sizes)), kinds.get("wei", dtype))
        return Call("onednn::inner_product", (x, w, None))
    shapes = [_shape(s) for s in problem.split(":")]
    if primitive == "matmul":
        return _matmul(shapes, dtype, kinds.get("wei", dtype))
    name = _SAME_SHAPE.get(primitive, f"onednn::{primitive}")
    if primitive == "eltwise":
        word = algorithm.removeprefix("eltwise_")
        name = f"aten::{_ELTWISE[word]}" if word in _ELTWISE else f"onednn::eltwise_{word}"
    operands = shapes if primitive in ("binary", "sum") else shapes[:1]
    return Call(name, tuple(_tensor(s, dtype) for s in operands))


def _inner(sizes: dict[str, int]) -> int:
    return sizes.get("ic", -1) * sizes.get("ih", 1) * sizes.get("iw", 1) * sizes.get("id", 1)


def _shape(text: str) -> tuple[int, ...] | None:
    parts = text.strip().split("x")
    return tuple(int(p) for p in parts) if all(p.isascii() and p.isdigit() for p in parts) else None


def _tensor(shape: tuple[int, ...] | None, dtype: str) -> Tensor | Unrecorded:
    return Unrecorded("malformed shape") if shape is None else Tensor(shape, dtype)


def _matmul(shapes: list[tuple[int, ...] | None], dtype: str, weight_dtype: str) -> Call:
    first = _tensor(shapes[0], dtype)
    second = _tensor(shapes[1] if len(shapes) > 1 else None, weight_dtype)
    batched = isinstance(first, Tensor) and len(first.shape) > 2
    return Call("aten::matmul" if batched else "onednn::matmul", (first, second))


def _convolution(
    sizes: dict[str, int], dtype: str, propagation: str, bias: bool, transposed: bool
) -> Call:
    axes = [a for a in "dhw" if f"i{a}" in sizes or f"k{a}" in sizes]
    groups = sizes.get("g", 1)
    channels, filters = sizes.get("ic", -1), sizes.get("oc", -1)

    def along(letter: str, absent: int, more: int = 0) -> tuple[int, ...]:
        return tuple(sizes.get(f"{letter}{a}", absent) + more for a in axes)

    x = Tensor((sizes.get("mb", -1), channels, *along("i", 1)), dtype)
    front, back = (channels, filters) if transposed else (filters, channels)
    w = Tensor((front, back // groups, *along("k", 1)), dtype)
    steps = (along("s", 1), along("p", 0), along("d", 0, 1))
    zeros = tuple(0 for _ in axes)
    tail = (*steps, transposed, zeros, groups)
    if propagation.startswith("backward"):
        grad = Tensor((sizes.get("mb", -1), filters, *along("o", 1)), dtype)
        weights = "weights" in propagation
        mask = (not weights, weights, weights and bias)
        return Call("aten::convolution_backward", (grad, x, w, None, *tail, mask))
    b = Tensor((filters,), dtype) if bias else None
    return Call("aten::convolution", (x, w, b, *tail))
