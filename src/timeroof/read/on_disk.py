"""An entry as a file on disk, for libraries that want a path."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from timeroof.core.errors import InputError
from timeroof.read.open import Entry

# A copy must leave this much of the disk free.
FREE_BYTES = 512 * 2**20


@contextmanager
def plain_file(entry: Entry, suffix: str = "") -> Iterator[Path]:
    """The entry's bytes as a file on disk: itself, or a copy that is removed afterwards."""
    if entry.plain_path is not None:
        yield entry.plain_path
        return
    with tempfile.TemporaryDirectory(prefix="timeroof-") as folder:
        path = Path(folder) / f"plain{suffix}"
        room = shutil.disk_usage(folder).free - FREE_BYTES
        with path.open("wb") as out:
            for chunk in entry.chunks():
                room -= len(chunk)
                if room < 0:
                    raise InputError(
                        "unpacks to more than the temporary folder can hold",
                        where=entry.name,
                        advice="unpack it yourself, or set TMPDIR to a larger disk",
                    )
                out.write(chunk)
        yield path
