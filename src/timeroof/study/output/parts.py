"""Which charts and tables a study has, and the rows of another machine beside its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from timeroof.study.factors.published import published_cases
from timeroof.study.rows import Row, Sweep, Value, in_order, ops, parameters_of, sweeps

if TYPE_CHECKING:
    from timeroof.core.machine import Machine
    from timeroof.core.report import Report

# The paper's names of frameworks, best match first.
_FRAMEWORKS = {"torch": "PT", "tensorflow": "TF2"}


@dataclass(frozen=True)
class Panel:
    """Everything that one chart and one table of a sweep show."""

    op: str
    pass_name: str
    threads: int | None
    rows: list[Row]
    parameter: str
    # The other parameters, in words.
    fixed: str = ""
    # Rows of another machine, such as the paper's, at the same values.
    overlay: list[Row] = field(default_factory=list)

    @property
    def word(self) -> str:
        """The parameter as it is written."""
        return self.parameter.replace("_", " ")

    @property
    def values(self) -> list[Value]:
        """Values of the parameter, in order."""
        return list(dict.fromkeys(row.params[self.parameter] for row in self.rows))


def panels(rows: Sequence[Row]) -> list[Panel]:
    """A panel per kernel, pass, threads and parameter; of several sweeps the widest."""
    found = []
    for op in ops(rows):
        names = parameters_of(rows, op)
        held: dict[tuple[str, int | None, str], dict[str, list[Sweep]]] = {}
        for sweep in sweeps(rows, op):
            first = sweep.rows[0]
            fixed = first.case(n for n in names if n != sweep.parameter)
            place = (first.pass_name, first.threads, sweep.parameter)
            held.setdefault(place, {}).setdefault(fixed, []).append(sweep)
        for (pass_name, threads, parameter), by_fixed in held.items():
            fixed, members = max(
                by_fixed.items(), key=lambda item: sum(len(s.rows) for s in item[1])
            )
            own = in_order((row for s in members for row in s.rows), parameter)
            found.append(Panel(op, pass_name, threads, own, parameter, fixed))
    return found


@dataclass(frozen=True)
class Overlay:
    """The other machine's judged rows, in the words of a study."""

    rows: list[Row]
    machine: Machine

    @property
    def short_name(self) -> str:
        """The machine where room is short."""
        return "paper's V100" if "V100" in self.machine.device else self.machine.name[:24]


def overlay_of(report: Report) -> Overlay:
    """A published report as an overlay: labels in the study's words, verdicts its own."""
    assert report.machine is not None
    return Overlay(published_cases(report.rows), report.machine)


def beside(panel: Panel, overlay: Overlay) -> Panel:
    """A panel with the other machine's rows that agree in every parameter that both have."""
    theirs = [row for row in _of(panel, overlay) if panel.parameter in row.params]
    own, other = ({n for row in rows for n in row.params} for rows in (panel.rows, theirs))
    names = sorted(own & other)
    cases = {_case(row, names) for row in panel.rows}
    return replace(panel, overlay=[row for row in theirs if _case(row, names) in cases])


def _case(row: Row, names: Sequence[str]) -> tuple[Value | None, ...]:
    return tuple(row.params.get(name) for name in names)


def _of(panel: Panel, overlay: Overlay) -> list[Row]:
    """Rows of the same kernel, pass and framework, in the same precisions or in fp32."""
    framework = _FRAMEWORKS.get(panel.rows[0].framework, "PT")
    here = {row.precision.removesuffix("-autocast") for row in panel.rows}
    wanted = (panel.op, panel.pass_name, framework)
    kept = [r for r in overlay.rows if (r.op, r.pass_name, r.framework) == wanted]
    same = [row for row in kept if row.precision in here]
    return same or [row for row in kept if row.precision == "fp32"]
