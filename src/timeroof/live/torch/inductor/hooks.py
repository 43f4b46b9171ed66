"""Hooks in Inductor, there from torch's import on: every kernel is kept as it is compiled."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from timeroof.live.torch.importing import after_import
from timeroof.live.torch.inductor.kernels import (
    captured,
    line_of_nodes,
    module_of_nodes,
    op_name,
    phase_of,
)
from timeroof.live.torch.recording import CompiledKernel


@dataclass(frozen=True)
class ExternCall:
    """An op that compiled code calls as it is, and where it comes from."""

    op: str
    module: str | None
    source: str | None


@dataclass
class CompiledGraph:
    """One compiled graph: its generated Python module, and what that calls."""

    code: Any = None
    cache_key: str | None = None
    phase: str | None = None
    kernels: dict[str, int] = field(default_factory=dict)
    externs: list[ExternCall] = field(default_factory=list)


class Workshop:
    """Watches Inductor; nothing of it is imported before the program does so.

    Graphs from its cache would come without what is kept here: they are compiled anew. The
    compiler's own results (g++) are cached by source code, and those stay in use.
    """

    def __init__(self) -> None:
        self.kernels: list[CompiledKernel] = []
        self.graphs: list[CompiledGraph] = []
        self._open = CompiledGraph()
        self._back: list[Callable[[], None]] = []

    def attach(self) -> None:
        """Wait for the parts of Inductor."""
        for module, action in (
            ("torch._inductor.config", self._settings),
            ("torch._functorch.config", self._settings),
            ("torch._inductor.codegen.cpp", lambda: self._kernels_of("cpp", "CppScheduling")),
            ("torch._inductor.codegen.triton", self._triton),
            ("torch._inductor.scheduler", self._externs),
            ("torch._inductor.graph", self._modules),
        ):  # fmt: skip
            self._back.append(after_import(module, _harmless(action)))

    def detach(self) -> None:
        """Leave Inductor as it was."""
        while self._back:
            with contextlib.suppress(Exception):
                self._back.pop()()

    def _settings(self) -> None:
        config: Any = sys.modules.get("torch._inductor.config")
        if config is not None:
            self._set(config.cpp, "enable_kernel_profile", True)
            self._set(config, "fx_graph_cache", False)
        config = sys.modules.get("torch._functorch.config")
        if config is not None:
            self._set(config, "enable_autograd_cache", False)

    def _set(self, owner: Any, name: str, value: object) -> None:
        before = getattr(owner, name, value)
        if before != value:
            setattr(owner, name, value)
            self._back.append(lambda: setattr(owner, name, before))

    def _wrap(self, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
        """Put a function around a method; it is called with the method and its arguments."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            return wrapper(original, *args, **kwargs)

        def back() -> None:
            # What somebody else has put in place of ours stays.
            if getattr(owner, name) is call:
                setattr(owner, name, original)

        setattr(owner, name, call)
        self._back.append(back)

    def _triton(self) -> None:
        self._kernels_of("triton", "TritonScheduling")

    def _kernels_of(self, file: str, scheduling: str) -> None:
        module = sys.modules[f"torch._inductor.codegen.{file}"]
        self._wrap(getattr(module, scheduling), "define_kernel", self._defined)

    def _defined(self, original: Any, scheduling: Any, source: Any, nodes: Any, *rest: Any) -> Any:
        """Both schedulings: the code, the nodes in it, and the kernel or its arguments."""
        name = original(scheduling, source, nodes, *rest)
        with contextlib.suppress(Exception):  # a kernel less, but the program goes on
            self._note(name, nodes, _arguments_of(scheduling, rest))
        return name

    def _note(self, name: str, nodes: Any, args: Any) -> None:
        from torch._inductor.virtualized import V

        if name not in self._open.kernels:
            self.kernels.append(captured(name, nodes, args, V.graph))
            self._open.kernels[name] = len(self.kernels) - 1

    def _externs(self) -> None:
        owner = sys.modules["torch._inductor.scheduler"].ExternKernelSchedulerNode
        self._wrap(owner, "codegen", self._called)

    def _called(self, original: Any, scheduled: Any, *args: Any) -> Any:
        with contextlib.suppress(Exception):
            node = scheduled.node
            op = op_name(getattr(node, "op_overload", None)) or _extern_name(node)
            if op is not None:
                origin = node.get_origin_node()
                origins = [origin] if origin is not None else list(node.get_origins())
                self._open.externs.append(
                    ExternCall(op, module_of_nodes(origins), line_of_nodes(origins))
                )
        return original(scheduled, *args)

    def _modules(self) -> None:
        owner = sys.modules["torch._inductor.graph"].GraphLowering
        self._wrap(owner, "compile_to_module", self._made)

    def _made(self, original: Any, lowering: Any, *args: Any) -> Any:
        self._open = CompiledGraph()
        code = original(lowering, *args)
        self._open.code, self._open.cache_key = code, getattr(lowering, "cache_key", None)
        self._open.phase = phase_of(lowering, any(e.module for e in self._open.externs))
        self.graphs.append(self._open)
        return code


def _arguments_of(scheduling: Any, rest: tuple[Any, ...]) -> Any:
    given = rest[0] if rest and rest[0] is not None else scheduling.kernel_group
    return getattr(given, "args", given)


def _extern_name(node: Any) -> str | None:
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


def _harmless(action: Callable[[], None]) -> Callable[[], None]:
    """An error of ours, say with another version of torch, must not reach the program."""

    def act() -> None:
        with contextlib.suppress(Exception):
            action()

    return act
