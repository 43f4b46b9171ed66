"""Ranks that are started under `timeroof run` one by one: each has its own files."""

from __future__ import annotations

import os
from pathlib import Path


def rank_here() -> int | None:
    """This process's rank where a launcher started several, else None."""
    rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return int(rank) if rank.isdigit() and size.isdigit() and int(size) > 1 else None


def for_rank(path: Path | None, rank: int | None) -> Path | None:
    """A file or folder of one rank, so that ranks do not overwrite one another's.

    >>> str(for_rank(Path("run.troof"), 1)), str(for_rank(Path("out"), 0))
    ('run.rank1.troof', 'out/rank0')
    """
    if path is None or rank is None:
        return path
    return path.with_suffix(f".rank{rank}{path.suffix}") if path.suffix else path / f"rank{rank}"
