"""Compiled code in the described step: its kernels' tensors, its allocations, its graphs.

Generated code calls kernels by global names of its module. For the described step alone
those names are other functions, which first tell torch's execution trace what they are given.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from types import FrameType
from typing import Any

from timeroof.live.torch.inductor.hooks import CompiledGraph
from timeroof.live.torch.lines import SOURCE, libraries, program_line

SPACE = "timeroof_marks"
KERNEL, MADE = f"{SPACE}::kernel", f"{SPACE}::made"
GRAPH = "timeroof#graph#"
_ALLOCATES = "empty_strided_"


class CompiledCalls:
    """Changes the global names of generated modules, and changes them back."""

    def __init__(self, graphs: list[CompiledGraph]) -> None:
        self._graphs = graphs
        self._back: list[Callable[[], None]] = []

    def attach(self) -> None:
        """Have calls tell what they are given, from here on."""
        if not self._graphs:
            return
        marks = _marks()
        for graph in self._graphs:
            names = getattr(graph.code, "__dict__", {})
            for name, number in graph.kernels.items():
                self._replace(names, name, partial(_telling, marks, number))
            for name in [n for n in names if n.startswith(_ALLOCATES)]:
                self._replace(names, name, partial(_allocating, marks))
        self._annotate_graphs()

    def detach(self) -> None:
        """Put everything back."""
        while self._back:
            self._back.pop()()

    def _replace(self, names: dict[str, Any], name: str, make: Callable[[Any], Any]) -> None:
        original = names.get(name)
        if original is not None:
            names[name] = make(original)
            self._back.append(lambda: names.__setitem__(name, original))

    def _annotate_graphs(self) -> None:
        from torch.autograd.profiler import record_function

        module: Any = sys.modules.get("torch._inductor.output_code")
        owner = getattr(module, "CompiledFxGraph", None)
        if owner is None:
            return
        original = owner.__call__
        places = {g.cache_key: i for i, g in enumerate(self._graphs)}

        def call(graph: Any, *args: Any, **kwargs: Any) -> Any:
            place = places.get(getattr(graph, "cache_key", None))
            if place is None:
                return original(graph, *args, **kwargs)
            line = self._calling_line(place, sys._getframe(1))
            with ExitStack() as around:
                if line is not None:
                    around.enter_context(record_function(SOURCE + line))
                around.enter_context(record_function(f"{GRAPH}{place}"))
                return original(graph, *args, **kwargs)

        owner.__call__ = call
        self._back.append(lambda: setattr(owner, "__call__", original))

    def _calling_line(self, place: int, frame: FrameType | None) -> str | None:
        """The program's line that calls a graph: all that is known of torch's own modules.

        A backward graph is called by `backward()`, which made none of its ops.
        """
        if self._graphs[place].phase == "backward":
            return None
        return program_line(frame, libraries())


def _telling(marks: Any, number: int, kernel: Any) -> Any:
    import torch

    def tell(args: tuple[Any, ...]) -> None:
        marks.kernel([a for a in args if isinstance(a, torch.Tensor)], number)

    if hasattr(kernel, "run"):  # Triton
        return _TellingLauncher(kernel, tell)

    def call(*args: Any, **kwargs: Any) -> Any:
        tell(args)
        return kernel(*args, **kwargs)

    return call


class _TellingLauncher:
    """A Triton kernel's launcher that tells what it is given."""

    def __init__(self, launcher: Any, tell: Callable[[tuple[Any, ...]], None]) -> None:
        self._launcher, self._tell = launcher, tell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._launcher, name)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Tell and launch."""
        self._tell(args)
        return self._launcher.run(*args, **kwargs)


def _allocating(marks: Any, allocate: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        made = allocate(*args, **kwargs)
        marks.made([made])
        return made

    return call


_LIBRARY: list[Any] = []


def _marks() -> Any:
    """Ops that do nothing: an execution trace keeps the tensors that they are given."""
    import torch

    if not _LIBRARY:
        make: Any = torch.library.Library
        library = make(SPACE, "DEF")
        library.define("kernel(Tensor[] tensors, int number) -> ()")
        library.define("made(Tensor[] tensors) -> ()")
        library.impl("kernel", lambda tensors, number: None, "CompositeExplicitAutograd")
        library.impl("made", lambda tensors: None, "CompositeExplicitAutograd")
        _LIBRARY.append(library)
    return torch.ops.timeroof_marks
