"""What is said of a reader without importing it is what the reader says itself."""

from __future__ import annotations

import pytest

from timeroof.read.formats import LISTED, Listed


@pytest.mark.parametrize("listed", LISTED, ids=lambda listed: listed.module)
def test_listed_names_are_the_readers_own(listed: Listed) -> None:
    assert listed.names == tuple(f.name for f in listed.formats())
