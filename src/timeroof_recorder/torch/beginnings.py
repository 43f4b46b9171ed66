"""What a program's first step waits for before anything of it is called: batches, the compiler."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from timeroof_recorder.marks import Marks
from timeroof_recorder.process import Ignoring, after_import, wrap

_LOADERS, _COMPILER = "torch.utils.data.dataloader", "torch._dynamo.callback"


class Beginnings:
    """Tells marks when batches begin to be fetched and when Dynamo goes to work."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._back: list[Callable[[], None]] = []
        for module, action in ((_LOADERS, self._loaders), (_COMPILER, self._compiler)):
            self._back.append(after_import(module, action))

    def end(self) -> None:
        """Leave torch as it was."""
        while self._back:
            self._back.pop()()

    def _loaders(self) -> None:
        with Ignoring("the begin of the first batch is not known"):
            loader = sys.modules[_LOADERS].DataLoader
            self._back.append(wrap(loader, "__iter__", self._fetches))

    def _fetches(self, original: Callable[..., object], *args: object) -> object:
        """Once the first step has begun, nobody has to be told any more."""
        with Ignoring("the begin of the first batch was missed"):
            self._marks.fetches()
            if self._marks.first_ns is not None:
                self.end()
        return original(*args)

    def _compiler(self) -> None:
        with Ignoring("the begin of compiling is not known"):
            handler = sys.modules[_COMPILER].callback_handler
            handler.register_start_callback(self._compiles)
            self._back.append(lambda: self._leave(handler))

    def _compiles(self, _about: object) -> None:
        self._marks.compiles()

    def _leave(self, handler: Any) -> None:
        if self._compiles in handler.start_callbacks:
            handler.remove_start_callback(self._compiles)
