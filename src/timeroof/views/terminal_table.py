"""Tables for a terminal of any width: figures stay whole, words give way, then columns go.

A table that is too wide loses, in this order: the length of its bars, the ends of its words (the
widest first), then whole columns. A digit is never cut: a cut figure is another figure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

GAP = 2
# Longer names are cut also where there is room: nobody reads them in a table.
LONGEST_NAME = 100
Kind = Literal["figure", "whole", "name", "path", "prose", "bar"]
WORDS = ("name", "path", "prose")


class Bar(msgspec.Struct, frozen=True):
    """A bar as shares of the longest one: how long, of which sign, in which colour."""

    parts: Sequence[tuple[float, str, str]]

    def drawn(self, width: int) -> Text:
        """The bar in so many characters; what is there at all has one.

        >>> [Bar([(s, "█", ""), (s / 2, "░", "")]).drawn(8).plain for s in (0.5, 0.01, 0.0)]
        ['████░░', '░', '']
        """
        text, share, end = Text(), 0.0, 0
        for part, sign, style in self.parts:
            share += part
            text.append(sign * (min(width, round(share * width)) - end), style)
            end = min(width, round(share * width))
        signs = [(sign, style) for part, sign, style in self.parts if part > 0]
        return text if text or not signs else Text(*signs[-1])


Cell = str | Text | Bar


class Column(msgspec.Struct, frozen=True):
    """A column: what it holds, and how it gives way.

    A `figure` and what is `whole` are never cut, nor are their heads; a `name` is cut at its end,
    a `path` at its start, `prose` goes on in the next line. `least` and `most` are the width of
    words and bars. Columns with the highest `leaves` go first where there is no room; 0 stays.
    """

    head: str
    kind: Kind
    least: int = 10
    most: int = LONGEST_NAME
    leaves: int = 0


class _Sized(msgspec.Struct, dict=True):
    """A column with its cells and its width: wanted, at least, given."""

    column: Column
    cells: Sequence[Cell]

    def __post_init__(self) -> None:
        content = max((_width(cell, self.column.most) for cell in self.cells), default=0)
        wanted = max(cell_len(self.column.head), content)
        flexible = self.column.kind in (*WORDS, "bar")
        self.wanted = min(wanted, self.column.most) if flexible else wanted
        self.least = min(self.wanted, self.column.least) if flexible else wanted
        self.given = self.wanted


def _width(cell: Cell, longest: int) -> int:
    if isinstance(cell, Bar):
        return longest
    text = cell.plain if isinstance(cell, Text) else cell
    return max((cell_len(line) for line in text.split("\n")), default=0)


def fitted_table(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int, *, indent: int = 0
) -> RenderableType:
    """Rows as a table that fits so many characters; heads are left out where none has a text."""
    cells = list(zip(*rows, strict=True)) or [()] * len(columns)
    sized = [
        _Sized(column, column_cells) for column, column_cells in zip(columns, cells, strict=True)
    ]
    kept = _kept(sized, width - indent)
    _shrink(kept, width - indent)
    table = Table(
        box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0),
        show_header=any(column.head for column in columns),
    )  # fmt: skip
    for part in kept:
        table.add_column(
            Text(part.column.head),
            width=part.given,
            justify="right" if part.column.kind == "figure" else "left",
            no_wrap=part.column.kind != "prose",
            overflow="fold" if part.column.kind == "prose" else "ellipsis",
        )
    for index in range(len(rows)):
        table.add_row(*(_shown(part, part.cells[index]) for part in kept))
    return Padding(table, (0, 0, 0, indent), expand=False) if indent else table


def _kept(sized: Sequence[_Sized], width: int) -> list[_Sized]:
    """The columns that have room at their least width."""
    kept = list(sized)
    while _needed(kept, lambda part: part.least) > width:
        first = max(part.column.leaves for part in kept)
        if first == 0:
            break
        kept = [part for part in kept if part.column.leaves < first]
    return kept


def _needed(parts: Sequence[_Sized], of: Callable[[_Sized], int]) -> int:
    return sum(of(part) for part in parts) + GAP * (len(parts) - 1)


def _shrink(parts: Sequence[_Sized], width: int) -> None:
    """Take what is too much from bars, then from the widest words, at last below their least."""
    excess = _needed(parts, lambda part: part.given) - width
    bars = [part for part in parts if part.column.kind == "bar"]
    words = [part for part in parts if part.column.kind in WORDS]
    for some, below in ((bars, False), (words, False), (words, True)):
        while excess > 0 and (widest := _widest(some, below=below)) is not None:
            widest.given -= 1
            excess -= 1


def _widest(parts: Sequence[_Sized], *, below: bool) -> _Sized | None:
    """The widest column that may still give way; `below` even its least width."""
    able = [part for part in parts if part.given > (1 if below else part.least)]
    return max(able, key=lambda part: part.given, default=None)


def _shown(part: _Sized, cell: Cell) -> Text:
    if isinstance(cell, Bar):
        return cell.drawn(part.given)
    text = cell if isinstance(cell, Text) else Text(cell)
    return Text(_end(text.plain, part.given)) if part.column.kind == "path" else text


def _end(text: str, width: int) -> str:
    """The end of a path that has room.

    >>> _end("model/layers/7/mlp", 8), _end("mlp", 8)
    ('…s/7/mlp', 'mlp')
    """
    if cell_len(text) <= width:
        return text
    kept = text[-width:]
    while kept and cell_len(kept) >= width:
        kept = kept[1:]
    return f"…{kept}"
