"""Patterns of bounded reach: names are untrusted, and no search may take more than linear time."""

from __future__ import annotations

import re
from functools import cached_property

WORD_REACH = 250
TEXT_REACH = 400


class Bounded:
    """A pattern that is compiled when it is first asked: a run needs few of hundreds."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern, self._flags = pattern, flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, self._flags)

    def search(self, text: str) -> re.Match[str] | None:
        """The first match anywhere in a text."""
        return self._compiled.search(text)


def bounded(pattern: str, flags: int = 0) -> Bounded:
    """A pattern in which `\\w*` and `.*` reach a fixed number of characters.

    >>> bounded(r"a.*b").pattern
    'a.{0,400}b'
    """
    for endless, least in ((r"\w", WORD_REACH), (".", TEXT_REACH)):
        pattern = pattern.replace(f"{endless}*", f"{endless}{{0,{least}}}")
        pattern = pattern.replace(f"{endless}+", f"{endless}{{1,{least}}}")
    return Bounded(pattern, flags)
