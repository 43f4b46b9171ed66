"""Module paths of ops: hooks that open an annotation around every module's forward call."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from timeroof.live.torch.annotations import Annotation

MODULE = "timeroof#module#"
_FRAMES = 40
_NOT_THE_PROGRAM = ("torch.", "timeroof.")


class ModuleNames:
    """Global forward hooks, attached for one step only."""

    def __init__(self) -> None:
        self._handles: list[Any] = []
        self._open: list[Any] = []
        self._paths: dict[int, str] = {}
        self._roots: list[Any] = []

    def attach(self, entered: Any = None) -> None:
        """Name every module call from here on; `entered` is a module that is being called."""
        from torch.nn.modules import module as modules

        self._handles = [
            modules.register_module_forward_pre_hook(self._enter),
            modules.register_module_forward_hook(self._leave, always_call=True),
        ]
        if entered is not None:
            self._enter(entered, ())

    def detach(self) -> None:
        """Take the hooks away; annotations that are still open are closed."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        while self._open:
            self._open.pop().__exit__(None, None, None)
        self._paths, self._roots = {}, []

    def _enter(self, module: Any, _args: Any) -> None:
        import torch

        if torch.compiler.is_compiling():
            return
        if id(module) not in self._paths:
            self._name(module)
        annotation = Annotation(MODULE + self._paths[id(module)])
        annotation.__enter__()
        self._open.append(annotation)

    def _leave(self, _module: Any, _args: Any, _result: Any) -> None:
        import torch

        if not torch.compiler.is_compiling() and self._open:
            self._open.pop().__exit__(None, None, None)

    def _name(self, root: Any) -> None:
        """Paths of a module that is called from outside any named one, and of all below it."""
        head = variable_name(root, sys._getframe(2)) or type(root).__name__
        self._roots.append(root)  # alive, so that no other module gets its id
        for path, module in root.named_modules():
            self._paths.setdefault(id(module), f"{head}.{path}" if path else head)


def variable_name(value: object, frame: FrameType | None) -> str | None:
    """What the calling code calls a value: the nearest local or global name in its frames."""
    for _ in range(_FRAMES):
        if frame is None:
            return None
        if not str(frame.f_globals.get("__name__", "")).startswith(_NOT_THE_PROGRAM):
            for names in (frame.f_locals, frame.f_globals):
                found = next((k for k, v in list(names.items()) if v is value), None)
                if found is not None and found != "self":
                    return found
        frame = frame.f_back
    return None


def module_of(name: str) -> str | None:
    """The module path in the name of an annotation that our hooks made.

    >>> module_of("timeroof#module#model.head"), module_of("aten::mm")
    ('model.head', None)
    """
    return name.removeprefix(MODULE) if name.startswith(MODULE) else None
