"""Standard streams that may be closed, full, or unable to print what we say."""

from __future__ import annotations

import os
import sys

from timeroof.views.plain import plain_text


def prepare_streams() -> None:
    """Make stdout and stderr usable: characters they cannot print become question marks."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def abandon_stdout() -> None:
    """Send what is left of stdout nowhere, so that the interpreter does not stumble over it."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return


def say(message: str) -> None:
    """One line on stderr, without characters that could steer a terminal."""
    try:
        sys.stderr.write(f"timeroof: {plain_text(message)}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return
