"""Which charts a study has: one per kernel, pass, number of threads and swept parameter."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from timeroof.core.profile import LABEL
from timeroof.study.factors.cases import (
    Row,
    Sweep,
    case_text,
    in_order,
    label,
    ops,
    parameters,
    sweeps,
)


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
