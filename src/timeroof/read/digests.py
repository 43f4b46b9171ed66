"""Names and digests of the files that a profile came from, made while they are read."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from timeroof.core.profile import SourceFile
from timeroof.read.opening import Entry


class Digests:
    """Hashes files as they lie on disk in a thread beside the reader.

    Only the part of a path below what all files share is kept: a report must not tell
    where on somebody's disk a run was.
    """

    def __init__(self, entries: list[Entry]) -> None:
        self._keys = list(dict.fromkeys(self.key(e) for e in entries))
        self._pool = ThreadPoolExecutor(1)
        self._digests: dict[str, Future[str | None]] = {}

    @staticmethod
    def key(entry: Entry) -> str:
        """The file on disk that holds an entry, an archive for its members."""
        return entry.name.partition("!/")[0]

    def __enter__(self) -> Digests:
        self._digests = {key: self._pool.submit(_sha256, Path(key)) for key in self._keys}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown(wait=error is None, cancel_futures=True)

    @property
    def files(self) -> dict[str, SourceFile]:
        """Name and digest of every file by its key."""
        root = _shared_folder(self._keys)
        return {
            key: SourceFile(name=os.path.relpath(key, root), sha256=self._digests[key].result())
            for key in self._keys
        }


def _shared_folder(keys: list[str]) -> str:
    if len(keys) == 1:
        return os.path.dirname(keys[0]) or "."  # noqa: PTH120
    folders = [os.path.dirname(os.path.abspath(key)) for key in keys]  # noqa: PTH100, PTH120
    return os.path.commonpath(folders)


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None
