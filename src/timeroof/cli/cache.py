"""`timeroof cache`: what is kept between runs, and where."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from timeroof.cli.options import JsonTarget, write_json
from timeroof.core.errors import InputError
from timeroof.core.files import REDUCED_FOLDER, cache_folder, home


def cache(
    clear: Annotated[
        bool, typer.Option("--clear", help="Delete what can be made again; machines stay.")
    ] = False,
    json: JsonTarget = None,
) -> None:
    """Show what timeroof keeps between runs: measured machines, calibrations, reduced files.

    Everything but a measured machine is made again when it is needed. `timeroof machine --fresh`
    measures the machine anew.

    Example: `timeroof cache --clear`
    """
    import msgspec

    from timeroof.views.terminal import print_kept

    if clear:
        clear_cache()
    things = kept_things()
    if json is not None:
        write_json(msgspec.json.encode(things), json)
    else:
        print_kept([(t.what, t.folder, t.files, t.size_bytes) for t in things])


@dataclass(frozen=True, kw_only=True)
class Kept:
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
