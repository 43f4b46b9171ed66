"""A forked child must inherit nothing that is switched on, and nothing that watches."""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """Something that has to know of forks."""

    def before_fork(self) -> None:
        """The process is about to fork."""
        ...

    def leave_child(self) -> None:
        """This is the child."""
        ...


def mind_forks(watched: Forked) -> None:
    """Tell an object of forks for as long as it lives; none of its errors reach the program."""
    watcher = weakref.ref(watched)

    def before() -> None:
        alive = watcher()
        if alive is not None:
            with contextlib.suppress(Exception):
                alive.before_fork()

    def in_child() -> None:
        alive = watcher()
        if alive is not None:
            with contextlib.suppress(Exception):
                alive.leave_child()

    os.register_at_fork(before=before, after_in_child=in_child)
