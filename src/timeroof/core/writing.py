"""Files written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from timeroof.core.errors import InputError


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


@contextmanager
def _written_through(target: Path) -> Iterator[Path]:
    """A temporary file whose bytes are copied into a device or pipe at the end."""
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "part"
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
