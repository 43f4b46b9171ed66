"""What is kept between runs: which things, where, how large."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from timeroof.core.errors import InputError
from timeroof.core.files import REDUCED_FOLDER, cache_folder, home, why_not_kept
from timeroof.core.notes import Note


class Kept(msgspec.Struct, kw_only=True, frozen=True):
    """Files of one purpose."""

    what: str
    folder: str
    files: int
    size_bytes: int


def kept_things() -> list[Kept]:
    """All that is kept, by purpose."""
    data, cache = home() / "measured", cache_folder()
    reduced = list(_files(cache / REDUCED_FOLDER))
    other = [path for path in _files(cache) if cache / REDUCED_FOLDER not in path.parents]
    return [
        _kept("measured machines", data, list(_files(data))),
        _kept("calibrations and templates", cache, other),
        _kept("reduced files", cache / REDUCED_FOLDER, reduced),
    ]


def unkept_note() -> Note | None:
    """What a run could not keep for the next one, and why."""
    reason = why_not_kept((home() / "measured", cache_folder()))
    if reason is None:
        return None
    text = f"The machine's ceilings and the profiler's own cost were not kept: {reason}."
    return Note(f"{text} The next run measures them again.", "nothing-kept", "warning")


def clear_cache() -> None:
    """Delete all but the measured machines."""
    try:
        if cache_folder().is_dir():
            shutil.rmtree(cache_folder())
    except OSError as error:
        raise InputError(
            f"cannot be deleted ({error.strerror or error})", str(cache_folder())
        ) from error


def _files(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from (path for path in sorted(folder.rglob("*")) if path.is_file())


def _kept(what: str, folder: Path, files: list[Path]) -> Kept:
    sizes = []
    for path in files:
        with suppress(OSError):
            sizes.append(path.stat().st_size)
    return Kept(what=what, folder=str(folder), files=len(sizes), size_bytes=sum(sizes))
