"""Names from files as text that a page may show: printable, of bearable length."""

from __future__ import annotations

import re

from timeroof.views.plain import plain_text

# Marks that stack on a letter: a few belong to a script, hundreds cover the page.
_STACKED = re.compile(
    "([\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{3})"
    "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)


def plain_line(text: str) -> str:
    """A plain text, also without marks that stack above the line.

    >>> plain_line("a\\x1b[31m\\u202eb"), plain_line("[\\n  1024,\\n  8\\n]")
    ('a�[31m�b', '[ 1024, 8 ]')
    """
    return plain_text(text if text.isascii() else _STACKED.sub(r"\1", text))


def plain_lines(text: str) -> str:
    """The same for texts of several lines.

    >>> plain_lines("a\\nb\\u202e")
    'a\\nb�'
    """
    return "\n".join(plain_line(line) for line in text.splitlines())


def clip(text: str, limit: int) -> str:
    """Head and tail of a text that is too long, and how long it was.

    >>> clip("abcdefghijklmnopqrstuvwxyz", 12), clip("short", 12)
    ('abcdefgh…wxyz', 'short')
    """
    if len(text) <= limit:
        return text
    tail = limit // 3
    return f"{text[: limit - tail]}…{text[-tail:]}"
