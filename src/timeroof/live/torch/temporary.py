"""Temporary files that go when their owner does, in the process that made them only."""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path


def temporary_file(owner: object) -> Path:
    """An empty file that is removed with its owner, or when the interpreter ends."""
    handle, name = tempfile.mkstemp(prefix="timeroof-", suffix=".json")
    os.close(handle)
    path = Path(name)
    weakref.finalize(owner, _remove, path, os.getpid())
    return path


def _remove(path: Path, maker: int) -> None:
    """A forked child has the finalizers of its parent; the files are not its own."""
    if os.getpid() == maker:
        path.unlink(missing_ok=True)
