"""Where a step ends: optimizer steps, else top-level forward calls, or the program says so."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

AUTO, OPTIMIZER, FORWARD, MANUAL = "auto", "optimizer", "forward", "manual"
# Forward calls after which a program that has an optimizer but never steps counts as inference,
# until the optimizer does step.
PATIENCE = 16
# Forward calls of the same module that show a loop.
LOOP = 2


class Markers:
    """Finds the steps of a program and calls `boundary` between them."""

    def __init__(
        self,
        wanted: str,
        boundary: Callable[[], None],
        restarted: Callable[[], None] = lambda: None,
    ) -> None:
        self.kind = wanted
        self.found = ""
        self._boundary = boundary
        # Called where what was taken for steps were only parts of them.
        self._restarted = restarted
        self._root_hook: Any = None
        self._handles: list[Any] = []
        self._first: weakref.ref[Any] | None = None
        self._depth = 0
        # The module whose call is being marked.
        self.entered: Any = None
        self._calls: dict[int, int] = {}
        self._total = 0

    def attach(self) -> None:
        """Put the hooks into torch that the wanted kind of marker needs."""
        from torch.nn.modules import module as modules
        from torch.optim.optimizer import register_optimizer_step_post_hook

        if self.kind in (AUTO, OPTIMIZER):
            self._handles.append(register_optimizer_step_post_hook(self._optimizer_stepped))
        if self.kind in (AUTO, FORWARD):
            self._watch = [
                modules.register_module_forward_pre_hook(self._entered),
                modules.register_module_forward_hook(self._left, always_call=True),
            ]
        else:
            self._watch = []

    def detach(self) -> None:
        """Take all hooks away."""
        self._stop_watching()
        self._leave_root()
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def step(self) -> None:
        """The program itself says that a step ended; from now on only it does."""
        if self.found != MANUAL:
            self.detach()
            self.found = MANUAL
        self._boundary()

    def _stop_watching(self) -> None:
        for handle in getattr(self, "_watch", ()):
            handle.remove()
        self._watch = []

    def _leave_root(self) -> None:
        if self._root_hook is not None:
            self._root_hook.remove()
            self._root_hook = None

    def _optimizer_stepped(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        """With several optimizers a step ends when the first one comes round again.

        Forward calls that were taken for steps before it were parts of one.
        """
        if self._first is None or self._first() is None:
            self._first = weakref.ref(optimizer)
            if self.found == FORWARD:
                self._leave_root()
                self._restarted()
            self.found = OPTIMIZER
            self._stop_watching()
        if self.found == OPTIMIZER and self._first() is optimizer:
            self._boundary()

    def _entered(self, module: Any, _args: Any) -> None:
        import torch

        if torch.compiler.is_compiling():
            return
        self._depth += 1
        if self._depth == 1:
            self._called(module)

    def _left(self, _module: Any, _args: Any, _result: Any) -> None:
        import torch

        if not torch.compiler.is_compiling():
            self._depth = max(0, self._depth - 1)

    def _called(self, root: Any) -> None:
        """A top-level forward call: a step of its own unless an optimizer is about to step."""
        self._total += 1
        self._calls[id(root)] = self._calls.get(id(root), 0) + 1
        if self._calls[id(root)] < LOOP:
            return
        if self.kind == AUTO and self._total < PATIENCE and has_optimizer():
            return
        self.found = FORWARD
        self._stop_watching()
        self._depth = 0
        # From now on a hook on this one module only, so that clean steps carry no others.
        self._root_hook = root.register_forward_pre_hook(self._root_called)
        self._root_called(root, ())

    def _root_called(self, root: Any, _args: Any) -> None:
        import torch

        if not torch.compiler.is_compiling():
            self.entered = root
            self._boundary()
            self.entered = None


def has_optimizer() -> bool:
    """Whether the program has made an optimizer, used or not."""
    import torch

    base = torch.optim.Optimizer
    return any(issubclass(type(thing), base) for thing in gc.get_objects())
