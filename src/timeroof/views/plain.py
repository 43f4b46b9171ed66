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
    # Plain spaces stay as they are; what holds another white character is one of them.
    spaced = _WHITE.sub(lambda white: white[0] if white[0].isprintable() else " ", text)
    return "".join(c if c.isprintable() else REPLACEMENT for c in spaced)


# Names from files as text that a page may show: printable, of bearable length.

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


_MARKUP = re.compile(r"([\\`*_{}\[\]#|!~$])")


def markdown_text(text: str, limit: int = 2_000) -> str:
    """Text from a file that stays text in Markdown: no markup, no mention of anybody.

    >>> markdown_text("<b>*x* @someone")
    '&lt;b&gt;\\\\*x\\\\* @<!-- -->someone'
    """
    from html import escape

    escaped = _MARKUP.sub(r"\\\1", escape(plain_line(clip(text, limit)), quote=False))
    return escaped.replace("@", "@<!-- -->")
