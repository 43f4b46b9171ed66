"""How the numbers of one row came about, in the terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.text import Text

from timeroof.core.shapes import SHOWN_TENSORS, shape_text
from timeroof.core.units import format_amount, format_percent, format_seconds
from timeroof.views.terminal import console, plain_text
from timeroof.views.terminal_table import Cell, Column, fitted_table

if TYPE_CHECKING:
    from timeroof.core.columns import Number
    from timeroof.core.why import Why, WhyLine

COLUMNS = (Column("", "name", least=12), Column("", "figure"), Column("", "prose", least=24))
_WORD = re.compile(r"\w+")
# Numbers that are shares.
SHARES = ("kernel_efficiency", "efficiency", "time_spread")


def print_why(why: Why, *, stderr: bool = False) -> None:
    """Every number of a row with its formula, sizes and source."""
    out = console(stderr=stderr)
    op = f" ({why.op})" if why.op else ""
    out.print(Text(plain_text(f"Row {why.id}: {why.short_name}{op}"), style="bold"))
    facts = {
        "module": why.module,
        "shape": shape_text(why.shape, SHOWN_TENSORS),
        "kernel": why.name,
    }
    for name, text in facts.items():
        if text and text != why.short_name:
            out.print(Text(f"{name}: {plain_text(text)}"))
    out.print()
    lines = [_cells(line) for line in why.lines if not _is_nothing(line)]
    out.print(fitted_table(COLUMNS, lines, out.width))
    out.print()
    for sentence in why.change:
        out.print(Text(plain_text(sentence)))


def _is_nothing(line: WhyLine) -> bool:
    """Whether a line says that the row does none of something."""
    return line.value == 0 and ("/" in line.name or line.name.endswith("_flops"))


def _cells(line: WhyLine) -> list[Cell]:
    return [plain_text(line.title), why_value(line), plain_text(why_words(line))]


def why_value(line: WhyLine) -> str:
    """A number as a person reads it; `?` where nobody knows it."""
    value = line.value
    if value is None or isinstance(value, str):
        return "?" if value is None else plain_text(value)
    if line.name in SHARES:
        return format_percent(value)
    if line.name in ("calls", "launches"):
        return f"{value:,.6g}"
    return format_seconds(value) if line.unit == "s" else format_amount(value, line.unit or "")


def why_words(line: WhyLine) -> str:
    """The formula with its sizes filled in, and where they are from; or why it is unknown."""
    if line.unknown is not None and line.value is None:
        return f"unknown because {line.unknown}"
    told = [f"= {line.formula} = {filled_in(line.formula, line.sizes)}"] if line.formula else []
    return "; ".join([*told, *([line.source] if line.source else [])])


def filled_in(formula: str, sizes: dict[str, Number]) -> str:
    """A formula with its sizes in place of their names.

    >>> filled_in("2·M·N·calls", {"M": 512, "N": 4864, "calls": 48.0})
    '2·512·4864·48'
    """
    return _WORD.sub(lambda m: _digits(sizes[m[0]]) if m[0] in sizes else m[0], formula)


def _digits(value: Number) -> str:
    whole = float(value).is_integer() and abs(value) < 1e15
    return f"{int(value)}" if whole else f"{value:.6g}"
