"""One compiled kernel: its work and the buffers it touches, taken from Inductor's scheduler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from timeroof.live.torch.inductor.bodies import loop_ops
from timeroof.live.torch.inductor.origins import (
    described_node,
    fused_ops,
    is_view,
    line_of_nodes,
    module_of_nodes,
)
from timeroof.live.torch.recording import CompiledKernel, KernelArgument, LoopOp


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
