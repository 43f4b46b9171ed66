"""Files written whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from timeroof.core.ending import forget, remember, temporary_folder
from timeroof.core.errors import InputError, SchemaError, TimeroofError


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
