"""A measured machine in the terminal: what was reached beside what should be possible."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from timeroof.core.resources import SCOPES
from timeroof.units import format_percent
from timeroof.views.terminal import console, format_rate, plain_text

if TYPE_CHECKING:
    from timeroof.core.machine import Ceiling, Machine


def print_measured(machine: Machine) -> None:
    """Ceilings by scope: measured, theoretical, their ratio, the spread of the samples."""
    out = console()
    out.print(Text(plain_text(f"{machine.name}: {machine.device}"), style="bold"))
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("resource", no_wrap=True)
    table.add_column("scope", no_wrap=True)
    table.add_column("threads", justify="right")
    for column in ("measured", "theoretical", "ratio", "spread"):
        table.add_column(column, justify="right", no_wrap=True)
    for measured, paper in _pairs(machine):
        best = measured or paper
        if best is None:
            continue
        table.add_row(
            Text(best.resource),
            Text(best.scope),
            Text("" if best.threads is None else str(best.threads)),
            Text(format_rate(measured) if measured else "-"),
            Text(format_rate(paper) if paper else "-"),
            Text(format_percent(measured.rate / paper.rate) if measured and paper else ""),
            Text(
                format_percent(measured.spread) if measured and measured.spread is not None else ""
            ),
        )
    out.print(table)


def _pairs(machine: Machine) -> Iterable[tuple[Ceiling | None, Ceiling | None]]:
    """Measured and theoretical ceiling of every scope and resource, widest scope first.

    A machine with one socket has the same figures for it as for all: said once.
    """
    said: set[tuple[str, float, int | None]] = set()
    for scope in SCOPES:
        measured = {c.resource: c for c in machine.ceilings if _is(c, scope, ("measured",))}
        paper = {c.resource: c for c in machine.ceilings if _is(c, scope, ("theoretical",))}
        for resource in dict.fromkeys([*measured, *paper]):
            best = measured.get(resource) or paper[resource]
            figures = (resource, best.rate, best.threads)
            if scope == "core" or figures not in said:
                yield measured.get(resource), paper.get(resource)
            said.add(figures)


def _is(ceiling: Ceiling, scope: str, origins: tuple[str, ...]) -> bool:
    return ceiling.scope == scope and ceiling.origin in origins


def print_remarks(title: str, lines: Iterable[str], *, style: str = "") -> None:
    """Notes, warnings or errors, one a line."""
    out = console(stderr=True)
    for line in lines:
        out.print(Text.assemble((f"{title}: ", style), plain_text(line)))
