"""How torch's records are read: execution traces, marks of compiled code, oneDNN's primitives.

Ops without a formula are asked of torch, which runs them on the meta device; the overload is chosen
by schema: the first whose arguments fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from timeroof.core.errors import trace_ignored
from timeroof.live import recording
from timeroof.live.calls import Counted, count_calls
from timeroof.live.frameworks import Context, Framework
from timeroof.live.recording import (
    USER_SCOPE,
    CompiledKernel,
    Described,
    GraphSeen,
    Recording,
    TensorSeen,
    pairs,
)
from timeroof.live.torch.describing import contexts, described_from_json, with_contents
from timeroof.live.torch.primitive_rows import split_primitives
from timeroof.work import Tensor
from timeroof.work.call import Unrecorded
from timeroof_recorder.seen import restored
from timeroof_recorder.torch import (
    ENGINE,
    GRAPH,
    KERNEL,
    MADE,
    MODULE,
    SOURCE,
    is_compiled,
    is_glue,
)
from timeroof_recorder.torch.beside import is_view

if TYPE_CHECKING:
    import polars as pl
    import torch

    from timeroof.core.machine import Machine
    from timeroof.live.rows import Rows


def count_ops(ops: Sequence[Described], compiled: Sequence[CompiledKernel] = ()) -> list[Counted]:
    """Every op's own cost, by formula or from what torch says of it."""
    return count_calls(ops, compiled, derive, _surrounds)


def _surrounds(op: Described) -> bool:
    return op.name.startswith(ENGINE) or is_glue(op.name, op.sequence)


_TORCH_NAMES = {
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
}  # fmt: skip


@dataclass
class MetaResult:
    """Results of an op (shape, format, strides), and what its schema says of its nature."""

    outputs: Sequence[tuple[Sequence[int], str, Sequence[int] | None]]
    pointwise: bool
    moves_nothing: bool
    # It calls other ops and has no kernel of its own.
    composite: bool = False


def derive(op: str, inputs: Sequence[object], kwargs: dict[str, object]) -> MetaResult | None:
    """Run an op on the meta device; None where torch does not know it or refuses."""
    try:
        import torch
    except ImportError:
        return None
    space, _, name = op.partition("::")
    packet = getattr(getattr(torch.ops, space, None), name.split(".", 1)[0], None) if name else None
    if packet is None:
        return None
    try:
        args = [_meta(v) for v in inputs]
        named = {k: _meta(v) for k, v in kwargs.items()}
    except (TypeError, ValueError, RuntimeError):
        return None
    for overload in packet.overloads():
        found = _attempt(getattr(packet, overload), args, named)
        if found is not None:
            return found
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    if overloads and all(_only_calls(function) for function in overloads):
        return MetaResult([], pointwise=False, moves_nothing=False, composite=True)
    return None


def _only_calls(function: torch._ops.OpOverload) -> bool:
    """Whether torch has this op only as a function of other ops, on every device."""
    import torch

    schema = function._schema
    name = ".".join(filter(None, (schema.name, schema.overload_name)))
    key = "CompositeImplicitAutograd"
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))


def _attempt(
    function: torch._ops.OpOverload, args: list[object], kwargs: dict[str, object]
) -> MetaResult | None:
    import torch

    schema = function._schema
    placed, named = args[: sum(not a.kwarg_only for a in schema.arguments)], dict(kwargs)
    for argument, value in zip(schema.arguments[len(placed) :], args[len(placed) :], strict=False):
        named.setdefault(argument.name, value)
    if len(args) > len(schema.arguments):
        return None
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*placed, **named)
    except Exception:  # torch raises many kinds where arguments do not fit an overload
        trace_ignored(f"{function} does not take these arguments")
        return None
    results = recording.leaves(tuple(result) if isinstance(result, list) else result)
    tensors = [t for t in results if isinstance(t, torch.Tensor)]
    outputs = [(tuple(t.shape), str(t.dtype), tuple(t.stride())) for t in tensors]
    is_pointwise = torch.Tag.pointwise in function.tags
    return MetaResult(outputs, is_pointwise, is_view(schema), _only_calls(function))


def _meta(value: object) -> object:
    if isinstance(value, Tensor):
        return _meta_tensor(value)
    if isinstance(value, tuple | list):
        return [_meta(v) for v in value]
    if isinstance(value, Unrecorded):
        raise ValueError(f"{value} cannot be passed to torch")
    return value


def _meta_tensor(value: Tensor) -> torch.Tensor:
    import torch

    name = value.dtype.removeprefix("torch.")
    dtype = getattr(torch, _TORCH_NAMES.get(name, name))
    if value.strides and len(value.strides) == len(value.shape):
        return torch.empty_strided(value.shape, value.strides, dtype=dtype, device="meta")
    return torch.empty(value.shape, dtype=dtype, device="meta")


class Torch(Framework):
    """PyTorch."""

    name = "torch"

    def described(
        self, payload: Mapping[str, object], kernels: Sequence[CompiledKernel], folder: Path
    ) -> list[Described]:
        """The execution trace's ops, with what is known of compiled code."""
        path = Path(str(payload["file"]))
        data = (folder / path.name).read_bytes()
        if not data:
            return []
        graphs = [g for g in _list(payload.get("graphs")) if isinstance(g, GraphSeen)]
        return folded(with_contents(described_from_json(data)), list(kernels), graphs)

    def contexts(self, ops: list[Described]) -> list[Context]:
        """By annotations and by autograd's numbers."""
        return contexts(ops)

    def count(self, ops: Sequence[Described], compiled: Sequence[CompiledKernel]) -> list[Counted]:
        """By formula, or by what torch says of an op."""
        return count_ops(ops, compiled)

    def split(
        self, table: pl.DataFrame, recording: Recording, rows: Rows, units: list[str],
        machine: Machine | None,
    ) -> tuple[pl.DataFrame, list[str]]:  # fmt: skip
        """oneDNN's primitives as rows below their ops."""
        return split_primitives(table, recording, rows, units, machine)

    def is_unseen_kernel(self, name: str) -> bool:
        """A kernel of Inductor's."""
        return is_compiled(name)


def _list(value: object) -> list[object]:
    found = restored(value)
    return found if isinstance(found, list) else []


make = Torch


# What marks in a described step say of compiled code.


def folded(
    ops: list[Described], kernels: Sequence[CompiledKernel], graphs: Sequence[GraphSeen]
) -> list[Described]:
    """The same ops in the same places; marks are mere annotations afterwards."""
    if not kernels and not graphs:
        return ops
    found = list(ops)
    _name_kernels(found, kernels)
    _take_marks(found, kernels)
    _label_graphs(found, graphs, kernels)
    return found


def _name_kernels(ops: list[Described], kernels: Sequence[CompiledKernel]) -> None:
    """Kernels without a mark (C++ wrappers) by name, where only one has it."""
    places: dict[str, list[int]] = {}
    for place, kernel in enumerate(kernels):
        places.setdefault(kernel.name, []).append(place)
    for at, op in enumerate(ops):
        known = places.get(op.name, ())
        if len(known) == 1:
            ops[at] = replace(op, kernel=known[0])


def _take_marks(ops: list[Described], kernels: Sequence[CompiledKernel]) -> None:
    waiting: dict[int, tuple[list[TensorSeen], int]] = {}
    for at, op in enumerate(ops):
        if op.name == MADE:
            ops[at] = replace(op, scope=USER_SCOPE, outputs=op.inputs, inputs=())
        elif op.name == KERNEL:
            tensors, number = op.inputs[:2]
            if isinstance(number, int):
                waiting[op.thread] = (recording.tensors_in(tensors), number)
            ops[at] = replace(op, scope=USER_SCOPE, inputs=(), outputs=())
        elif op.thread in waiting and is_compiled(op.name):  # templates have names of their own
            tensors, number = waiting.pop(op.thread)
            ops[at] = _with_tensors(op, kernels[number], number, tensors)


def _with_tensors(
    op: Described, kernel: CompiledKernel, number: int, tensors: list[TensorSeen]
) -> Described:
    if len(tensors) != len(kernel.arguments):
        return replace(op, kernel=number)
    both = list(zip(tensors, kernel.arguments, strict=True))
    read = tuple(t for t, a in both if a.read_bytes)
    written = tuple(t for t, a in both if a.written_bytes)
    return replace(op, kernel=number, inputs=read, outputs=written)


def _label_graphs(
    ops: list[Described], graphs: Sequence[GraphSeen], kernels: Sequence[CompiledKernel]
) -> None:
    heads, lines = _around(ops, MODULE), _around(ops, SOURCE)
    below: dict[int, list[int]] = {}
    for at, op in enumerate(ops):
        if op.parent is not None and ops[op.parent].name.startswith(GRAPH):
            below.setdefault(op.parent, []).append(at)
    head = _common([h for h in (heads[g] for g in below) if h])
    # Backward graphs have no line around them: that of the call that made them, if there is one.
    caller = _common([line for line in (lines[g] for g in below) if line])
    for graph_at, places in below.items():
        graph = graphs[int(ops[graph_at].name.removeprefix(GRAPH))]
        externs = [p for p in places if ops[p].kernel is None]
        matched = pairs([ops[p].name for p in externs], [e.op for e in graph.externs])
        labels = {externs[a]: graph.externs[b] for a, b in matched}
        for place in places:
            number = ops[place].kernel
            known = kernels[number] if number is not None else labels.get(place)
            line = lines[graph_at] or (caller if graph.phase == "backward" else None)
            ops[place] = replace(ops[place], phase=graph.phase, source=line)
            if known is not None:
                module = _joined(heads[graph_at] or head, known.module)
                ops[place] = replace(ops[place], module=module, source=known.source or line)


def _around(ops: Sequence[Described], kind: str) -> list[str | None]:
    """What the innermost annotation of a kind (a module's, a line's) around each op says."""
    found: list[str | None] = []
    for at, op in enumerate(ops):
        above = found[op.parent] if op.parent is not None and op.parent < at else None
        named = op.name.removeprefix(kind) if op.name.startswith(kind) else None
        found.append(named or above)
    return found


def _common(heads: Sequence[str]) -> str | None:
    """The compiled module's name, where there is but one: backward graphs have none around."""
    different = set(heads)
    return different.pop() if len(different) == 1 else None


def _joined(head: str | None, path: str | None) -> str | None:
    """The path of a module below the compiled one.

    >>> _joined("model._orig_mod", "layers.0"), _joined("model", None), _joined(None, "fc")
    ('model.layers.0', None, 'fc')
    """
    if path is None:
        return None
    start = (head or "").removesuffix("._orig_mod")
    return ".".join(p for p in (start, path) if p) or None
