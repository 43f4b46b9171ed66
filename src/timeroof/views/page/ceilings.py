"""A machine's ceilings for the page: the roof that counts, measured and printed side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from timeroof.core.resources import LAUNCH
from timeroof.core.units import format_bytes_binary, format_percent
from timeroof.views.rates import format_rate

if TYPE_CHECKING:
    from timeroof.core.machine import Ceiling, Machine
    from timeroof.core.report import Report

MEASURED = ("user", "measured")
_ORDER = {"flop": 0, "byte": 1, "launch": 2, "fault": 3, "link": 4}


@dataclass(frozen=True)
class CeilingLine:
    """One resource: what was measured, what is printed, and whether the run uses it."""

    resource: str
    measured: str
    printed: str
    share: str
    used: bool
    source: str


def ceiling_lines(report: Report) -> list[CeilingLine]:
    """Every resource that the machine has a figure for, those of the run first."""
    machine = report.machine
    if machine is None:
        return []
    used = {*report.verdicts.resources, LAUNCH}
    by_resource: dict[str, list[Ceiling]] = {}
    for ceiling in machine.ceilings:
        if ceiling.scope == "all" or ceiling.resource == LAUNCH:
            by_resource.setdefault(ceiling.resource, []).append(ceiling)
    lines = [_line(resource, found, resource in used) for resource, found in by_resource.items()]
    return sorted(lines, key=lambda line: (not line.used, _ORDER.get(_head(line.resource), 9)))


def _line(resource: str, ceilings: list[Ceiling], used: bool) -> CeilingLine:
    measured = next((c for o in MEASURED for c in ceilings if c.origin == o), None)
    printed = next((c for c in ceilings if c.origin not in MEASURED), None)
    share = ""
    if measured is not None and printed is not None:
        share = format_percent(measured.rate / printed.rate)
    sources = dict.fromkeys(f"{c.origin}: {c.source}" for c in ceilings if c.source)
    return CeilingLine(
        resource=resource,
        measured=_rate(measured, measured_here=True),
        printed=_rate(printed),
        share=share,
        used=used,
        source="; ".join(sources),
    )


def _rate(ceiling: Ceiling | None, *, measured_here: bool = False) -> str:
    if ceiling is None:
        return ""
    text = format_rate(ceiling.resource, ceiling.rate)
    if ceiling.spread:
        text += f" ± {format_percent(ceiling.spread / 2)}"
    if ceiling.origin not in ("measured", "datasheet") or not measured_here:
        text += f" ({ceiling.origin})" if ceiling.origin != "measured" else ""
    return text


def _head(resource: str) -> str:
    return resource.partition("/")[0]


def machine_facts(machine: Machine) -> list[str]:
    """What a machine is, in a few words each."""
    sizes = [f"{m.level.upper()} {format_bytes_binary(m.size_bytes)}" for m in machine.memory]
    named = [machine.vendor, machine.architecture, machine.kind, f"{machine.launching} launching"]
    return [*(fact for fact in named if fact), *sizes]
