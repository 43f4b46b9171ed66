"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from timeroof.errors import InputError


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name[:64]}.", suffix=path.suffix
        )
    except OSError as error:
        raise _cannot_write(path, error) from error
    os.close(handle)
    part = Path(name)
    try:
        yield part
        part.chmod(0o666 & ~_umask())
        part.replace(path)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        part.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Write bytes to a file that is replaced whole or not at all."""
    with atomic_path(path) as part:
        part.write_bytes(data)


def _cannot_write(path: Path, error: OSError) -> InputError:
    return InputError(
        f"cannot be written ({error.strerror})",
        where=str(path),
        advice="check that the folder exists, is writable and has space",
    )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
