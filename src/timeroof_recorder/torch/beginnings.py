"""What a program's first step waits for before anything of it is called: batches, the compiler."""

from __future__ import annotations

import sys
from collections.abc import Callable

from timeroof_recorder.marks import Marks
from timeroof_recorder.process import Ignoring, after_import, wrap

_LOADERS, _COMPILER = "torch.utils.data.dataloader", "torch._dynamo.callback"


def watch_beginnings(marks: Marks) -> Callable[[], None]:
    """Tell marks when batches begin to be fetched and when Dynamo goes to work, until the first
    step is known to have begun; returns a way to end that at once."""
    backs: list[Callable[[], None]] = []

    def end() -> None:
        while backs:
            backs.pop()()

    def fetches(original: Callable[..., object], *args: object) -> object:
        with Ignoring("the begin of the first step was missed"):
            marks.fetches()
            if marks.first_ns is not None:
                end()
        return original(*args)

    def compiles(_about: object) -> None:
        marks.compiles()

    def watch_loaders() -> None:
        backs.append(wrap(sys.modules[_LOADERS].DataLoader, "__iter__", fetches))

    def watch_compiler() -> None:
        handler = sys.modules[_COMPILER].callback_handler
        handler.register_start_callback(compiles)

        def back() -> None:
            if compiles in handler.start_callbacks:
                handler.remove_start_callback(compiles)

        backs.append(back)

    for module, action in ((_LOADERS, watch_loaders), (_COMPILER, watch_compiler)):

        def act(action: Callable[[], None] = action) -> None:
            with Ignoring("the begin of the first step may be missed"):
                action()

        backs.append(after_import(module, act))
    return end
