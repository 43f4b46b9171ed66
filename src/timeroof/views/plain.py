"""Text from files as one line that a reader can see: the only place where that is decided."""

from __future__ import annotations

import re

REPLACEMENT = "\ufffd"
_WHITE = re.compile(r"\s+")


def plain_text(text: str) -> str:
    """A text on one line, without characters that could steer a terminal or reorder a line.

    Line ends and tabs of a pretty-printed text are one space, with the indentation around them.

    >>> plain_text("a\\x1b[31m\\u202eb\\n\\t c  d")
    'a�[31m�b c  d'
    """
    if text.isprintable():
        return text
    spaced = _WHITE.sub(_one_space, text)
    return "".join(c if c.isprintable() else REPLACEMENT for c in spaced)


def _one_space(white: re.Match[str]) -> str:
    """Plain spaces stay as they are; what holds another white character is one of them."""
    return white[0] if white[0].isprintable() else " "
