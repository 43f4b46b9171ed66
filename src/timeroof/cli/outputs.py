"""Outputs that several commands offer: JSON to a file or stdout, a saved run."""

from __future__ import annotations

import sys
from pathlib import Path

from timeroof.core.writing import write_atomically
from timeroof.errors import UsageError


def write_json(data: bytes, target: str) -> None:
    """Write JSON to a file, or to stdout for `-`."""
    if target == "-":
        sys.stdout.buffer.write(data + b"\n")
        sys.stdout.buffer.flush()
    else:
        write_atomically(Path(target), data + b"\n")


def check_folder(path: Path) -> Path:
    """A folder to write into; a file of that name is refused before any work is done."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file", advice="name a folder with --out")
    return path
