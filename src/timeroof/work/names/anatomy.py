"""A kernel name taken apart: the function, its template arguments, its parameters.

Profilers spell one kernel in many ways: `(anonymous namespace)::` or `<unnamed>::`, `4` or
`(int)4` or `int=4`, mangled or not, cut off or whole. Here they become one spelling.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from timeroof.work.names.demangle import demangle

# Names are untrusted and may be huge: what matters stands in the first few thousand characters.
LONGEST_NAME = 6000

_SPELLINGS = (
    (re.compile(r"(?<=\w)<unnamed>::"), "<"),  # damaged: the qualifier in front was stripped
    (re.compile(r"\(anonymous namespace\)::|<?unnamed>::|_GLOBAL__N_\w+::|_INTERNAL_\w+::"), ""),
    (re.compile(r"\((?:int|bool|(?:unsigned )?(?:char|short|int|long|long long))\)(?=-?\d)"), ""),
    (re.compile(r"\b(?:int|bool|unsigned int|unsigned long|cudnn\w+)=(?=-?\d)"), ""),
    (re.compile(r" \[clone [^\]]*\]$| \(\.kd\)$|\.kd$"), ""),
    (re.compile(r"\s+"), " "),
)
_OPENING = {"<": ">", "(": ")", "[": "]", "{": "}"}
_CLOSING = frozenset(_OPENING.values())


@dataclass(frozen=True)
class Anatomy:
    """The parts of a name; `text` is the whole in one spelling."""

    text: str
    head: str
    arguments: str = ""
    parameters: str = ""

    @property
    def function(self) -> str:
        """The bare name of the function, without namespaces."""
        return self.head.rsplit("::", 1)[-1]

    @property
    def signature(self) -> str:
        """Head and template arguments: all but the parameters."""
        return f"{self.head}<{self.arguments}>" if self.arguments else self.head


def take_apart(name: str) -> Anatomy:
    """Clean a name and split it.

    >>> take_apart("void at::native::fill<(int)4, float>(int, float*)")
    Anatomy(text='at::native::fill<4, float>(int, float*)', head='at::native::fill', \
arguments='4, float', parameters='int, float*')
    """
    text = clean(name)
    if text.startswith(("[", "Memcpy", "Memset")):
        return Anatomy(text=text, head=text)
    start, end = _function_span(text)
    whole = text[start:]
    head, arguments = _split_templates(text[start:end])
    return Anatomy(whole, head, arguments, text[end:].removeprefix("(").removesuffix(")"))


def clean(name: str) -> str:
    """One line of printable text in one spelling, of bounded length."""
    text = demangle("".join(c if c.isprintable() else " " for c in name[:LONGEST_NAME]).strip())
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    return text.strip()


def _function_span(text: str) -> tuple[int, int]:
    """Where the function's name begins (after what it returns) and ends (before parameters)."""
    start = 0
    open_brackets: list[str] = []
    for i, letter in enumerate(text):
        if not open_brackets and letter == "(" and i > start:
            return start, i
        if not open_brackets and letter == " " and i + 1 < len(text) and text[i + 1] != "(":
            start = i + 1
        if letter in _OPENING:
            open_brackets.append(_OPENING[letter])
        elif letter in _CLOSING and open_brackets:
            # A '>' inside parentheses is a comparison, not a bracket.
            if open_brackets[-1] == letter:
                open_brackets.pop()
            elif letter != ">" and letter in open_brackets:
                while open_brackets.pop() != letter:
                    pass
    return start, len(text)


def _split_templates(name: str) -> tuple[str, str]:
    """The qualified name without template arguments, and those of its last component."""
    head: list[str] = []
    depth, begin, arguments = 0, 0, ""
    for i, letter in enumerate(name):
        if letter == "<":
            begin, depth = (i + 1 if depth == 0 else begin), depth + 1
        elif letter == ">" and depth:
            depth -= 1
            arguments = name[begin:i] if depth == 0 else arguments
        elif depth == 0:
            head.append(letter)
    if depth:  # the name was cut off inside its arguments
        arguments = name[begin:]
    return "".join(head).strip(), arguments.strip()
