"""What a user is told beside the numbers: errors, each with what, where and what to do, and notes.

A note is what a reader has to know of how the numbers came about. It is its sentence, so it prints
and joins as text does; programs tell notes apart by `code` and `level`, never by words.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Literal, cast

EXIT_GATE = 1
EXIT_INPUT = 2
EXIT_INTERRUPT = 130


# Characters of a message's parts: together under 1,000.
LONGEST_WHERE, LONGEST_WHAT, LONGEST_ADVICE = 240, 440, 280


def shortened(text: str, most: int) -> str:
    """Head and tail of a text that is too long for a message.

    >>> shortened("abcdefghij", 7), shortened("short", 7)
    ('abc … j', 'short')
    """
    if len(text) <= most:
        return text
    tail = (most - 3) // 3
    return f"{text[: most - 3 - tail]} … {text[-tail:]}"


def reason_of(error: BaseException) -> str:
    """What an error says, on one line of bearable length."""
    lines = str(error).splitlines()
    return shortened(lines[0], 200) if lines and lines[0].strip() else type(error).__name__


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
        # Files say strange things at any length; a message stays one that can be read.
        what = shortened(self.what, LONGEST_WHAT)
        head = f"{shortened(self.where, LONGEST_WHERE)}: {what}" if self.where else what
        return f"{head}; {shortened(self.advice, LONGEST_ADVICE)}" if self.advice else head


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
def reading(where: str, what: str, advice: str) -> Iterator[None]:
    """Whatever goes wrong while content is read becomes one sentence with the file's name.

    Content is not ours: a number too large, a column of another type, a list too deep end here,
    and panics of Polars, which are no exceptions of Python's. With TIMEROOF_DEBUG=1 the place
    where reading stopped is shown.
    """
    try:
        yield
    except (TimeroofError, OSError):
        raise
    except MemoryError as error:
        raise InputError("needs more memory than there is", where, "read a part of it") from error
    except BaseException as error:
        if not (isinstance(error, Exception) or type(error).__name__ == "PanicException"):
            raise
        trace_ignored(f"{where} is not read")
        reason = reason_of(error)
        if isinstance(error, KeyError):
            reason = f"column {reason} is missing"
        raise InputError(f"is no whole {what} ({reason})", where, advice) from error


@contextmanager
def without_panics_shown() -> Iterator[None]:
    """Keep what Polars' Rust prints of a panic, with its stack, out of a log: we say it in a line.

    Rust writes to the descriptor itself. Whatever else was written there meanwhile is passed on
    at the end; a terminal, where progress is shown meanwhile, is left alone.
    """
    if os.environ.get("TIMEROOF_DEBUG") or not _is_log(2):
        yield
        return
    with _held() as held:
        real = os.dup(2)
        os.dup2(held.fileno(), 2)
        panicked = False
        try:
            yield
        except BaseException as error:
            panicked = type(error).__name__ == "PanicException"
            raise
        finally:
            os.dup2(real, 2)
            os.close(real)
            held.seek(0)
            if not panicked and (written := held.read()):
                os.write(2, written)


def _held() -> BinaryIO:
    """A file in memory: there may be no disk that can be written."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("timeroof"), "w+b")  # noqa: PTH123
    return cast("BinaryIO", tempfile.TemporaryFile())


def _is_log(descriptor: int) -> bool:
    try:
        return not os.isatty(descriptor) and os.fstat(descriptor) is not None
    except OSError:
        return False


Level = Literal["info", "warning", "error"]

# What a reader of files says of its file.
SOURCE = "source"
PARTIAL = "partial"
# Other programs had the CPUs: some of the time, or so much that times say nothing.
CONTENDED, UNTRUSTED = "cpu-contended", "cpu-untrusted"
# Threads of the program itself had them.
CROWDED = "own-threads"


class Note(str):
    """A sentence with a code that names its kind and a level.

    >>> note = Note("No step was seen.", "no-step", "warning")
    >>> note.code, note.level, f"{note}"
    ('no-step', 'warning', 'No step was seen.')
    """

    __slots__ = ("code", "level")

    code: str
    level: Level

    def __new__(cls, text: str, code: str = SOURCE, level: Level = "info") -> Note:
        """A note; without a code it is a source's own remark."""
        note = super().__new__(cls, text)
        note.code, note.level = code, level
        return note

    def __getnewargs__(self) -> tuple[str, str, Level]:  # type: ignore[override]
        """What makes an equal note, for pickles and copies."""
        return str(self), self.code, self.level


def as_notes(texts: Iterable[str]) -> tuple[Note, ...]:
    """Sentences as notes; those that have a code keep it."""
    return tuple(t if isinstance(t, Note) else Note(t) for t in texts)
