"""The end of a command by a signal: nothing of it runs on, and nothing of it stays on the disk.

A signal's handler in Python waits until the main thread is back from a library, which may take
seconds, and cleaning up after that may take more. So a thread watches: the signal wakes it at
once, and where the command has not ended soon after, it removes what is left and ends the process.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# A command that answers a signal itself has this long; its last words may take longer.
GRACE_S = 0.6
WORDS_S = 5.0
_MEMORY = "/dev/shm"


# What a command makes outside of its outputs, so that it can be removed from any place.

_left: dict[str, int] = {}


def remember(path: Path | str) -> None:
    """Remove a file or folder when this process is ended by a signal."""
    _left[str(path)] = os.getpid()


def forget(path: Path | str) -> None:
    """It is gone, or stays."""
    _left.pop(str(path), None)


@contextmanager
def temporary_folder(prefix: str = "timeroof-") -> Iterator[Path]:
    """A folder that is removed at the end of the block, or when this process ends by a signal."""
    folder = Path(_made_folder(prefix))
    remember(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        forget(folder)


def _made_folder(prefix: str) -> str:
    """A new folder; in memory where no disk can be written (a read-only system)."""
    try:
        return tempfile.mkdtemp(prefix=prefix)
    except OSError:
        if not os.access(_MEMORY, os.W_OK):
            raise
        return tempfile.mkdtemp(prefix=prefix, dir=_MEMORY)


def remove_all() -> None:
    """Remove what this process remembers; what a forked parent does is its own."""
    for path, owner in list(_left.items()):
        if owner == os.getpid():
            with suppress(OSError):
                Path(path).unlink()
            shutil.rmtree(path, ignore_errors=True)
    _left.clear()


_scratch: list[tuple[int, str]] = []


def scratch_folder() -> str | None:
    """A folder for what processes of ours leave behind; None where none can be made."""
    if not _scratch or _scratch[0][0] != os.getpid():
        try:
            made = _made_folder("timeroof-")
        except OSError:
            return None
        _scratch[:] = [(os.getpid(), made)]
        remember(made)
        atexit.register(_remove_scratch, os.getpid(), made)
    return _scratch[0][1]


def _remove_scratch(owner: int, folder: str) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


# Processes.


def descendants(pid: int) -> list[int]:
    """Processes that a process started, and those that they started; none where /proc is absent."""
    parents: dict[int, list[int]] = {}
    with suppress(OSError):
        for entry in os.listdir("/proc"):  # noqa: PTH208
            if entry.isdecimal():
                parents.setdefault(_parent_of(int(entry)), []).append(int(entry))
    found = list(parents.get(pid, []))
    for each in found:
        found += parents.get(each, [])
    return found


def _parent_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return -1


def leave(code: int) -> NoReturn:
    """End this process, all that it started, and all that it left on the disk."""
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    remove_all()
    os._exit(code)


# The thread that watches.

_patience: list[float] = [GRACE_S]
_pauses: list[object] = []
_watching: list[bool] = []


def allow_words() -> None:
    """The command has answered a signal and says what is kept: it has longer for that."""
    _patience[0] = WORDS_S


@contextmanager
def patiently() -> Iterator[None]:
    """For a block that ends in order when a signal comes, however long that takes."""
    mark = object()
    _pauses.append(mark)
    try:
        yield
    finally:
        _pauses.remove(mark)


def watch() -> None:
    """End this process soon after a signal that it does not answer. Only a main thread can."""
    if _watching or threading.current_thread() is not threading.main_thread():
        return
    _watching.append(True)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    thread = threading.Thread(target=_watch, args=(reading,), daemon=True, name="timeroof-end")
    # No signal is this thread's to answer: it inherits what is blocked when it starts.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)


def _watch(reading: int) -> None:
    while True:
        for number in os.read(reading, 64):
            if number in SIGNALS and callable(signal.getsignal(number)):
                _end_by(number)


def _end_by(number: int) -> None:
    came_s = time.monotonic()
    while time.monotonic() < came_s + _patience[0]:
        time.sleep(0.05)
        if _pauses:
            return
    with suppress(OSError):
        os.write(2, b"timeroof: interrupted\n")
    leave(128 + number)
