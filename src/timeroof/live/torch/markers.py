"""Where a step ends: optimizer steps, else top-level forward calls, or the program says so."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from timeroof.live.torch.compiling import beside_dynamo
from timeroof.live.torch.module_calls import watch_calls

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer

AUTO, OPTIMIZER, FORWARD, MANUAL = "auto", "optimizer", "forward", "manual"
# Forward calls after which a program that has an optimizer but never steps counts as inference,
# until the optimizer does step.
PATIENCE = 16
# Forward calls of the same module that show a loop.
LOOP = 2


class Markers:
    """Finds the steps of a program and calls `boundary` between them."""

    def __init__(
        self, wanted: str, boundary: Callable[[], None],
        restarted: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.kind = wanted
        self.found = ""
        self._boundary = boundary
        # Called where what was taken for steps were only parts of them.
        self._restarted = restarted
        self._unwatch_calls: Callable[[], None] = lambda: None
        self._unwatch_steps: Callable[[], None] = lambda: None
        self._first: weakref.ref[Optimizer] | None = None
        self._depth = 0
        # The module whose call is being marked.
        self.entered: Module | None = None
        self._calls: dict[int, int] = {}
        self._total = 0

    def attach(self) -> None:
        """Watch in torch what the wanted kind of marker needs."""
        if self.kind in (AUTO, OPTIMIZER):
            self._unwatch_steps = watch_optimizers(self._optimizer_stepped)
        if self.kind in (AUTO, FORWARD):
            self._unwatch_calls = watch_calls(self._entered, self._left)

    def detach(self) -> None:
        """Watch nothing any more."""
        self._unwatch_calls()
        self._unwatch_steps()

    def step(self) -> None:
        """The program itself says that a step ended; from now on only it does."""
        if self.found != MANUAL:
            self.detach()
            self.found = MANUAL
        self._boundary()

    def _optimizer_stepped(self, optimizer: Optimizer, _args: object, _kwargs: object) -> None:
        """With several optimizers a step ends when the first one comes round again. Forward calls
        that were taken for steps before it were parts of one."""
        if self._first is None or self._first() is None:
            self._first = weakref.ref(optimizer)
            self._unwatch_calls()
            if self.found == FORWARD:
                self._restarted()
            self.found = OPTIMIZER
        if self.found == OPTIMIZER and self._first() is optimizer:
            self._boundary()

    def _entered(self, module: Module) -> None:
        self._depth += 1
        if self._depth == 1:
            self._called(module)

    def _left(self, _module: Module) -> None:
        self._depth = max(0, self._depth - 1)

    def _called(self, root: Module) -> None:
        """A top-level forward call: a step of its own unless an optimizer is about to step."""
        self._total += 1
        self._calls[id(root)] = self._calls.get(id(root), 0) + 1
        if self._calls[id(root)] < LOOP:
            return
        if self.kind == AUTO and self._total < PATIENCE and has_optimizer():
            return
        self.found = FORWARD
        self._unwatch_calls()
        self._depth = 0
        # From now on this one module only: calls of others stay as quick as they are.
        self._unwatch_calls = watch_calls(self._root_called, only=root)
        self._root_called(root)

    def _root_called(self, root: Module) -> None:
        self.entered = root
        self._boundary()
        self.entered = None


def watch_optimizers(stepped: Callable[[Optimizer, object, object], None]) -> Callable[[], None]:
    """Call a function after every optimizer's step; returns a way to end that. Under a key of our
    own: torch numbers all hooks in a row, and a program's own hooks keep their numbers in its
    checkpoints."""
    from torch.optim import optimizer

    hooks: dict[object, object] = optimizer._global_optimizer_post_hooks  # type: ignore[assignment]
    key = object()
    hooks[key] = beside_dynamo(stepped)

    def back() -> None:
        hooks.pop(key, None)

    return back


def has_optimizer() -> bool:
    """Whether the program has made an optimizer, used or not."""
    import torch

    base = torch.optim.Optimizer
    return any(issubclass(type(thing), base) for thing in gc.get_objects())
