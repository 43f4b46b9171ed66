"""How everything is shown: texts from files on one line and escaped, and one set of colours."""

from __future__ import annotations

import re
from typing import NamedTuple

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


class LimiterLook(NamedTuple):
    """How a kind of limiter is called and coloured.

    Print has Okabe and Ito's colours, which are told apart by all common kinds of colour vision.
    On a screen white or black letters stand on them, which takes a darker or a lighter shade.
    """

    word: str
    print: str
    light: str
    dark: str
    terminal: str
    # The shape in charts and its matplotlib marker, so that colour is never the only sign.
    symbol: str
    marker: str


LIMITERS = {
    "compute": LimiterLook("compute", "#0072B2", "#0072b2", "#4aa8e0", "blue", "circle", "o"),
    "memory": LimiterLook("memory", "#D55E00", "#c25400", "#f0843c", "dark_orange", "square", "s"),
    "launch": LimiterLook("launching", "#CC79A7", "#8e2f6c", "#df86b4", "magenta", "diamond", "D"),
    "latency": LimiterLook("latency", "#56B4E9", "#56b4e9", "#a5d8f7", "cyan", "pentagon", "p"),
    "fault": LimiterLook("page faults", "#E69F00", "#e3b000", "#f2cf63", "red", "cross", "P"),
    "link": LimiterLook("links", "#009E73", "#00563d", "#2fd3a0", "green", "triangle", "^"),
    "unknown": LimiterLook(
        "unknown", "#999999", "#c3c9d1", "#4a525d", "bright_black", "circle", "o"
    ),
}
LIMITER_WORDS = {kind: look.word for kind, look in LIMITERS.items()}
LIMITER_COLOURS = {kind: look.print for kind, look in LIMITERS.items()}
TERMINAL_COLOURS = {kind: look.terminal for kind, look in LIMITERS.items()}

# Series of a picture, and of the page in light and in dark: runs, phases, modules, frameworks.
PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8C6D1F", "#000000",
)  # fmt: skip
SCREEN_PALETTES = {
    "light": (
        "#0072b2", "#d55e00", "#009e73", "#b5578f", "#c48a00", "#3f9bd8", "#7a5d16", "#6f4fc4",
        "#a3384a",
    ),
    "dark": (
        "#4aa8e0", "#f0843c", "#3fc49b", "#d98cbc", "#e9b949", "#a5d8f7", "#c3a353", "#ab95f2",
        "#f08a9b",
    ),
}  # fmt: skip


def limited_by(kind: str) -> str:
    """A kind of limiter in a legend.

    >>> limited_by("fault"), limited_by("unknown")
    ('limited by page faults', 'limit unknown')
    """
    return "limit unknown" if kind == "unknown" else f"limited by {LIMITERS[kind].word}"


def limiter_styles() -> str:
    """The colours of limiters and series as CSS variables, light and dark, a class per limiter."""
    light, dark = (
        " ".join(
            [
                *(f"--{kind}: {getattr(look, theme)};" for kind, look in LIMITERS.items()),
                *(f"--series-{n}: {c};" for n, c in enumerate(SCREEN_PALETTES[theme])),
            ]
        )
        for theme in ("light", "dark")
    )
    classes = " ".join(
        f".kind-{kind} {{ background: var(--{kind}); }}"
        f" .ink-{kind} {{ color: var(--{kind}); fill: var(--{kind}); }}"
        for kind in LIMITERS
    )
    # Unknown is hatched: no other part of a bar is. As a text it has the colour of soft words.
    classes += (
        " .kind-unknown { background: repeating-linear-gradient("
        "135deg, var(--unknown) 0 4px, var(--faint) 4px 7px); }"
        " .ink-unknown { color: var(--soft); fill: var(--soft); }"
    )
    return (
        f":root {{ {light} }}\n"
        f':root[data-theme="dark"] {{ {dark} }}\n'
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme]) {{ {dark} }} }}\n"
        f"{classes}\n"
    )


def page_look() -> dict[str, object]:
    """What the page's script needs of this table."""
    symbols = {kind: look.symbol for kind, look in LIMITERS.items()}
    # Parts of the run that are no limiters, as the first screen's bar has them.
    words = LIMITER_WORDS | {"communication": "communication", "copy": "copies"}
    symbols |= {"communication": symbols["link"], "copy": "hexagon"}
    return {"words": words, "symbols": symbols, **SCREEN_PALETTES}
