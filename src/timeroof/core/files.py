"""What is left on the disk: files written whole or not at all, nothing after a signal.

A signal's handler in Python waits until the main thread is back from a library, which may take
seconds, and cleaning up after that may take more. So a thread watches: the signal wakes it at
once, and where the command has not ended soon after, it removes what is left and ends the process,
with the processes that it started.
"""

from __future__ import annotations

import atexit
import errno
import os
import shutil
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NoReturn

from timeroof.core.errors import InputError, SchemaError, TimeroofError

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


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well.

    A link is followed and the file's mode kept. What is no file (a device, a pipe) is
    written to, never replaced.
    """
    try:
        target = path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        there = target.exists()
        if there and not target.is_file() and not target.is_dir():
            with _written_through(target) as part:
                yield part
            return
        mode = target.stat().st_mode & 0o777 if there else 0o666 & ~_umask()
        handle, name = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.name[:64]}.", suffix=target.suffix[:16]
        )
    except (OSError, RuntimeError) as error:
        raise _cannot_write(path, error) from error
    remember(name)
    os.close(handle)
    part = Path(name)
    try:
        yield part
        part.chmod(mode)
        part.replace(target)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        part.unlink(missing_ok=True)
        forget(name)


@contextmanager
def _written_through(target: Path) -> Iterator[Path]:
    """A temporary file whose bytes are copied into a device or pipe at the end."""
    with temporary_folder() as folder:
        part = folder / "part"
        yield part
        with part.open("rb") as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink)


def write_atomically(path: Path, data: bytes) -> None:
    """Write bytes to a file that is replaced whole or not at all."""
    with atomic_path(path) as part:
        part.write_bytes(data)


def _cannot_write(path: Path, error: Exception) -> InputError:
    return InputError(
        f"cannot be written ({getattr(error, 'strerror', None) or error})",
        where=str(path),
        advice="check that the folder exists, is writable and has space",
    )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# What is dear to make and never changes, kept between runs in the user's cache folder.
#
# Nothing here is needed: a folder that cannot be written, a damaged file or another user's file
# only means that the thing is made again.

HOME_VARIABLE = "TIMEROOF_HOME"
# Inside the caches: files reduced to what a fleet needs of them.
REDUCED_FOLDER = "reduced"
_DIGEST_BYTES = 32


def _sha256(content: bytes) -> bytes:
    # Loads a library of 3 MB, which `timeroof --help` does not need.
    import hashlib

    return hashlib.sha256(content).digest()


def home() -> Path:
    """The folder for what timeroof keeps; the variable TIMEROOF_HOME overrides it."""
    given = os.environ.get(HOME_VARIABLE)
    if given:
        return Path(given)
    import platformdirs

    return Path(platformdirs.user_data_path("timeroof", appauthor=False))


def cache_folder() -> Path:
    """The folder of the user's caches that is ours; inside TIMEROOF_HOME where that is given."""
    given = os.environ.get(HOME_VARIABLE)
    if given:
        return Path(given) / "cache"
    import platformdirs

    return Path(platformdirs.user_cache_path("timeroof", appauthor=False))


def kept(name: str, key: str, make: Callable[[], bytes]) -> bytes:
    """What `make` made under this key, now or in an earlier run.

    The key must name all that the result depends on: a file stays as long as its key.
    """
    path = cache_folder() / f"{name}-{_sha256(key.encode()).hex()[:24]}"
    found = _own_bytes(path)
    if found is None:
        found = make()
        with suppress(OSError, TimeroofError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            keep_bytes(path, _sha256(found) + found)
    return found


def regular_bytes(path: Path) -> bytes:
    """The content of a file that is kept; an OSError where it is none: a pipe would never end."""
    with opened_file(path) as file:
        return file.read()


def keep_bytes(path: Path, data: bytes) -> None:
    """Write a file that is kept between runs; what bears its name and is no file goes first."""
    with suppress(OSError):
        if path.exists() and not path.is_file() and not path.is_dir():
            path.unlink()
    write_atomically(path, data)


def opened_file(path: Path) -> BinaryIO:
    """A file that is kept, open; an OSError where it is none, as a pipe."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is no regular file", str(path))
    return open(handle, "rb")  # noqa: PTH123


def why_not_kept(folders: Iterable[Path]) -> str | None:
    """Which of these folders takes no file, and why; None where all do."""
    for folder in folders:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(bytes(1 << 14))
        except OSError as error:
            return f"{folder} cannot be written ({error.strerror or error})"
    return None


def stamp(path: Path) -> str:
    """A key for a file's content: place, size and time, as Python's own byte code has it."""
    facts = path.stat()
    return f"{path} {facts.st_size} {facts.st_mtime_ns}"


def _own_bytes(path: Path) -> bytes | None:
    """A kept file's bytes if they are whole, and written by this user: they may be code."""
    try:
        with opened_file(path) as file:
            owner = os.fstat(file.fileno()).st_uid
            data = file.read()
    except OSError:
        return None
    digest, content = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    is_own = not hasattr(os, "geteuid") or owner == os.geteuid()
    return content if is_own and _sha256(content) == digest else None


# Schema numbers: `name/number`, refused with a clear word where newer than this version.


def check_schema(found: object, expected: str, where: str) -> None:
    """Accept `expected` and older numbers of the same name; refuse everything else."""
    name, _, newest = expected.partition("/")
    if not isinstance(found, str) or not found:
        raise SchemaError(
            f"'schema' is missing, expected {expected!r}",
            where=where,
            advice="is this the right kind of file?",
        )
    found_name, _, number = found.partition("/")
    if found_name != name or not number.isdecimal() or int(number) < 1:
        raise SchemaError(f"'schema' is {found!r}, expected {expected!r}", where=where)
    if int(number) > int(newest):
        raise SchemaError(
            f"'schema' is {found!r}, newer than {expected!r} which this timeroof reads",
            where=where,
            advice="update timeroof: git pull in its repository, then pip install .",
        )
