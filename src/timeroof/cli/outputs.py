"""Outputs that several commands offer: JSON to a file or stdout, a saved run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from timeroof.core.writing import write_atomically
from timeroof.errors import UsageError

if TYPE_CHECKING:
    from timeroof.core.report import Report


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


def check_target(path: Path) -> Path:
    """A file to write; one that cannot be written is refused before any work is done."""
    there = next(p for p in (path, *path.absolute().parents) if p.exists())
    if there != path and not there.is_dir():
        raise UsageError(f"{path} cannot be written", advice=f"{there} is no folder")
    if not os.access(there, os.W_OK) or str(there.resolve()).startswith("/proc"):
        raise UsageError(f"{path} cannot be written", advice=f"{there} is not writable")
    return path


def write_outputs(
    report: Report, *, html: Path | None = None, save: Path | None = None, out: Path | None = None
) -> None:
    """Write a report's page, its run, or a folder with all its forms."""
    from timeroof.api import save as save_report

    if html is not None:
        if html.suffix != ".html":
            raise UsageError(f"{str(html)!r} is no page's name", advice="end it in .html")
        save_report(report, html)
    if save is not None:
        if save.suffix != ".troof":
            raise UsageError(f"{str(save)!r} is no run's name", advice="end it in .troof")
        save_report(report, save)
    if out is not None:
        for name in ("report.html", "report.json", "report.md", "kernels.csv", "run.troof"):
            save_report(report, out / name)
