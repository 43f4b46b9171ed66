"""Patterns of bounded reach: names are untrusted, and no search may take more than linear time."""

from __future__ import annotations

import re

WORD_REACH = 250
TEXT_REACH = 400


def bounded(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a pattern in which `\\w*` and `.*` reach a fixed number of characters.

    >>> bounded(r"a.*b").pattern
    'a.{0,400}b'
    """
    for endless, least in ((r"\w", WORD_REACH), (".", TEXT_REACH)):
        pattern = pattern.replace(f"{endless}*", f"{endless}{{0,{least}}}")
        pattern = pattern.replace(f"{endless}+", f"{endless}{{1,{least}}}")
    return re.compile(pattern, flags)
