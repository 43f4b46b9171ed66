"""Where a profiler's files are collected: what is kept for a look, and what goes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from timeroof.core.errors import InputError
from timeroof.counters.processes import workspace


def failed(words: str | None) -> Path:
    """The folder of a collection that failed, after a file was written or before."""
    place = Path()
    try:
        with workspace(None) as space:
            place = space.folder
            if words is not None:
                (space.output / "stdout").write_text(words)
            raise InputError("the tool failed")
    except InputError:
        return place


@pytest.mark.parametrize("words", [None, "why it failed"])
def test_a_collection_that_failed_leaves_a_folder_only_with_files_in_it(words: str | None) -> None:
    place = failed(words)
    assert place.exists() == (words is not None)
    shutil.rmtree(place, ignore_errors=True)
