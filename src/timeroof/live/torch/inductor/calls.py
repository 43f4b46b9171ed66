"""Compiled code in the described step: its kernels' tensors, its allocations, its graphs.

Generated code calls kernels by global names of its module. For the described step alone
those names are other functions, which first tell torch's execution trace what they are given.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from timeroof.live.torch import recording
from timeroof.live.torch.alignment import pairs
from timeroof.live.torch.compiling import is_compiled
from timeroof.live.torch.contexts import MODULE, SOURCE, libraries, program_line
from timeroof.live.torch.inductor.hooks import CompiledGraph
from timeroof.live.torch.process import wrap
from timeroof.live.torch.recording import USER_SCOPE, CompiledKernel, Described, TensorSeen

if TYPE_CHECKING:
    from torch._ops import _OpNamespace

Function = Callable[..., object]
SPACE = "timeroof_marks"
KERNEL, MADE = f"{SPACE}::kernel", f"{SPACE}::made"
GRAPH = "timeroof#graph#"
_ALLOCATES = "empty_strided_"


class CompiledCalls:
    """Changes the global names of generated modules, and changes them back."""

    def __init__(self, graphs: list[CompiledGraph]) -> None:
        self._graphs = graphs
        self._back: list[Callable[[], object]] = []

    def attach(self) -> None:
        """Have calls tell what they are given, from here on."""
        if not self._graphs:
            return
        import torch

        _library()
        marks = torch.ops.timeroof_marks
        for graph in self._graphs:
            names: dict[str, object] = getattr(graph.code, "__dict__", {})
            for name, number in graph.kernels.items():
                self._replace(names, name, partial(_telling, marks, number))
            for name in [n for n in names if n.startswith(_ALLOCATES)]:
                self._replace(names, name, partial(_allocating, marks))
        self._annotate_graphs()

    def detach(self) -> None:
        """Put everything back."""
        while self._back:
            self._back.pop()()

    def _replace(
        self, names: dict[str, object], name: str, make: Callable[[Function], Function]
    ) -> None:
        original = names.get(name)
        # A launcher of Triton is no function; a GPU's kernels are known by their names.
        if callable(original) and not hasattr(original, "run"):
            names[name] = make(original)
            self._back.append(partial(names.__setitem__, name, original))

    def _annotate_graphs(self) -> None:
        from torch.autograd.profiler import record_function

        owner = getattr(sys.modules.get("torch._inductor.output_code"), "CompiledFxGraph", None)
        places = {g.cache_key: i for i, g in enumerate(self._graphs)}

        def call(original: Function, graph: object, *args: object, **kwargs: object) -> object:
            place = places.get(getattr(graph, "cache_key", None))
            if place is None:
                return original(graph, *args, **kwargs)
            line = self._calling_line(place, sys._getframe(1))
            with ExitStack() as around:
                if line is not None:
                    around.enter_context(record_function(SOURCE + line))
                around.enter_context(record_function(f"{GRAPH}{place}"))
                return original(graph, *args, **kwargs)

        if owner is not None:
            self._back.append(wrap(owner, "__call__", call))

    def _calling_line(self, place: int, frame: FrameType | None) -> str | None:
        """The program's line that calls a graph: all that is known of torch's own modules. A
        backward graph is called by `backward()`, which made none of its ops."""
        if self._graphs[place].phase == "backward":
            return None
        return program_line(frame, libraries())


def _telling(marks: _OpNamespace, number: int, kernel: Function) -> Function:
    import torch

    def call(*args: object, **kwargs: object) -> object:
        marks.kernel([a for a in args if isinstance(a, torch.Tensor)], number)
        return kernel(*args, **kwargs)

    return call


def _allocating(marks: _OpNamespace, allocate: Function) -> Function:
    def call(*args: object, **kwargs: object) -> object:
        made = allocate(*args, **kwargs)
        marks.made([made])
        return made

    return call


@cache
def _library() -> Any:
    """Ops that do nothing: an execution trace keeps the tensors that they are given."""
    import torch

    make: Any = torch.library.Library
    library = make(SPACE, "DEF")
    library.define("kernel(Tensor[] tensors, int number) -> ()")
    library.define("made(Tensor[] tensors) -> ()")
    library.impl("kernel", lambda tensors, number: None, "CompositeExplicitAutograd")
    library.impl("made", lambda tensors: None, "CompositeExplicitAutograd")
    return library


# What marks in a described step say, put where it belongs: on kernels and on ops of graphs.


def folded(
    ops: list[Described], kernels: Sequence[CompiledKernel], graphs: Sequence[CompiledGraph]
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
    ops: list[Described], graphs: Sequence[CompiledGraph], kernels: Sequence[CompiledKernel]
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
