"""One compiled kernel: its work and the buffers it touches, taken from Inductor's scheduler."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from timeroof.live.torch.contexts import libraries, shown_path
from timeroof.live.torch.recording import (
    CompiledKernel,
    Described,
    KernelArgument,
    LoopOp,
    TensorSeen,
)

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


# Where a compiled kernel comes from: the program's ops, module and line, from FX nodes.


_LINE = re.compile(r'File "([^"]+)", line (\d+)')
_ATTRIBUTE = re.compile(r"\.(\w+)|\['([^']+)'\]|\[(\d+)\]|, '([^']+)'\)")
_SKIPPED = ("_modules", "_orig_mod")


def op_name(target: Any) -> str | None:
    """``aten::add`` for ``aten.add.Tensor``; None for what is no op."""
    schema = schema_of(target)
    return str(schema.name) if schema is not None else None


def schema_of(target: Any) -> Any:
    """The schema of an op, or of the first overload where Inductor names no overload."""
    schema = getattr(target, "_schema", None)
    if schema is None and hasattr(target, "overloads"):
        schema = getattr(target, target.overloads()[0])._schema
    return schema


def fused_ops(nodes: Iterable[Any]) -> tuple[str, ...]:
    """The program's ops that are in a kernel, as the program called them, each once."""
    found: dict[str, None] = {}
    for node in nodes:
        name = op_name(node.meta.get("original_aten")) or op_name(node.target)
        if name is not None and not is_view(node.target):
            found[name] = None
    return tuple(found)


def is_view(target: Any) -> bool:
    """Whether every result is another look at an argument."""
    schema = schema_of(target)
    infos = [r.alias_info for r in schema.returns] if schema is not None else []
    return bool(infos) and all(i is not None and not i.is_write for i in infos)


def module_of_nodes(nodes: Iterable[Any]) -> str | None:
    """The innermost module that holds all of the nodes, seen from the compiled one ("")."""
    paths = [p for p in map(_module_path, nodes) if p is not None]
    if not paths:
        return None
    return ".".join(paths[0][: _shared(paths)])


def _shared(paths: list[list[str]]) -> int:
    """How many words the paths have in common at their beginning."""
    for place, words in enumerate(zip(*paths, strict=False)):
        if len(set(words)) > 1:
            return place
    return min(map(len, paths))


def _module_path(node: Any) -> list[str] | None:
    if node.op != "call_function" or is_view(node.target):
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


def line_of_nodes(nodes: Iterable[Any]) -> str | None:
    """File and line of the program that the first node came from; torch's own are not."""
    skipped = libraries()
    for node in nodes:
        found = _LINE.findall(node.meta.get("stack_trace") or "")
        lines = [(file, line) for file, line in found if not file.startswith(skipped)]
        if lines:
            return f"{shown_path(lines[-1][0])}:{lines[-1][1]}"
    return None


def described_node(node: Any) -> Described | None:
    """An FX node as a described op; None where it is no op or its shapes are not known."""
    name = op_name(node.target)
    if name is None:
        return None
    places: dict[Any, int] = {}
    arguments = [_value(a, places) for a in _by_schema(node)]
    outputs = _value(node.meta.get("val"), places)
    return Described(
        name=name, parent=None, thread=0, sequence=-1, scope=0, schema=str(schema_of(node.target)),
        inputs=tuple(arguments), outputs=outputs if isinstance(outputs, tuple) else (outputs,),
    )  # fmt: skip


def _by_schema(node: Any) -> list[Any]:
    """All arguments in the order of the schema."""
    given = list(node.args)
    for argument in schema_of(node.target).arguments[len(given) :]:
        default = argument.default_value if argument.has_default_value() else None
        given.append(node.kwargs.get(argument.name, default))
    return given


def _value(value: Any, places: dict[Any, int]) -> Any:
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


def _tensor(tensor: Any, place: int) -> TensorSeen | None:
    """A fake tensor as it would be passed; None where a size is not known yet."""
    sizes, strides = [*tensor.shape], [*tensor.stride()]
    if not all(isinstance(s, int) for s in (*sizes, *strides)):
        return None
    return TensorSeen(
        tuple(sizes), str(tensor.dtype), tuple(strides), place, 0, tensor.element_size(),
        str(tensor.device),
    )  # fmt: skip


def captured(name: str, nodes: Iterable[Any], args: Any, graph: Any) -> CompiledKernel:
    """What is known of a kernel when its code is written."""
    scheduled = [n for part in nodes for n in _single(part)]
    origins = [o for n in scheduled for o in _origins(n)]
    work: Counter[LoopOp] = Counter()
    for node in scheduled:
        work += loop_ops(node, _elements(node))
    symbolic = any(_is_symbolic(n) for n in scheduled)
    return CompiledKernel(
        name=event_name(name, graph),
        ops=fused_ops(origins),
        work=tuple(sorted(work.items())),
        products=tuple(p for n in scheduled for p in _products(n)),
        arguments=tuple(_arguments(args, scheduled, graph)),
        module=module_of_nodes(origins),
        source=line_of_nodes(origins),
        phase=phase_of(graph, any(o.meta.get("nn_module_stack") for o in origins)),
        symbolic=symbolic,
    )


def event_name(name: str, graph: Any) -> str:
    """What the profiler calls a kernel: C++ ones bear their graph's number."""
    number = getattr(graph, "graph_id", None)
    return f"graph_{number}_{name}" if number is not None and name.startswith("cpp") else name


def phase_of(graph: Any, in_modules: bool) -> str | None:
    """What a graph is for; one without gradients and modules may be anything."""
    if getattr(graph, "is_backward", False):
        return "backward"
    return "forward" if in_modules or not getattr(graph, "is_inference", True) else None


def _single(part: Any) -> list[Any]:
    """The scheduled nodes in a schedule's entry, which may be a fused one or a mere marker."""
    if not hasattr(part, "read_writes"):
        return []
    return list(part.get_nodes())


def _origins(node: Any) -> list[Any]:
    made = getattr(node, "node", None)
    return list(made.get_origins()) if made is not None else []


def _products(node: Any) -> list[Any]:
    """A template's node (a matrix product) has no loops: the op that it stands for."""
    if getattr(node, "_body", None) is not None or not node.is_template():
        return []
    stands_for = [o for o in _origins(node) if o.op == "call_function" and not is_view(o.target)]
    return [found for o in stands_for if (found := described_node(o)) is not None]


def _hint(expression: Any) -> int:
    from torch._inductor.virtualized import V

    return int(V.graph.sizevars.optimization_hint(expression, fallback=0))


def _product(values: Iterable[Any]) -> int:
    total = 1
    for value in values:
        total *= _hint(value)
    return total


def _elements(node: Any) -> int:
    if getattr(node, "_body", None) is None:
        return 0
    return _product(size for group in node.get_ranges() for size in group)


def _is_symbolic(node: Any) -> bool:
    if getattr(node, "_body", None) is None:
        return False
    return any(getattr(s, "free_symbols", None) for group in node.get_ranges() for s in group)


def _arguments(args: Any, nodes: list[Any], graph: Any) -> list[KernelArgument]:
    """The kernel's tensors in the order of its call, each with the bytes read and written."""
    real = graph.scheduler.mutation_real_name
    made = {d.name for n in nodes for d in n.read_writes.writes}
    reads, writes = Counter[str](), Counter[str]()
    deps = {d for n in nodes for d in n.read_writes.reads if d.name not in made}
    for dep in deps:
        reads[real.get(dep.name, dep.name)] += _touched(dep, graph)
    for dep in {d for n in nodes for d in n.read_writes.writes}:
        writes[real.get(dep.name, dep.name)] += _touched(dep, graph)
    found = []
    for names, can_read, can_write in _slots(args):
        size = _size_bytes(names[-1], graph)
        found.append(
            KernelArgument(
                read_bytes=min(size, max(reads[n] for n in names)) if can_read else 0,
                written_bytes=min(size, max(writes[n] for n in names)) if can_write else 0,
                size_bytes=size,
            )
        )
    return found


def _slots(args: Any) -> list[tuple[list[str], bool, bool]]:
    """Buffers of every tensor argument in order, and whether the kernel may read and write it."""
    inplace = args.inplace_buffers
    shared = {id(b): b for b in inplace.values() if hasattr(b, "other_names")}
    slots = [(list(b.other_names), True, True) for b in shared.values()]
    slots += [([n], True, False) for n in args.input_buffers if n not in inplace]
    slots += [
        ([n], False, True) for n, inner in args.output_buffers.items()
        if n not in inplace and isinstance(inner, str)
    ]  # fmt: skip
    return slots


def _touched(dep: Any, graph: Any) -> int:
    """Bytes that an access touches at most: the loops in its index, or the whole buffer."""
    ranges = getattr(dep, "ranges", None)
    item = _item_bytes(dep.name, graph)
    if ranges is None:  # an access of unknown place
        return _size_bytes(dep.name, graph)
    used = dep.index.free_symbols
    chosen = ranges.values() if dep.is_indirect() else [s for v, s in ranges.items() if v in used]
    return _product(chosen) * item


def _item_bytes(name: str, graph: Any) -> int:
    try:
        return int(graph.get_dtype(name).itemsize)
    except (KeyError, AttributeError):  # buffers without data
        return 0


def _size_bytes(name: str, graph: Any) -> int:
    try:
        return _hint(graph.get_numel(name)) * _item_bytes(name, graph)
    except (KeyError, AttributeError):
        return 0
