"""The folder of one collection: reports to read, and what the program printed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from timeroof.core.errors import InputError, UsageError


@dataclass(frozen=True)
class Workspace:
    """Where a collection writes."""

    folder: Path
    kept: bool

    @property
    def reports(self) -> Path:
        """The profiler's own files, and nothing else."""
        return self.folder / "reports"

    @property
    def output(self) -> Path:
        """What the program printed."""
        return self.folder / "output"


@contextmanager
def workspace(folder: Path | None) -> Iterator[Workspace]:
    """A folder to collect in; one of our own is removed if all went well, and kept if not."""
    try:
        place = Path(tempfile.mkdtemp(prefix="timeroof-counters-")) if folder is None else folder
        space = Workspace(place, kept=folder is not None)
        if space.reports.is_dir() and any(space.reports.iterdir()):
            raise UsageError(
                f"{space.reports} holds counters of an earlier run", advice="name another folder"
            )
        for part in (space.reports, space.output):
            part.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror or error})",
            where=str(folder or tempfile.gettempdir()),
            advice="check that the folder is writable and has space",
        ) from error
    yield space
    if not space.kept:
        shutil.rmtree(space.folder, ignore_errors=True)
