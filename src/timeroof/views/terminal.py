"""The terminal: tables and summaries that fit 80 columns, plain where nobody looks."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from timeroof.core import units
from timeroof.core.units import format_percent, format_rate, format_seconds, resource_words
from timeroof.views.plain import plain_text
from timeroof.views.terminal_table import Column, fitted_table

if TYPE_CHECKING:
    from timeroof.core.machine import Ceiling, Machine
    from timeroof.core.report import Finding

__all__ = [
    "console", "plain_text", "print_machine", "print_machines", "print_notes", "print_titles",
    "wrapped",
]  # fmt: skip

PIPE_WIDTH = 160
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
