"""What people read, cut into sentences: prose without code, tables, links and markup."""

from __future__ import annotations

import html
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# A resource's code in prose; `fault` alone is a code, "page fault" is not.
CODE = re.compile(r"\b(?:flop|byte|link|hop|pipe)/[a-z]|(?<!page )(?<!page-)\bfault\b(?!-)")
# Grows: what we do not write (guide: subject, verb, number, unit; the field's own words).
BANNED = (
    "come back", "comes back", "bring back", "bound by being", "cannot be told", "not told",
    "clean step", "let go", "seconds order", "limits broken", "ladder of limits", "rows that",
    "by place", "printed or theoretical", "it moves, but", "was seen to move", "seconds go",
    "told apart by", "is told by", "as profilers print it, no", "the true time",
)  # fmt: skip
_SENTENCE = re.compile(r"(?<=[^\W\d_]{2}[.!?:;])\s+|(?<=[\d)%”\"'`’][.!?:;])\s+|\n\s*\n")
_WORD = re.compile(r"[^\W_][^\s]*")


def sentences(text: str) -> list[str]:
    """The sentences of a prose; a part before a colon or semicolon is one of its own.

    >>> sentences("It takes 3.5 ms. Why? Copies: all of them.")
    ['It takes 3.5 ms.', 'Why?', 'Copies:', 'all of them.']
    """
    return [" ".join(s.split()) for s in _SENTENCE.split(text) if s and s.strip()]


def word_count(sentence: str) -> int:
    """Words and numbers; a number with its unit is one.

    >>> word_count("It takes 3.5 ms, 12 % of the run (the step).")
    9
    """
    plain = re.sub(r"(\d)\s(?=[%µmnkMGTP]?(?:s|B|FLOP|OP)?(?:/s)?\b|%)", r"\1", sentence)
    return len(_WORD.findall(plain))


def faults_of(text: str, longest: int) -> list[str]:
    """What is wrong with a prose: codes, phrases that we gave up, sentences that are too long."""
    low = text.lower()
    found = [f"code {m.group()!r} in: {_around(text, m.start())}" for m in CODE.finditer(text)]
    found += [
        f"phrase {phrase!r} in: {_around(text, low.index(phrase))}"
        for phrase in BANNED
        if phrase in low
    ]
    return found + [
        f"{word_count(s)} words: {s}" for s in sentences(text) if word_count(s) > longest
    ]


def _around(text: str, place: int) -> str:
    return " ".join(text[max(0, place - 40) : place + 60].split())


def markdown_prose(text: str) -> str:
    """A Markdown page without code, tables, links' targets and pictures; items stand apart."""
    text = re.sub(r"^```.*?^```\s*$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("|")]
    lines = [line for line in lines if not line.startswith("    ")]
    text = "\n".join(re.sub(r"^\s*(?:[-*+]|\d+\.|#+|>)\s", "\n\n", line) for line in lines)
    # A line of a list that goes on is indented: code blocks are by four, lists by two or three.
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]+`", "Code", text)
    return re.sub(r"\*\*?|__", "", text)


def page_prose(text: str) -> str:
    """What a template or a page shows, without tables, code, scripts, styles and charts."""
    for tag in ("script", "style", "table", "code", "pre", "svg", "template", "head"):
        text = re.sub(rf"<{tag}\b.*?</{tag}>", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"\{#.*?#\}|\{%.*?%\}", "", text, flags=re.DOTALL)
    text = re.sub(r"\{\{.*?\}\}", "X", text, flags=re.DOTALL)
    text = re.sub(r"</?(?:b|i|em|strong|small|span|a|abbr|kbd)\b[^>]*>", "", text)
    return html.unescape(re.sub(r"<[^>]*>", "\n\n", text))


def terminal_prose(text: str) -> str:
    """What a command prints, without its tables: lines with two gaps, boxes and bars."""
    kept = []
    for line in text.splitlines():
        is_table = len(re.findall(r"\S {2,}\S", line)) >= 2 or re.search(r"[█░▏╭╰]", line)
        kept.append("" if is_table else re.sub(r"[│]", " ", line))
    # A wrapped line goes on; an empty one ends what stood before.
    return "\n".join(kept)
