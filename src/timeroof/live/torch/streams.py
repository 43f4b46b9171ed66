"""Standard streams as a program leaves them: perhaps closed, replaced or without a reader."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def is_open(descriptor: int) -> bool:
    """Whether a file descriptor leads somewhere."""
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def repair_streams() -> None:
    """After a program: put something in place of streams that it closed, so that files that
    we open do not become its stdout."""
    for descriptor in (0, 1, 2):
        if not is_open(descriptor):
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != descriptor:
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
    for name in ("stdout", "stderr"):
        if _is_dead(getattr(sys, name)):
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115


def _is_dead(stream: object) -> bool:
    if stream is None or getattr(stream, "closed", False):
        return True
    try:
        stream.flush()  # type: ignore[attr-defined]
    except (OSError, ValueError, AttributeError):
        return True
    return False


def without_reader(action: Callable[[], None]) -> None:
    """Print something; a reader that has left (`| head`) must not cost more than that."""
    try:
        action()
        sys.stderr.flush()
    # A console may end the program over a broken pipe.
    except (OSError, ValueError, SystemExit):
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
