"""What a kernel of Inductor's computes, from its loops, as it is compiled."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from timeroof_recorder.seen import (
    OP_SCOPE,
    CompiledKernel,
    Described,
    KernelArgument,
    LoopOp,
    TensorSeen,
)
from timeroof_recorder.torch.beside import is_view
from timeroof_recorder.torch.calls import libraries, shown_path

if TYPE_CHECKING:
    import torch
    from sympy import Expr  # type: ignore[import-untyped]
    from torch._inductor.codegen.common import KernelArgs
    from torch._inductor.dependencies import Dep
    from torch._inductor.graph import GraphLowering
    from torch._inductor.scheduler import BaseSchedulerNode
    from torch.fx import Graph, Node


# What a kernel of Inductor computes: the operations of its loops, and how often each runs.
#
# An op of the program may be an origin of several kernels and run in only one of them; loops
# say what really runs. Operations bear the names of the ops that do the same to a tensor.


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


def loop_ops(node: BaseSchedulerNode, elements: int) -> Counter[LoopOp]:
    """The operations of a scheduled node's loops, each with how many elements it runs on."""
    body = getattr(node, "_body", None)
    found: Counter[LoopOp] = Counter()
    if body is None:
        return found
    formats: dict[object, torch.dtype | None] = {}
    for name, block in getattr(body, "subblocks", {}).items():
        formats[name] = _walk(block.graph, formats, elements, found)
    _walk(body.root_block.graph, formats, elements, found)
    return found


Formats = Mapping[object, "torch.dtype | None"]


def _walk(
    graph: Graph, outer: Formats, elements: int, found: Counter[LoopOp]
) -> torch.dtype | None:
    """Tally a block's operations; the number format of what it returns."""
    formats: dict[object, torch.dtype | None] = {}
    result = None
    for node in graph.nodes:
        target = str(node.target)
        if node.op == "output":
            result = _widest(node, formats)
        elif node.op == "call_module":
            formats[node] = outer.get(target)
        elif node.op == "call_method":
            formats[node] = _format(node, target, formats)
            for name, dtype in _operations(node, target, formats):
                operands = max(1, len(_operands(node, formats)))
                found[LoopOp(f"aten::{name}", str(dtype), operands)] += elements
    return result


def _operations(node: Node, target: str, formats: Formats) -> list[tuple[str, object]]:
    """What an operation does to numbers, by the names of ops, with its format."""
    if target in _NOTHING:
        return []
    if target == "reduction":
        kind = str(node.args[3])
        return [(name, node.args[2]) for name in _REDUCTIONS.get(kind, (kind,))]
    dtype = _widest(node, formats) or formats[node]
    return [(name, dtype) for name in _COMPOUND.get(target, (_OTHER_NAMES.get(target, target),))]


def _format(node: Node, target: str, formats: Formats) -> torch.dtype | None:
    import torch
    from torch._inductor.virtualized import V

    if target == "load":
        return V.graph.get_dtype(str(node.args[1]))
    if target in _TO_BOOL:
        return torch.bool
    stated = [a for a in (*node.args, *node.kwargs.values()) if isinstance(a, torch.dtype)]
    return stated[0] if stated else _widest(node, formats)


def _widest(node: Node, formats: Formats) -> torch.dtype | None:
    import torch

    known = _operands(node, formats)
    return functools.reduce(torch.promote_types, known) if known else None


def _operands(node: Node, formats: Formats) -> list[torch.dtype]:
    from torch.fx import Node
    from torch.utils._pytree import tree_leaves

    given = [leaf for leaf in tree_leaves(node.args) if isinstance(leaf, Node)]
    return [known for leaf in given if (known := formats.get(leaf)) is not None]


# Where a compiled kernel comes from: the program's ops, module and line, from FX nodes.


_LINE = re.compile(r'File "([^"]+)", line (\d+)')
_ATTRIBUTE = re.compile(r"\.(\w+)|\['([^']+)'\]|\[(\d+)\]|, '([^']+)'\)")
_SKIPPED = ("_modules", "_orig_mod")


def op_name(target: object) -> str | None:
    """``aten::add`` for ``aten.add.Tensor``; None for what is no op."""
    schema = schema_of(target)
    return schema.name if schema is not None else None


def schema_of(target: object) -> torch.FunctionSchema | None:
    """The schema of an op, or of the first overload where Inductor names no overload."""
    overloads = getattr(target, "overloads", None)
    if overloads is not None and not hasattr(target, "_schema"):
        target = getattr(target, overloads()[0])
    found: torch.FunctionSchema | None = getattr(target, "_schema", None)
    return found


def _only_looks(target: object) -> bool:
    schema = schema_of(target)
    return schema is not None and is_view(schema)


def fused_ops(nodes: Iterable[Node]) -> tuple[str, ...]:
    """The program's ops that are in a kernel, as the program called them, each once."""
    names = (
        op_name(node.meta.get("original_aten")) or op_name(node.target)
        for node in nodes
        if not _only_looks(node.target)
    )
    return tuple(dict.fromkeys(name for name in names if name is not None))


def module_of_nodes(nodes: Iterable[Node]) -> str | None:
    """The innermost module that holds all of the nodes, seen from the compiled one ("")."""
    paths = [p for p in map(_module_path, nodes) if p is not None]
    same = itertools.takewhile(lambda words: len(set(words)) == 1, zip(*paths, strict=False))
    return ".".join(words[0] for words in same) if paths else None


def _module_path(node: Node) -> list[str] | None:
    if node.op != "call_function" or _only_looks(node.target):
        return None
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return [] if node.meta.get("stack_trace") else None
    return path_words(str(next(reversed(stack.values()))[0]))


def path_words(text: str) -> list[str]:
    """Dynamo's name of a module as a path below the compiled one.

    >>> path_words("L['self'].layers.0._modules['fc']"), path_words("L['self']")
    (['layers', '0', 'fc'], [])
    """
    inside = re.sub(r"^L\['[^']*'\]|^[A-Za-z_]\w*", "", text)
    words = [next(w for w in match if w) for match in _ATTRIBUTE.findall(inside)]
    return [w for w in words if w not in _SKIPPED]


def line_of_nodes(nodes: Iterable[Node]) -> str | None:
    """File and line of the program that the first node came from; torch's own are not."""
    skipped = libraries()
    for node in nodes:
        found = _LINE.findall(node.meta.get("stack_trace") or "")
        lines = [(file, line) for file, line in found if not file.startswith(skipped)]
        if lines:
            return f"{shown_path(lines[-1][0])}:{lines[-1][1]}"
    return None


def described_node(node: Node) -> Described | None:
    """An FX node as a described op; None where it is no op or its shapes are not known."""
    schema = schema_of(node.target)
    if schema is None:
        return None
    given = list(node.args)
    for argument in schema.arguments[len(given) :]:
        default = argument.default_value if argument.has_default_value() else None
        given.append(node.kwargs.get(argument.name, default))
    places: dict[object, int] = {}
    outputs = _value(node.meta.get("val"), places)
    return Described(
        name=schema.name, parent=None, thread=0, sequence=-1, scope=OP_SCOPE, schema=str(schema),
        inputs=tuple(_value(a, places) for a in given),
        outputs=outputs if isinstance(outputs, tuple) else (outputs,),
    )  # fmt: skip


def _value(value: object, places: dict[object, int]) -> object:
    import torch

    if isinstance(value, torch.fx.Node):
        found = value.meta.get("val")
        if isinstance(found, torch.Tensor):
            return _tensor(found, places.setdefault(value, len(places) + 1))
        return found
    if isinstance(value, torch.Tensor):
        return _tensor(value, places.setdefault(id(value), len(places) + 1))
    if isinstance(value, list | tuple):
        return tuple(_value(v, places) for v in value)
    return str(value) if isinstance(value, torch.dtype | torch.device) else value


def _tensor(tensor: torch.Tensor, place: int) -> TensorSeen | None:
    """A fake tensor as it would be passed; None where a size is not known yet."""
    sizes, strides = tuple(tensor.shape), tuple(tensor.stride())
    if not all(isinstance(s, int) for s in (*sizes, *strides)):
        return None
    return TensorSeen(
        sizes, str(tensor.dtype), strides, place, 0, tensor.element_size(), str(tensor.device)
    )


def captured(
    name: str, nodes: Iterable[BaseSchedulerNode], args: KernelArgs, graph: GraphLowering
) -> CompiledKernel:
    """What is known of a kernel when its code is written."""
    # A schedule's entry may be a fused one, or a mere marker.
    scheduled = [n for part in nodes if hasattr(part, "read_writes") for n in part.get_nodes()]
    origins = [origin for node in scheduled for origin in _origins(node)]
    has_number = getattr(graph, "graph_id", None) is not None
    work: Counter[LoopOp] = Counter()
    for node in scheduled:
        work += loop_ops(node, _product(_sizes(node)))
    return CompiledKernel(
        # C++ kernels bear their graph's number in the profiler.
        name=f"graph_{graph.graph_id}_{name}" if name.startswith("cpp") and has_number else name,
        ops=fused_ops(origins),
        work=tuple(sorted(work.items())),
        products=tuple(p for n in scheduled for p in _products(n)),
        arguments=tuple(_arguments(args, scheduled, graph)),
        module=module_of_nodes(origins),
        source=line_of_nodes(origins),
        phase=phase_of(graph, any(o.meta.get("nn_module_stack") for o in origins)),
        symbolic=any(getattr(s, "free_symbols", None) for n in scheduled for s in _sizes(n)),
    )


def phase_of(graph: GraphLowering, in_modules: bool) -> str | None:
    """What a graph is for; one without gradients and modules may be anything."""
    if getattr(graph, "is_backward", False):
        return "backward"
    return "forward" if in_modules or not getattr(graph, "is_inference", True) else None


def _origins(node: BaseSchedulerNode) -> list[Node]:
    made = getattr(node, "node", None)
    return list(made.get_origins()) if made is not None else []


def _products(node: BaseSchedulerNode) -> list[Described]:
    """A template's node (a matrix product) has no loops: the op that it stands for."""
    if getattr(node, "_body", None) is not None or not node.is_template():
        return []
    calls = [o for o in _origins(node) if o.op == "call_function" and not _only_looks(o.target)]
    return [found for o in calls if (found := described_node(o)) is not None]


def _sizes(node: BaseSchedulerNode) -> list[Expr]:
    if getattr(node, "_body", None) is None:
        return []
    return [size for group in node.get_ranges() for size in group]  # type: ignore[attr-defined]


def _product(values: Iterable[Expr]) -> int:
    from torch._inductor.virtualized import V

    sizes = V.graph.sizevars
    return math.prod(int(sizes.optimization_hint(value, fallback=0)) for value in values)


class _Slot(NamedTuple):
    """A tensor argument: its buffers, and whether the kernel may read and write it."""

    names: list[str]
    reads: bool
    writes: bool


def _arguments(
    args: KernelArgs, nodes: list[BaseSchedulerNode], graph: GraphLowering
) -> list[KernelArgument]:
    """The kernel's tensors in the order of its call, each with the bytes read and written."""
    written = {d for n in nodes for d in n.read_writes.writes}
    made = {d.name for d in written}
    reads = _touched({d for n in nodes for d in n.read_writes.reads if d.name not in made}, graph)
    writes = _touched(written, graph)
    found = []
    for names, can_read, can_write in _slots(args):
        size = _size_bytes(names[-1], graph)
        read = min(size, max(reads[n] for n in names)) if can_read else 0
        written_bytes = min(size, max(writes[n] for n in names)) if can_write else 0
        found.append(KernelArgument(read_bytes=read, written_bytes=written_bytes, size_bytes=size))
    return found


def _slots(args: KernelArgs) -> list[_Slot]:
    inplace = args.inplace_buffers
    shared = {id(b): list(b.other_names) for b in inplace.values() if hasattr(b, "other_names")}
    slots = [_Slot(names, True, True) for names in shared.values()]
    slots += [_Slot([n], True, False) for n in args.input_buffers if n not in inplace]
    outputs = args.output_buffers.items()
    return slots + [
        _Slot([n], False, True) for n, b in outputs if n not in inplace and isinstance(b, str)
    ]


def _touched(deps: Iterable[Dep], graph: GraphLowering) -> Counter[str]:
    """Bytes that accesses touch at most: the loops in their index, or the whole buffer."""
    found: Counter[str] = Counter()
    for dep in deps:
        ranges = getattr(dep, "ranges", None)
        size = _size_bytes(dep.name, graph)
        if ranges is not None:  # its place is known
            used = ranges if dep.is_indirect() else dep.index.free_symbols  # type: ignore[attr-defined]
            loops = [size for variable, size in ranges.items() if variable in used]
            size = _product(loops) * _item_bytes(dep.name, graph)
        found[graph.scheduler.mutation_real_name.get(dep.name, dep.name)] += size
    return found


def _item_bytes(name: str, graph: GraphLowering) -> int:
    try:
        return graph.get_dtype(name).itemsize
    except (KeyError, AttributeError):  # buffers without data
        return 0


def _size_bytes(name: str, graph: GraphLowering) -> int:
    try:
        return _product([graph.get_numel(name)]) * _item_bytes(name, graph)
    except (KeyError, AttributeError):
        return 0
