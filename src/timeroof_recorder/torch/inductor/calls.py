"""Compiled code in the described step: its kernels' tensors, its allocations, its graphs.

Generated code calls kernels by global names of its module. For the described step alone
those names are other functions, which first tell torch's execution trace what they are given.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from timeroof_recorder.process import wrap
from timeroof_recorder.torch.inductor.hooks import CompiledGraph
from timeroof_recorder.torch.lines import libraries, program_line
from timeroof_recorder.torch.names import GRAPH, MARKS, SOURCE

if TYPE_CHECKING:
    from torch._ops import _OpNamespace

Function = Callable[..., object]
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
    library = make(MARKS, "DEF")
    library.define("kernel(Tensor[] tensors, int number) -> ()")
    library.define("made(Tensor[] tensors) -> ()")
    library.impl("kernel", lambda tensors, number: None, "CompositeExplicitAutograd")
    library.impl("made", lambda tensors: None, "CompositeExplicitAutograd")
    return library
