"""Reports of Nsight Systems (`.nsys-rep`, `.qdrep`): exported by nsys itself, where it is there."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from timeroof.core.errors import InputError
from timeroof.core.files import temporary_folder
from timeroof.core.profile import Profile
from timeroof.read.formats import ReadOptions
from timeroof.read.nvidia import nsys_sqlite
from timeroof.read.open import Input, open_input

ADVICE = "export it yourself: nsys export --type sqlite REPORT, then read the .sqlite file"


def sniff(found: Input) -> bool:
    """Whether nsys can be asked: without it the file is refused, with the way out."""
    return found.only.plain_path is not None and shutil.which("nsys") is not None


def read(found: Input, options: ReadOptions) -> Profile:
    """The report as nsys exports it, into a folder that is thrown away."""
    report = found.only.plain_path
    if report is None or shutil.which("nsys") is None:
        raise InputError("is a report that only nsys can open", found.name, ADVICE)
    with temporary_folder() as folder:
        exported = folder / "report.sqlite"
        _export(report.resolve(), exported, found.name)
        entry = replace(open_input(exported).only, name=found.only.name)
        return nsys_sqlite.read(replace(found, entries=(entry,)), options)


def _export(report: Path, target: Path, name: str) -> None:
    words = ["nsys", "export", "--type", "sqlite", "--force-overwrite", "true"]
    try:
        done = subprocess.run(
            [*words, "--output", str(target), str(report)],
            capture_output=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError as error:
        raise InputError(f"cannot be exported ({error.strerror})", name, ADVICE) from error
    if done.returncode or not target.is_file():
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        reason = said[-1] if said else f"exit code {done.returncode}"
        raise InputError(f"cannot be exported by nsys ({reason})", name, ADVICE)
