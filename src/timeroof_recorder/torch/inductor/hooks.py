"""Hooks in Inductor, there from torch's import on: every kernel is kept as it is compiled."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from timeroof_recorder.process import Ignoring, after_import, wrap
from timeroof_recorder.seen import CompiledKernel, ExternCall, GraphSeen
from timeroof_recorder.torch.inductor import kernels

if TYPE_CHECKING:
    from torch._inductor.codegen.common import KernelArgs
    from torch._inductor.graph import GraphLowering
    from torch._inductor.scheduler import BaseSchedulerNode, ExternKernelSchedulerNode


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
            self.kernels.append(kernels.captured(name, nodes, args, V.graph))
            self._open.kernels[name] = len(self.kernels) - 1

    def _called(
        self, original: Callable[..., object], scheduled: ExternKernelSchedulerNode, *args: object
    ) -> object:
        with Ignoring("an op of compiled code is not known"):
            node: Any = scheduled.node
            op = kernels.op_name(getattr(node, "op_overload", None)) or _extern_name(node)
            if op is not None:
                origin = node.get_origin_node()
                origins = [origin] if origin is not None else list(node.get_origins())
                module, line = kernels.module_of_nodes(origins), kernels.line_of_nodes(origins)
                self._open.externs.append(ExternCall(op, module, line))
        return original(scheduled, *args)

    def _made(
        self, original: Callable[..., ModuleType], lowering: GraphLowering, *args: object
    ) -> ModuleType:
        self._open = CompiledGraph()
        code = original(lowering, *args)
        self._open.code, self._open.cache_key = code, getattr(lowering, "cache_key", None)
        self._open.phase = kernels.phase_of(lowering, any(e.module for e in self._open.externs))
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
