"""Sweeps of a study: which there are, another machine's rows beside them, and their roofs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from timeroof.core.machine import Machine
from timeroof.core.report import Report
from timeroof.study import judged_cases as cases
from timeroof.study.case import Value
from timeroof.study.factors.across import FRAMEWORK_NAMES
from timeroof.study.factors.published import published_cases
from timeroof.study.grid import MAIN_VARIANT, OWN_LAYOUT
from timeroof.study.judged_cases import LEVELS, USUAL, Row, Sweep
from timeroof.views.pictures import Look, Roofs, Unit
from timeroof.views.style import clip, plain_line

# More series than colours that everyone tells apart would not be told apart.
MOST_SERIES = 6
# Launching below this share of every time is left off a chart: its box would shrink all else.
SMALLEST_BOX = 0.02
# The paper's names of frameworks, best match first.
_FRAMEWORKS = {"torch": ("PT",), "tensorflow": ("TF1", "TF2")}


def short(text: object, limit: int = 40) -> str:
    """A text of a file on a picture: printable and of bearable length."""
    return clip(plain_line(str(text)), limit)


def series_name(row: Row) -> str:
    """What tells a row's series from others of one chart; what is usual is not said."""
    names = ("precision", "framework", "device", "variant", "cache")
    return " ".join(v for n in names if (v := getattr(row, n)) and USUAL.get(n) != v) or "all"


def series_names(rows: Iterable[Row]) -> Callable[[Row], str]:
    """What tells the series of some rows apart: where frameworks are compared, their names."""
    held = list(rows)
    if len({row.framework for row in held}) < 2:
        return series_name
    precisions = len({row.precision for row in held}) > 1

    def name(row: Row) -> str:
        words = [FRAMEWORK_NAMES.get(row.framework, row.framework), row.variant]
        words += [row.precision] if precisions else []
        words += [v for n in ("device", "cache") if (v := getattr(row, n)) and USUAL[n] != v]
        return " ".join(words)

    return name


def series_of(panels: Sequence[Panel]) -> list[str]:
    """Ways in which the cases of some sweeps ran, as many as colours tell apart. Where frameworks
    are compared a colour is a framework, in its main variant."""
    rows = [row for panel in panels for row in panel.rows]
    name = series_names(rows)
    if len({row.framework for row in rows}) > 1:
        held = {(row.framework, row.variant): None for row in rows}
        shown = dict(reversed(held)) | {f: v for f, v in held if MAIN_VARIANT.get(f) == v}
        main = {name(row) for row in rows if shown[row.framework] == row.variant}
        return sorted(main)[:MOST_SERIES]
    return sorted(set(map(name, rows)), key=series_order)[:MOST_SERIES]


def series_order(name: str) -> tuple[bool, str]:
    """Where a series stands among others: fp32, which gains are measured against, first."""
    return not name.startswith("fp32"), name


def row_unit(row: Row, look: Look) -> Unit:
    """A row as a unit of a chart; an amount that is not known is NaN."""
    return Unit(
        name=row.name,
        flops=math.nan if row.owed_flops is None else row.owed_flops,
        bytes_by_level={level: v for level, v in row.bytes_by.items() if v is not None},
        time_s=row.time_s,
        launches=row.launches or 0.0,
        look=look,
    )


def chart_pair(rows: Sequence[Row], machine: Machine) -> Roofs | None:
    """The pair of roofs of a chart: the highest compute ceiling that its rows use, and a memory.
    The memory is DRAM, or the nearest level to it at which all rows move bytes."""
    roofs = machine.roofs(rows[0].scope)
    flops = {name for row in rows for name, amount in row.flops_by.items() if amount}
    used = [name for name in sorted(flops) if f"flop/{name}" in roofs]
    known = [level for level in LEVELS if f"byte/{level}" in roofs]
    if not used or not known:
        return None
    level = cases.level_of(rows, known)
    best = max(used, key=lambda name: roofs[f"flop/{name}"].rate)
    boxed = max((row.overhead_time_s or 0.0) / row.time_s for row in rows) > SMALLEST_BOX
    launch = roofs.get("launch") if boxed else None
    return Roofs(
        compute_name=best,
        flops_per_s=roofs[f"flop/{best}"].rate,
        memory_name=level.upper(),
        bytes_per_s=roofs[f"byte/{level}"].rate,
        level=level,
        launch_s=1 / launch.rate if launch else None,
    )


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
    for op in cases.ops(rows):
        names = cases.parameters_of(rows, op)
        held: dict[tuple[str, int | None, str], dict[str, list[Sweep]]] = {}
        for sweep in cases.sweeps(rows, op):
            first = sweep.rows[0]
            # Every framework has a layout of its own, in which it is compared with others.
            usual = first.params.get("layout") == OWN_LAYOUT.get(first.framework, "contiguous")
            free = {sweep.parameter, "layout"} if usual else {sweep.parameter}
            fixed = first.case(n for n in names if n not in free)
            place = (first.pass_name, first.threads, sweep.parameter)
            held.setdefault(place, {}).setdefault(fixed, []).append(sweep)
        for (pass_name, threads, parameter), by_fixed in held.items():
            fixed, members = max(
                by_fixed.items(), key=lambda item: sum(len(s.rows) for s in item[1])
            )
            own = cases.in_order((row for s in members for row in s.rows), parameter)
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
    own_cases = {_case(row, names) for row in panel.rows}
    return replace(panel, overlay=[row for row in theirs if _case(row, names) in own_cases])


def panels_beside(rows: Sequence[Row], overlay: Overlay | None) -> list[Panel]:
    """All panels of a study, with the other machine's rows where there is one."""
    return [beside(panel, overlay) if overlay else panel for panel in panels(rows)]


def _case(row: Row, names: Sequence[str]) -> tuple[Value | None, ...]:
    return tuple(row.params.get(name) for name in names)


def _of(panel: Panel, overlay: Overlay) -> list[Row]:
    ran = {row.framework for row in panel.rows}
    # Beside several frameworks all of the paper's stand.
    wanted = {n for f in ran for n in _FRAMEWORKS.get(f, ())} or {"PT"}
    here = {row.precision.removesuffix("-autocast") for row in panel.rows}
    asked = [r for r in overlay.rows if (r.op, r.pass_name) == (panel.op, panel.pass_name)]
    kept = [row for row in asked if len(ran) > 1 or row.framework in wanted]
    same = [row for row in kept if row.precision in here]
    return same or [row for row in kept if row.precision == "fp32"]
