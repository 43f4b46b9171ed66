"""Module paths of ops: an annotation around every module's call."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from timeroof.live.torch.annotations import Annotation
from timeroof.live.torch.module_calls import watch_calls

MODULE = "timeroof#module#"
_FRAMES = 40
_NOT_THE_PROGRAM = ("torch.", "timeroof.")


class ModuleNames:
    """Watches the calls of all modules, for one step only."""

    def __init__(self) -> None:
        self._unwatch: Callable[[], None] = lambda: None
        self._open: list[Any] = []
        self._paths: dict[int, str] = {}
        self._roots: list[Any] = []

    def attach(self, entered: Any = None) -> None:
        """Name every module call from here on; `entered` is a module that is being called."""
        self._unwatch = watch_calls(self._enter, self._leave)
        if entered is not None:
            self._enter(entered)

    def detach(self) -> None:
        """Watch no more; annotations that are still open are closed."""
        self._unwatch()
        while self._open:
            self._open.pop().__exit__(None, None, None)
        self._paths, self._roots = {}, []

    def _enter(self, module: Any) -> None:
        if id(module) not in self._paths:
            self._name(module)
        annotation = Annotation(MODULE + self._paths[id(module)])
        annotation.__enter__()
        self._open.append(annotation)

    def _leave(self, _module: Any) -> None:
        if self._open:
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
    """The module path in the name of an annotation of ours.

    >>> module_of("timeroof#module#model.head"), module_of("aten::mm")
    ('model.head', None)
    """
    return name.removeprefix(MODULE) if name.startswith(MODULE) else None
