"""What a kernel of Inductor computes: the operations of its loops, and how often each runs.

An op of the program may be an origin of several kernels and run in only one of them; loops
say what really runs. Operations bear the names of the ops that do the same to a tensor.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from timeroof.live.torch.recording import LoopOp

# Moving, masking and index arithmetic: no operation on numbers.
_NOTHING = {
    "load", "store", "store_reduction", "constant", "to_dtype", "to_dtype_bitcast", "index_expr",
    "value_expr", "identity", "indirect_indexing", "check_bounds", "load_seed", "output",
    "placeholder", "device_assert_async", "masked", "partial_accumulate", "where", "get_index",
}  # fmt: skip
_OTHER_NAMES = {
    "truediv": "div", "div_rn": "div", "int_truediv": "div", "truncdiv": "div", "floordiv": "div",
    "mod": "remainder", "mul_rn": "mul", "and_": "bitwise_and", "or_": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
    "trunc_to_int": "trunc", "ceil_to_int": "ceil", "floor_to_int": "floor",
    "round_to_int": "round", "rand": "rand_like", "rand_eager": "rand_like",
    "randn": "randn_like", "randint64": "randint_like", "scan": "cumsum",
}  # fmt: skip
# Several operations in one.
_COMPOUND = {"fma": ("mul", "add"), "dot": ("mul", "sum")}
_REDUCTIONS = {
    "max": ("amax",), "min": ("amin",), "welford_reduce": ("var_mean",),
    "welford_combine": ("var_mean",), "dot": ("mul", "sum"), "xor_sum": ("bitwise_xor",),
    "online_softmax_reduce": ("amax", "sub", "exp", "sum"),
}  # fmt: skip
_TO_BOOL = {
    "eq", "ne", "lt", "gt", "le", "ge", "isnan", "isinf", "signbit", "logical_not", "logical_and",
}  # fmt: skip


def loop_ops(node: Any, elements: int) -> Counter[LoopOp]:
    """The operations of a scheduled node's loops, each with how many elements it runs on."""
    body = getattr(node, "_body", None)
    found: Counter[LoopOp] = Counter()
    if body is None:
        return found
    formats: dict[str, Any] = {}
    for name, block in getattr(body, "subblocks", {}).items():
        formats[name] = _walk(block.graph, formats, elements, found)
    _walk(body.root_block.graph, formats, elements, found)
    return found


def _walk(graph: Any, outer: dict[str, Any], elements: int, found: Counter[LoopOp]) -> Any:
    """Tally a block's operations; the number format of what it returns."""
    formats: dict[Any, Any] = {}
    result = None
    for node in graph.nodes:
        target = str(node.target)
        if node.op == "output":
            result = _widest([formats.get(a) for a in _flat(node.args)])
        elif node.op == "call_module":
            formats[node] = outer.get(target)
        elif node.op == "call_method":
            formats[node] = _format(node, target, formats)
            _tally(node, target, formats, elements, found)
    return result


def _tally(
    node: Any, target: str, formats: dict[Any, Any], elements: int, found: Counter[LoopOp]
) -> None:
    if target in _NOTHING:
        return
    operands = [formats[a] for a in _flat(node.args) if formats.get(a) is not None]
    dtype = _widest(operands) or formats[node]
    if target == "reduction":
        kind = str(node.args[3])
        names = _REDUCTIONS.get(kind, (kind,))
        dtype = node.args[2]
    else:
        names = _COMPOUND.get(target, (_OTHER_NAMES.get(target, target),))
    for name in names:
        found[LoopOp(f"aten::{name}", str(dtype), max(1, len(operands)))] += elements


def _format(node: Any, target: str, formats: dict[Any, Any]) -> Any:
    """The number format of an operation's result."""
    import torch
    from torch._inductor.virtualized import V

    if target == "load":
        return V.graph.get_dtype(node.args[1])
    if target in _TO_BOOL:
        return torch.bool
    if target == "reduction":
        return node.args[1]
    stated = [a for a in (*node.args, *node.kwargs.values()) if isinstance(a, torch.dtype)]
    if stated:
        return stated[0]
    return _widest([formats.get(a) for a in _flat(node.args)])


def _widest(formats: list[Any]) -> Any:
    import torch

    known = [f for f in formats if isinstance(f, torch.dtype)]
    result = known[0] if known else None
    for other in known[1:]:
        result = torch.promote_types(result, other)  # type: ignore[arg-type]
    return result


def _flat(values: Any) -> list[Any]:
    if isinstance(values, list | tuple):
        return [leaf for value in values for leaf in _flat(value)]
    return [values]
