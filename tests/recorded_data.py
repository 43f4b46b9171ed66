"""The folder of recorded profiler files, where it is there: the only place that knows it.

The folder grows. A test over the whole folder takes what is there and asks what is true of any
file; exact figures are of files that the test names. `recorded_files.tsv` names the files that
were looked at, each with its format or with the words of its refusal.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[2] / "shared" / "data"
DATA = Path(os.environ.get("TIMEROOF_TEST_DATA") or BESIDE_THE_REPOSITORY).resolve()

needs_recorded_data = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"the recorded data is not here ({DATA})"
)


def _looked_at() -> dict[str, str]:
    lines = Path(__file__).with_name("recorded_files.tsv").read_text().splitlines()
    return dict(line.split("\t") for line in lines)


# Format, or "refused: " and words of the refusal, by the file's place in the folder.
LOOKED_AT = _looked_at()


def place(path: Path) -> str:
    """A file by its place in the folder."""
    return path.relative_to(DATA).as_posix()


def files(*patterns: str) -> list[Path]:
    """What is there, of whatever name; all of it without a pattern."""
    found = {p for pattern in patterns or ("**/*",) for p in DATA.glob(pattern) if p.is_file()}
    return sorted(found)


def looked_at(*patterns: str) -> list[Path]:
    """Those of the files that are named in `recorded_files.tsv`."""
    return [path for path in files(*patterns) if place(path) in LOOKED_AT]
