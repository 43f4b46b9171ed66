"""The terminal: tables and summaries that fit 80 columns, plain where nobody looks."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from timeroof.core import units
from timeroof.core.units import format_percent, format_rate, format_seconds, resource_words
from timeroof.views.style import plain_text

if TYPE_CHECKING:
    from timeroof.core.machine import Ceiling, Machine
    from timeroof.core.report import Finding


__all__ = [
    "console", "plain_text", "print_machine", "print_machines", "print_notes", "print_titles",
    "wrapped",
]  # fmt: skip

PIPE_WIDTH = 160
# Tables: what gives way on a narrow terminal.


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


# What is said there.

# A catalogue's names are what one types: they stay whole, titles give way.
CATALOGUE_COLUMNS = (
    Column("name", "whole"),
    Column("device", "name", least=12, leaves=3),
    Column("FP32", "figure", leaves=1),
    Column("16-bit matrix", "figure", leaves=2),
    Column("DRAM", "figure"),
)
CEILING_COLUMNS = (
    Column("resource", "name", least=16),
    Column("ceiling", "whole"),
    Column("origin", "whole", leaves=1),
    Column("source", "prose", least=16, most=10_000, leaves=2),
)


class _Console(Console):
    """Leaves it to the program what a reader who has gone means; rich would end it with 1."""

    def on_broken_pipe(self) -> None:
        """Nobody reads any more."""
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    """A console for stdout or stderr; rich leaves colour out by itself for pipes and NO_COLOR."""
    out = _Console(stderr=stderr, highlight=False, soft_wrap=False)
    if not out.is_terminal and "COLUMNS" not in os.environ:
        # A pipe has no edge: nothing need be cut.
        return _Console(stderr=stderr, highlight=False, width=PIPE_WIDTH)
    return out


_FIGURE = re.compile(r"(?<=\d) (?=(?:%|[mµn]?s|[kMGTP]?B|[kMGTP]?FLOP)\b|%)")


def wrapped(text: str, width: int) -> list[str]:
    """A text in lines that never part a number from its unit.

    >>> wrapped("It takes 12 % of 3.4 ms", 14)
    ['It takes 12 %', 'of 3.4 ms']
    """
    joined = _FIGURE.sub("\x00", text)
    return [line.replace("\x00", " ") for line in textwrap.wrap(joined, width)]


def print_machines(machines: Sequence[Machine]) -> None:
    """One line per machine: best vector and matrix rate, bandwidth, launch."""
    out = console()
    rows = []
    for m in machines:
        half = m.rate("flop/fp16-tensor") or m.rate("flop/bf16-tensor")
        rates_of = [_rate(m.rate("flop/fp32"), "FLOP/s"), _rate(half, "FLOP/s")]
        names = [plain_text(m.name), plain_text(m.device)]
        rows.append([*names, *rates_of, _rate(m.rate("byte/dram"), "B/s")])
    out.print(fitted_table(CATALOGUE_COLUMNS, rows, out.width))
    many = f"{len(machines)} machines"
    out.print(f"\n{many}. `timeroof machine NAME` shows one with all its sources.")


def print_kept(things: Sequence[tuple[str, str, int, int]]) -> None:
    """One line per purpose of what is kept: how much, and where."""
    out = console()
    for what, folder, files, size_bytes in things:
        size = units.format_amount(size_bytes, "B") if files else "nothing"
        count = f"{files:,} file{'' if files == 1 else 's'}"
        out.print(Text(plain_text(f"{what:28}{size:>10}  {count:>12}  {folder}")))
    out.print("\n`timeroof cache --clear` deletes all but the measured machines.")


def _rate(value: float | None, unit: str) -> str:
    return "-" if value is None else units.format_amount(value, unit)


def print_machine(machine: Machine) -> None:
    """Every ceiling of a machine with origin and source, and its memory."""
    out = console()
    out.print(Text(plain_text(f"{machine.device} · {machine.name}"), style="bold"))
    facts = [machine.vendor, machine.architecture, machine.compute_capability or "", machine.kind]
    queue = f"{machine.launching} launching"
    out.print(Text(plain_text(", ".join([*(f for f in facts if f), queue]))))
    rows = [cells for ceiling in _said_once(machine.ceilings) for cells in _ceiling(ceiling)]
    for level in machine.memory:
        size = units.format_bytes_binary(level.size_bytes)
        rows.append((f"{level.level.upper()} size", size, "", plain_text(level.source)))
        if level.latency_s is not None:
            latency = format_seconds(level.latency_s)
            rows.append((f"{level.level.upper()} latency", latency, "measured", ""))
    out.print(fitted_table(CEILING_COLUMNS, rows, out.width))
    for ceiling in machine.achievable:
        peak = machine.rate(ceiling.resource)
        share = f" ({format_percent(ceiling.rate / peak)} of the ceiling)" if peak else ""
        rate = format_rate(ceiling.resource, ceiling.rate)
        words = f"Achievable {resource_words(ceiling.resource)}: {rate}{share}, {ceiling.origin}"
        out.print(Text(plain_text(f"{words}. {ceiling.source}")))
    if machine.device_names:
        names = ", ".join(plain_text(n) for n in machine.device_names)
        out.print(Text(f"Profilers print it as: {names}"))
    for note in machine.notes:
        out.print(Text(f"Note: {plain_text(note)}"))


def _ceiling(ceiling: Ceiling) -> list[tuple[str, str, str, str]]:
    """A ceiling's line, and one for each of its variants."""
    scope = "" if ceiling.scope == "all" else f" ({ceiling.scope})"
    source = plain_text(ceiling.source)
    rate = format_rate(ceiling.resource, ceiling.rate)
    variants = [
        (f"  {plain_text(name)}", format_rate(ceiling.resource, variant), "", "")
        for name, variant in ceiling.variants.items()
    ]
    return [(resource_words(ceiling.resource) + scope, rate, ceiling.origin, source), *variants]


def _said_once(ceilings: Sequence[Ceiling]) -> list[Ceiling]:
    """Ceilings without those of a socket that is the whole machine."""
    whole = {(c.resource, c.origin, c.rate, c.threads) for c in ceilings if c.scope == "all"}
    return [
        c for c in ceilings
        if c.scope != "socket" or (c.resource, c.origin, c.rate, c.threads) not in whole
    ]  # fmt: skip


def print_titles(findings: Iterable[Finding], *, stderr: bool = True) -> None:
    """What was found, a line each: the subject, then the answer. Reasons are on the page."""
    out = console(stderr=stderr)
    titles = [plain_text(finding.title).partition(": ") for finding in findings]
    width = 2 + max((len(subject) for subject, _, _ in titles), default=0)
    out.print()
    for subject, _, answer in titles:
        lines = wrapped(answer, max(out.width - width, 20)) or [""]
        out.print(Text(f"{subject:{width}}", style="bold") + Text(f"\n{' ' * width}".join(lines)))


def print_notes(notes: Iterable[str], *, stderr: bool = True) -> None:
    """Notes, one a line."""
    out = console(stderr=stderr)
    for note in notes:
        out.print(Text(f"Note: {plain_text(note)}"))
