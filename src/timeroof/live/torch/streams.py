"""Standard streams as a program leaves them: perhaps closed, replaced or without a reader."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any


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


class PrintedByC:
    """Catches what C code prints (``printf``): its stream is led into memory for a while.

    File descriptor 1 stays as it is. Whatever Python and other processes write goes straight to
    where it belongs, and is there however the program ends.
    """

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._stream: ctypes.c_void_p | None = None
        self._before: int | None = None

    @property
    def is_on(self) -> bool:
        """Whether C's stream is led into memory."""
        return self._descriptor is not None

    def start(self) -> bool:
        """Begin; False where C's library does not let its stream be changed."""
        # Other libraries than GNU's may have a stream that is no variable.
        try:
            if not os.confstr("CS_GNU_LIBC_VERSION"):
                return False
            library: Any = ctypes.CDLL(None)
            stream = ctypes.c_void_p.in_dll(library, "stdout")
            descriptor = _memory()
        except (AttributeError, ValueError, OSError):
            return False
        library.fdopen.restype = ctypes.c_void_p
        caught = library.fdopen(descriptor, b"a")
        if not caught:
            os.close(descriptor)
            return False
        flush_stdout()
        self._descriptor, self._stream = descriptor, stream
        self._before, stream.value = stream.value, caught
        return True

    def size_bytes(self) -> int:
        """How much was caught until now."""
        if self._descriptor is None:
            return 0
        flush_stdout()
        return os.fstat(self._descriptor).st_size

    def stop(self) -> bytes:
        """End, and hand over what was caught.

        C's small object of the stream is left to itself, leading nowhere: a thread may be about to
        print with it, and its descriptor must not become that of a file of the program's.
        """
        if self._descriptor is None or self._stream is None:
            return b""
        self._stream.value = self._before
        size = self.size_bytes()
        descriptor, self._descriptor = self._descriptor, None
        try:
            return _read_all(descriptor, size)
        finally:
            _lead_nowhere(descriptor)


def _lead_nowhere(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nowhere, descriptor, inheritable=False)
    os.close(nowhere)


def _memory() -> int:
    """A file in memory, never under the number of a standard stream that the program closed."""
    import fcntl

    made = os.memfd_create("timeroof")
    try:
        return fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(made)


def _read_all(descriptor: int, size: int) -> bytes:
    parts: list[bytes] = []
    while size > 0 and (part := os.pread(descriptor, size, sum(map(len, parts)))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def flush_stdout() -> None:
    """Python's and C's buffers of stdout: oneDNN prints through C's."""
    with suppress(Exception):
        sys.stdout.flush()
    with suppress(Exception):
        ctypes.CDLL(None).fflush(None)


def write_all(data: bytes) -> None:
    """Write to stdout past all buffers; a reader that has left costs the text only."""
    with suppress(OSError):
        while data:
            data = data[os.write(1, data) :]
