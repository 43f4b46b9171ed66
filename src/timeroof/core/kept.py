"""What is dear to make and never changes, kept between runs in the user's cache folder.

Nothing here is needed: a folder that cannot be written, a damaged file or another user's file
only means that the thing is made again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from timeroof.core.errors import TimeroofError
from timeroof.core.writing import write_atomically

HOME_VARIABLE = "TIMEROOF_HOME"
_DIGEST_BYTES = hashlib.sha256().digest_size


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
    path = cache_folder() / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:24]}"
    found = _own_bytes(path)
    if found is None:
        found = make()
        with suppress(OSError, TimeroofError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(path, hashlib.sha256(found).digest() + found)
    return found


def stamp(path: Path) -> str:
    """A key for a file's content: place, size and time, as Python's own byte code has it."""
    facts = path.stat()
    return f"{path} {facts.st_size} {facts.st_mtime_ns}"


def _own_bytes(path: Path) -> bytes | None:
    """A kept file's bytes if they are whole, and written by this user: they may be code."""
    try:
        with path.open("rb") as file:
            owner = os.fstat(file.fileno()).st_uid
            data = file.read()
    except OSError:
        return None
    digest, content = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    is_own = not hasattr(os, "geteuid") or owner == os.geteuid()
    return content if is_own and hashlib.sha256(content).digest() == digest else None
