"""The errors a user may meet: each says what happened, where, and what to do."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_GATE = 1
EXIT_INPUT = 2
EXIT_INTERRUPT = 130


class TimeroofError(Exception):
    """Anything that ends a command with one clear message instead of a traceback."""

    exit_code = EXIT_INPUT

    def __init__(self, what: str, where: str | None = None, advice: str | None = None) -> None:
        self.what, self.where, self.advice = what, where, advice
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """One line: where, what, what to do.

        >>> TimeroofError("rate is negative", where="x.toml", advice="use FLOP/s above 0").message
        'x.toml: rate is negative; use FLOP/s above 0'
        """
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}; {self.advice}" if self.advice else head


class InputError(TimeroofError):
    """A file or value that cannot be used."""


class DamagedError(InputError):
    """A file that breaks off or does not unpack: what came before may still be of use."""


class UsageError(TimeroofError):
    """A command or call that asks for something that is not there."""


class UnknownMachineError(UsageError):
    """A machine or device name that the catalogue does not have."""


class SchemaError(InputError):
    """A file whose schema this version does not read."""


class GateFailedError(TimeroofError):
    """A limit of `check` that does not hold."""

    exit_code = EXIT_GATE


def trace_ignored(what: str) -> None:
    """With TIMEROOF_DEBUG=1, show the error at hand that goes no further, and what it cost."""
    if os.environ.get("TIMEROOF_DEBUG"):
        sys.stderr.write(f"timeroof: {what}\n{traceback.format_exc()}")


@contextmanager
def ignoring(what: str) -> Iterator[None]:
    """Let no error out of the block; with TIMEROOF_DEBUG=1 it is shown, with what it cost."""
    try:
        yield
    except Exception:
        trace_ignored(what)
