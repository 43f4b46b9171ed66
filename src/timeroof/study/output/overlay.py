"""Rows of another machine beside those of a study: the paper's V100 at the same values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from timeroof.core.profile import LABEL
from timeroof.core.units import format_amount, format_seconds
from timeroof.study.factors.cases import (
    PARAMETER,
    Row,
    Sweep,
    case_text,
    in_order,
    label,
    ops,
    parameters,
    sweeps,
)
from timeroof.study.factors.published import published_cases

if TYPE_CHECKING:
    from timeroof.core.machine import Machine
    from timeroof.core.report import Report

# Which charts a study has: one per kernel, pass, number of threads and swept parameter.


@dataclass(frozen=True)
class Panel:
    """Everything that one chart and one table of a sweep show."""

    op: str
    pass_name: str
    threads: str
    parameter: str
    fixed: str
    rows: list[Row]
    # Rows of another machine, such as the paper's, at the same values.
    overlay: list[Row] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The panel in words."""
        return f"{self.op}, {self.pass_name}: {self.parameter.replace('_', ' ')}"

    @property
    def values(self) -> list[str]:
        """Values of the parameter, in order."""
        column = f"{LABEL}{self.parameter}"
        return list(dict.fromkeys(row[column] for row in in_order(self.rows, self.parameter)))


@dataclass(frozen=True)
class Overview:
    """All rows of one kernel, pass and number of threads."""

    op: str
    pass_name: str
    threads: str
    rows: list[Row]
    overlay: list[Row] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The overview in words."""
        return f"{self.op}, {self.pass_name}"


def panels(rows: pl.DataFrame) -> list[Panel]:
    """A panel per kernel, pass, threads and parameter; of several sweeps the widest."""
    found = []
    for op in ops(rows):
        names = parameters(rows, op)
        held: dict[tuple[str, str, str], dict[str, list[Sweep]]] = {}
        for sweep in sweeps(rows, op):
            first = sweep.rows[0]
            others = [n for n in names if n != sweep.parameter]
            place = (_text(first, "pass"), _text(first, "threads"), sweep.parameter)
            held.setdefault(place, {}).setdefault(case_text(first, others), []).append(sweep)
        for (pass_name, threads, parameter), by_fixed in held.items():
            fixed, members = max(
                by_fixed.items(), key=lambda item: sum(len(s.rows) for s in item[1])
            )
            found.append(
                Panel(
                    op,
                    pass_name,
                    threads,
                    parameter,
                    fixed,
                    in_order([row for s in members for row in s.rows], parameter),
                )
            )
    return found


def overviews(rows: pl.DataFrame) -> list[Overview]:
    """All rows by kernel, pass and threads."""
    known = rows.filter(pl.col("kind") == "unit", pl.col("time_s") > 0)
    held: dict[tuple[str, str, str], list[Row]] = {}
    for row in known.to_dicts():
        held.setdefault((row["op"], _text(row, "pass"), _text(row, "threads")), []).append(row)
    order = ops(rows)
    return [
        Overview(*place, members)
        for place, members in sorted(held.items(), key=lambda item: order.index(item[0][0]))
    ]


def _text(row: Row, name: str) -> str:
    return label(row, name) or ""


# The paper's names of frameworks, best match first.
_FRAMEWORKS = {"torch": "PT", "tensorflow": "TF2"}


@dataclass(frozen=True)
class Overlay:
    """The other machine's judged rows, in the words of a study."""

    rows: list[Row]
    machine: Machine

    @property
    def name(self) -> str:
        """The machine in a legend."""
        return self.machine.device

    @property
    def short_name(self) -> str:
        """The machine where room is short."""
        return "paper's V100" if "V100" in self.name else self.machine.name[:24]


def overlay_of(report: Report) -> Overlay:
    """A published report as an overlay: labels in the study's words, verdicts its own."""
    assert report.machine is not None
    return Overlay(published_cases(report.rows).to_dicts(), report.machine)


def beside_panel(panel: Panel, overlay: Overlay) -> Panel:
    """A panel with the other machine's rows of the same cases, if it has the parameter at all."""
    same = _same_cases(panel, overlay)
    return replace(panel, overlay=[row for row in same if label(row, panel.parameter) is not None])


def beside_overview(overview: Overview, overlay: Overlay) -> Overview:
    """An overview with the other machine's rows of the same cases."""
    return replace(overview, overlay=_same_cases(overview, overlay))


def _same_cases(part: Panel | Overview, overlay: Overlay) -> list[Row]:
    """The other machine's rows that agree in every parameter that both have."""
    theirs = _of(part.op, part.pass_name, part.rows, overlay)
    names = _common_parameters(part.rows, theirs)
    cases = {_case(row, names) for row in part.rows}
    return [row for row in theirs if _case(row, names) in cases]


def _common_parameters(own: Sequence[Row], theirs: Sequence[Row]) -> list[str]:
    told = [
        {c for row in rows for c, v in row.items() if c.startswith(PARAMETER) and v is not None}
        for rows in (own, theirs)
    ]
    return sorted(told[0] & told[1])


def _case(row: Row, names: Sequence[str]) -> tuple[str | None, ...]:
    return tuple(row.get(name) for name in names)


def _of(op: str, pass_name: str, own: Sequence[Row], overlay: Overlay) -> list[Row]:
    framework = _FRAMEWORKS.get(label(own[0], "framework") or "torch", "PT")
    here = {str(label(row, "precision")).removesuffix("-autocast") for row in own}
    kept = [
        row
        for row in overlay.rows
        if row["op"] == op
        and row[f"{LABEL}pass"] == pass_name
        and row[f"{LABEL}framework"] == framework
    ]
    same = [row for row in kept if row[f"{LABEL}precision"] in here]
    return same or [row for row in kept if row[f"{LABEL}precision"] == "fp32"]


def roofs_text(machine: Machine, compute: str, level: str = "dram") -> str:
    """A machine's pair of roofs in a line of a legend.

    The compute roof is that of the precision asked for, else the machine's highest.
    """
    roofs = machine.roofs()
    peak = roofs.get(compute)
    memory, launch = roofs.get(f"byte/{level}"), roofs.get("launch")
    parts = [
        f"{compute.removeprefix('flop/')} {format_amount(peak.rate, 'FLOP/s')}" if peak else "",
        f"{level.upper()} {format_amount(memory.rate, 'B/s')}" if memory else "",
        f"launch {format_seconds(1 / launch.rate, 2)}" if launch else "",
    ]
    return ", ".join(part for part in parts if part)
