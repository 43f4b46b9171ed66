"""A measured machine in the terminal: what was reached beside what should be possible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from timeroof.core.resources import SCOPES
from timeroof.core.units import format_cores, format_percent, format_rate, format_seconds
from timeroof.views.terminal import console, plain_text
from timeroof.views.terminal_table import Column, fitted_table

if TYPE_CHECKING:
    from timeroof.core.machine import Ceiling, Machine

COLUMNS = (
    Column("resource", "whole"),
    Column("scope", "whole", leaves=1),
    Column("threads", "figure", leaves=2),
    Column("measured", "figure"),
    Column("theoretical", "figure", leaves=3),
    Column("ratio", "figure", leaves=4),
    Column("spread", "figure", leaves=5),
)


def print_measured(machine: Machine, clocks_hz: Mapping[int, float] | None = None) -> None:
    """Ceilings by scope: measured, theoretical, their ratio, the spread of the samples.

    `clocks_hz` by threads: what theoretical figures are made of.
    """
    out = console()
    out.print(Text(plain_text(f"{machine.name}: {machine.device}"), style="bold"))
    rows = [_cells(measured, paper) for measured, paper in _pairs(machine)]
    out.print(fitted_table(COLUMNS, rows, out.width))
    if clocks_hz:
        clocks = [f"{hz / 1e9:.2f} GHz on {format_cores(n)}" for n, hz in clocks_hz.items()]
        words = "clock, measured, from which theoretical figures come"
        out.print(Text(f"{words}: {', '.join(clocks)}"))
    latencies = [
        f"{level.level} {format_seconds(level.latency_s)}"
        for level in machine.memory
        if level.latency_s is not None
    ]
    if latencies:
        out.print(Text(f"a load that waits for the one before: {', '.join(latencies)}"))


def _cells(measured: Ceiling | None, paper: Ceiling | None) -> tuple[str, ...]:
    best = measured or paper
    spread = measured.spread if measured else None
    return (
        best.resource if best else "",
        best.scope if best else "",
        "" if best is None or best.threads is None else str(best.threads),
        format_rate(measured.resource, measured.rate) if measured else "-",
        format_rate(paper.resource, paper.rate) if paper else "-",
        format_percent(measured.rate / paper.rate) if measured and paper else "",
        format_percent(spread) if spread is not None else "",
    )


def _pairs(machine: Machine) -> Iterable[tuple[Ceiling | None, Ceiling | None]]:
    """Measured and theoretical ceiling of every scope and resource, widest scope first.

    A machine with one socket has the same figures for it as for all: said once.
    """
    one = all(c.threads in (None, 1) for c in machine.ceilings)
    said: set[tuple[str, float, int | None]] = set()
    for scope in SCOPES:
        own = [c for c in machine.ceilings if c.scope == scope]
        measured = {c.resource: c for c in own if c.origin == "measured"}
        paper = {c.resource: c for c in own if c.origin == "theoretical"}
        for resource in dict.fromkeys([*measured, *paper]):
            best = measured.get(resource) or paper[resource]
            figures = (resource, best.rate, best.threads)
            if (scope == "core" and not one) or figures not in said:
                yield measured.get(resource), paper.get(resource)
            said.add(figures)


def print_remarks(title: str, lines: Iterable[str], *, style: str = "") -> None:
    """Notes, warnings or errors, one a line."""
    out = console(stderr=True)
    for line in lines:
        out.print(Text.assemble((f"{title}: ", style), plain_text(line)))
