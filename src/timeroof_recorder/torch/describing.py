"""The described pass: torch's execution trace (tensors, storages, results), modules' calls, and
compiled graphs, whose kernels hooks in Inductor keep as they are compiled.
"""

from __future__ import annotations

import _thread
import gc
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, partial
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from timeroof_recorder.clocks import is_running_task, threads_times
from timeroof_recorder.process import WAITS, Ignoring, QuietErrors, after_import, time, wrap
from timeroof_recorder.seen import CompiledKernel, ExternCall, GraphSeen
from timeroof_recorder.torch import GRAPH, MARKS, SOURCE, inductor
from timeroof_recorder.torch.beside import unseen
from timeroof_recorder.torch.calls import ModuleNames, SourceLines, libraries, program_line

if TYPE_CHECKING:
    from torch._inductor.codegen.common import KernelArgs
    from torch._inductor.graph import GraphLowering
    from torch._inductor.scheduler import BaseSchedulerNode, ExternKernelSchedulerNode
    from torch._ops import _OpNamespace
    from torch.nn import Module
    from torch.profiler import ExecutionTraceObserver


@dataclass
class CompiledGraph:
    """One compiled graph: its generated Python module, and what that calls."""

    code: ModuleType | None = None
    cache_key: str | None = None
    phase: str | None = None
    kernels: dict[str, int] = field(default_factory=dict)
    externs: list[ExternCall] = field(default_factory=list)

    @property
    def seen(self) -> GraphSeen:
        """What of it a record holds."""
        return GraphSeen(self.phase, tuple(self.kernels.items()), tuple(self.externs))


class Workshop:
    """Watches Inductor; nothing of it is imported before the program does so. Graphs from its cache
    would come without what is kept here: they are compiled anew. The compiler's own results (g++)
    are cached by source code, and those stay in use."""

    def __init__(self) -> None:
        self.kernels: list[CompiledKernel] = []
        self.graphs: list[CompiledGraph] = []
        self._open = CompiledGraph()
        self._back: list[Callable[[], None]] = []

    def attach(self) -> None:
        """Wait for the parts of Inductor."""
        for module in ("torch._inductor.config", "torch._functorch.config"):
            self._await(module, self._settings)
        for part, owner, method, wrapper in (
            ("codegen.cpp", "CppScheduling", "define_kernel", self._defined),
            ("codegen.triton", "TritonScheduling", "define_kernel", self._defined),
            ("scheduler", "ExternKernelSchedulerNode", "codegen", self._called),
            ("graph", "GraphLowering", "compile_to_module", self._made),
        ):
            module = f"torch._inductor.{part}"
            self._await(module, partial(self._wrap, module, owner, method, wrapper))

    def _await(self, module: str, action: Callable[[], None]) -> None:
        """An error of ours, say with another version of torch, must not reach the program."""

        def act() -> None:
            with Ignoring(f"{module} is not watched"):
                action()

        self._back.append(after_import(module, act))

    def detach(self) -> None:
        """Leave Inductor as it was."""
        while self._back:
            with Ignoring("Inductor is not quite as it was"):
                self._back.pop()()

    def _settings(self) -> None:
        config = sys.modules.get("torch._inductor.config")
        if config is not None:
            self._set(config.cpp, "enable_kernel_profile", True)
            self._set(config, "fx_graph_cache", False)
        config = sys.modules.get("torch._functorch.config")
        if config is not None:
            self._set(config, "enable_autograd_cache", False)

    def _set(self, owner: object, name: str, value: object) -> None:
        before = getattr(owner, name, value)
        if before != value:
            setattr(owner, name, value)
            self._back.append(lambda: setattr(owner, name, before))

    def _wrap(self, module: str, owner: str, name: str, wrapper: Callable[..., object]) -> None:
        self._back.append(wrap(getattr(sys.modules[module], owner), name, wrapper))

    def _defined(
        self, original: Callable[..., str], scheduling: object, source: object,
        nodes: Sequence[BaseSchedulerNode], *rest: object,
    ) -> str:  # fmt: skip
        """Both schedulings: the code, the nodes in it, and the kernel or its arguments."""
        name = original(scheduling, source, nodes, *rest)
        with Ignoring(f"the compiled kernel {name} is not known"):
            self._note(name, nodes, _arguments_of(scheduling, rest))
        return name

    def _note(self, name: str, nodes: Sequence[BaseSchedulerNode], args: KernelArgs) -> None:
        from torch._inductor.virtualized import V

        if name not in self._open.kernels:
            self.kernels.append(inductor.captured(name, nodes, args, V.graph))
            self._open.kernels[name] = len(self.kernels) - 1

    def _called(
        self, original: Callable[..., object], scheduled: ExternKernelSchedulerNode, *args: object
    ) -> object:
        with Ignoring("an op of compiled code is not known"):
            node: Any = scheduled.node
            op = inductor.op_name(getattr(node, "op_overload", None)) or _extern_name(node)
            if op is not None:
                origin = node.get_origin_node()
                origins = [origin] if origin is not None else list(node.get_origins())
                module, line = inductor.module_of_nodes(origins), inductor.line_of_nodes(origins)
                self._open.externs.append(ExternCall(op, module, line))
        return original(scheduled, *args)

    def _made(
        self, original: Callable[..., ModuleType], lowering: GraphLowering, *args: object
    ) -> ModuleType:
        self._open = CompiledGraph()
        code = original(lowering, *args)
        self._open.code, self._open.cache_key = code, getattr(lowering, "cache_key", None)
        self._open.phase = inductor.phase_of(lowering, any(e.module for e in self._open.externs))
        self.graphs.append(self._open)
        return code


def _arguments_of(scheduling: Any, rest: tuple[Any, ...]) -> KernelArgs:
    given = rest[0] if rest and rest[0] is not None else scheduling.kernel_group
    found: KernelArgs = getattr(given, "args", given)
    return found


def _extern_name(node: object) -> str | None:
    """``aten::mm`` for ``extern_kernels.mm``.

    >>> from types import SimpleNamespace
    >>> _extern_name(SimpleNamespace(python_kernel_name="extern_kernels.mm"))
    'aten::mm'
    """
    name = getattr(node, "python_kernel_name", None)
    if not isinstance(name, str) or "." not in name:
        return None
    words = name.removeprefix("torch.ops.").split(".")
    space = "aten" if words[0] in ("extern_kernels", "aten") else words[0]
    return f"{space}::{words[1]}"


# The described pass: torch's execution trace (tensors, storages, results) and modules' calls.


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


# Whoever describes at the moment: at most one in a process.
_ON: list[Describing] = []
# How long it may take until no other thread is inside a call of an observer that was switched off,
# and how much of its own time takes a thread out of any such call.
_PATIENCE_S, _LOOK_S, _OUT_NS = 0.25, 0.001, 2_000_000


class OtherThreads:
    """What the program's other threads were at when an observer was switched off.

    Torch asks the observer around every op of every thread. One that is taken away while a thread
    is inside such a call, or followed by another before an op has ended that began under it, is
    used after it was freed.
    """

    def __init__(self) -> None:
        self._ran = self._now()
        self._places = _places()

    def are_out(self) -> bool:
        """Wait until each of them has run for long enough, or none of the rest is running."""
        left_s = _PATIENCE_S
        while self._ran and left_s > 0:
            now = self._now()
            inside = [
                t for t, ran in self._ran.items() if now.get(t, _OUT_NS + ran) - ran < _OUT_NS
            ]
            if not any(is_running_task(task) for task in inside):
                break
            time.sleep(_LOOK_S)
            left_s -= _LOOK_S
        return left_s > 0

    def are_elsewhere(self) -> bool:
        """Whether each that has run since then has also returned from what it had called."""
        left_s = _PATIENCE_S
        while left_s > 0:
            now, places = self._now(), _places()
            self._places = {t: at for t, at in self._places.items() if places.get(t) == at}
            if all(now.get(task, 0) <= self._ran.get(task, 0) for task in self._places):
                return True
            time.sleep(_LOOK_S)
            left_s -= _LOOK_S
        return False

    def _now(self) -> dict[int, int]:
        me = _thread.get_native_id()
        return {task: ran for task, (ran, _) in threads_times().items() if task != me}


def _places() -> dict[int, tuple[int, int]]:
    """Where in its code each thread of Python's is, by the system's number of the thread; but for
    those that wait for others, in Python's own code for that."""
    threading = sys.modules.get("threading")
    known = dict(getattr(threading, "_active", {}))
    return {
        known[ident].native_id: (id(frame), frame.f_lasti)
        for ident, frame in sys._current_frames().items()
        if ident in known
        and ident != _thread.get_ident()
        and not frame.f_code.co_filename.endswith(WAITS)
    }


# The last observer's other threads.
_LAST: list[OtherThreads] = []


def others_are_past() -> bool:
    """Whether no other thread is still in an op that began under the last observer."""
    return all(others.are_elsewhere() for others in _LAST)


class Describing:
    """Switches torch's ExecutionTraceObserver and the modules' names on and off."""

    def __init__(
        self, graphs: list[CompiledGraph] | None = None, *, with_lines: bool = False,
        root_called: Callable[[Module], None] = lambda module: None,
    ) -> None:  # fmt: skip
        self._graphs = graphs if graphs is not None else []
        self._compiled = CompiledCalls(self._graphs)
        self._with_lines, self._lines = with_lines, SourceLines()
        self._observer: ExecutionTraceObserver | None = None
        self._modules = ModuleNames(root_called)

    def start(self, path: str, entered: Module | None = None) -> bool:
        """Begin to record into a file, perhaps inside a module's call; False where another
        observer is on."""
        from torch.profiler import ExecutionTraceObserver

        # Torch ends the program over a second observer that is started while one is on.
        if _ON:
            return False
        observer = ExecutionTraceObserver()
        observer.register_callback(path)
        if not observer._registered:
            return False
        self._observer = observer
        _ON.append(self)
        with QuietErrors():
            observer.start()
        self._modules.attach(entered)
        self._compiled.attach()
        # Compiled code would be compiled anew for the mode; it brings its lines itself.
        if self._with_lines and not self._graphs:
            self._lines.attach()
        return True

    def stop(self) -> bool:
        """End the recording; whether the file is whole. Where other threads do not leave the
        observer alone it stays, switched off, and no step is described any more."""
        self._lines.detach()
        self._compiled.detach()
        self._modules.detach()
        if self._observer is None:
            return True
        with QuietErrors():
            self._observer.stop()
            _LAST[:] = [OtherThreads()]
            if not _LAST[0].are_out():
                return False
            self._observer.unregister_callback()
        self._observer = None
        _ON.remove(self)
        return True


# Torch's execution trace cannot write some tensors down: it may then end the whole program.
_NAMES = ("sparse_csr", "sparse_csc", "sparse_bs", "sparse_compressed", "crow_indices", "ccol_")


def cannot_describe(op_names: Iterable[str], alive: Iterable[object] | None = None) -> bool:
    """Whether compressed sparse tensors are about: among the ops that ran, or alive.

    >>> cannot_describe(["aten::_sparse_csr_sum"])
    True
    """
    if any(part in name for name in op_names for part in _NAMES):
        return True
    import torch

    kinds = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
    things = tensors_and_modules() if alive is None else alive
    with unseen():
        return any(type(t) is torch.Tensor and t.layout in kinds for t in things)


def tensors_and_modules() -> list[object]:
    """Plain tensors and modules that are alive. A walk over all objects takes some 30 ms: it is
    made once for all who ask at the same time."""
    from torch import Tensor
    from torch.nn import Module

    # Not by isinstance: a proxy of the program's would be asked for its class.
    return [
        thing for thing in gc.get_objects()
        if (kind := type(thing)) is Tensor or issubclass(kind, Module)
    ]  # fmt: skip
