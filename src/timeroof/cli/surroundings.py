"""What the command changes in its process for itself, and a program must find as it was."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from timeroof.cli.interrupt import listen
from timeroof.cli.streams import prepare_streams


@dataclass(frozen=True)
class Surroundings:
    """The answer to Ctrl-C, the hook for uncaught exceptions, and how streams take odd letters."""

    interrupt: Any
    excepthook: Any
    # Of stdout and stderr; None where that is not known.
    errors: tuple[str | None, str | None]

    @classmethod
    def now(cls) -> Surroundings:
        """As they are at the moment."""
        streams = (sys.stdout, sys.stderr)
        return cls(
            signal.getsignal(signal.SIGINT),
            sys.excepthook,
            (getattr(streams[0], "errors", None), getattr(streams[1], "errors", None)),
        )

    def put_back(self) -> None:
        """Make them so again."""
        # A handler that is none of Python's cannot be put back, and is still there below ours.
        if threading.current_thread() is threading.main_thread() and self.interrupt is not None:
            signal.signal(signal.SIGINT, self.interrupt)
        sys.excepthook = self.excepthook
        for stream, errors in zip((sys.stdout, sys.stderr), self.errors, strict=True):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None and errors is not None:
                reconfigure(errors=errors)


_FOUND: list[Surroundings] = []


def take_over() -> None:
    """Set the process up for a command of ours; what it was like is remembered."""
    _FOUND[:] = [Surroundings.now()]
    prepare_streams()
    listen()


@contextmanager
def left_to_program() -> Iterator[None]:
    """The process as Python gives it to a program; afterwards Ctrl-C and streams are ours again.

    How the program answered a Ctrl-C was its own business.
    """
    for found in _FOUND:
        found.put_back()
    try:
        yield
    finally:
        listen()
        prepare_streams()
