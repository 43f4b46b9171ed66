"""A forked child must inherit nothing that is switched on, and nothing that watches."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable
from typing import Protocol


class Forked(Protocol):
    """Something that has to know of forks."""

    def before_fork(self) -> None:
        """The process is about to fork."""
        ...

    def after_fork(self) -> None:
        """The process has forked, and this is still the same one."""
        ...

    def leave_child(self) -> None:
        """This is the child."""
        ...


def mind_forks(watched: Forked) -> None:
    """Tell an object of forks for as long as it lives; none of its errors reach the program."""
    watcher = weakref.ref(watched)

    def tell(what: str) -> Callable[[], None]:
        def told() -> None:
            alive = watcher()
            if alive is not None:
                with contextlib.suppress(Exception):
                    getattr(alive, what)()

        return told

    os.register_at_fork(
        before=tell("before_fork"),
        after_in_parent=tell("after_fork"),
        after_in_child=tell("leave_child"),
    )
