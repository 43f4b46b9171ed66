"""Cases of a study as the page's charts have them: the combined chart of a kernel with all its
sweeps, a small chart of time over the values of each, and every case in tables below."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from timeroof.core.machine import Machine, limiter_kind
from timeroof.core.units import format_amount, format_percent, format_seconds
from timeroof.study.case import PASSES
from timeroof.study.judged_cases import DRAM, Row, Sweep, level_note, level_of, limiter_words
from timeroof.study.output import sweeps
from timeroof.study.output.sweeps import (
    Overlay,
    Panel,
    chart_pair,
    row_unit,
    series_names,
    series_of,
    short,
)
from timeroof.study.regimes import numeric, regime_words, regimes
from timeroof.study.standing import NAMES
from timeroof.views.page.templates import ChartCase, Charted, ChartFrame, ChartRoofs
from timeroof.views.pictures import Look, Roofs
from timeroof.views.pictures.marks import value_text

# The base case is in every sweep: where all are shown it has one name.
BASE = "base case"


def combined_chart(
    panels: Sequence[Panel], machine: Machine, overlay: Overlay | None, title: str = ""
) -> Charted | None:
    """A kernel's sweeps on one chart; None where there are no roofs or amounts for it."""
    rows = list({row.id: row for panel in panels for row in panel.rows}.values())
    roofs = chart_pair(rows, machine) if rows else None
    if roofs is None or not _has_place(rows, roofs):
        return None
    series = series_of(panels)
    name_of = series_names(rows)
    frames = [_frame(panel, series, name_of, roofs) for panel in panels]
    if len(panels) > 1:
        frames = [_all_frame(panels, series, roofs), *frames]
    frames += _published_frames(panels[0].op, overlay, roofs) if overlay else []
    return Charted(
        "combined", title or f"{panels[0].op}, {panels[0].pass_name}", frames,
        chart_roofs(roofs), [short(name, 40) for name in series],
        overlay.short_name if overlay else "",
    )  # fmt: skip


def sweep_chart(panel: Panel, overlay: Overlay | None) -> Charted:
    """Time over the values of one parameter, with the least time that the work takes."""
    series = series_of([panel])
    title = f"{panel.op}, {panel.pass_name}: time over {panel.word}"
    named = panel_regimes(panel)
    if len(named) == 1 and "," in named[0]:
        title = f"{panel.op}, {panel.pass_name}, over {panel.word}: {named[0]}"
    frame = _frame(panel, series, series_names(panel.rows), None)
    other = overlay.short_name if overlay else ""
    names = [short(name, 40) for name in series]
    return Charted("sweep", short(title, 160), [frame], None, names, other, small=True)


def panel_regimes(panel: Panel) -> list[str]:
    """What bounds the cases of a sweep and from which value on, of every series by its name."""
    name_of = series_names(panel.rows)
    held = {
        name: [row for row in panel.rows if name_of(row) == name] for name in series_of([panel])
    }
    found = []
    for name, rows in held.items():
        if numeric(Sweep(panel.op, panel.parameter, rows)):
            words = regime_words(regimes(rows, panel.parameter), panel.parameter)
            found.append(f"{name}: {words}" if len(held) > 1 else words)
    return found


def cases_chart(
    title: str, rows: Sequence[Row], names: Sequence[str], machine: Machine | None
) -> Charted | None:
    """Named cases beside one another: on a machine's roofs, else their times alone."""
    roofs = chart_pair(rows, machine) if machine else None
    if machine and (roofs is None or not _has_place(rows, roofs)):
        return None
    times = _times(rows, roofs)
    cases = [
        _case(row, name, at, 0, roofs, times.get(id(row)))
        for at, (row, name) in enumerate(zip(rows, names, strict=True))
    ]
    frame = ChartFrame("", "", names, cases)
    found = chart_roofs(roofs) if roofs else None
    return Charted("combined" if roofs else "sweep", title, [frame], found, small=roofs is None)


def chart_roofs(roofs: Roofs) -> ChartRoofs:
    """The roofs of a chart in the words of the page."""
    return ChartRoofs(
        roofs.flops_per_s, roofs.bytes_per_s, roofs.launch_s,
        roofs.compute_name.upper(), roofs.memory_name,
    )  # fmt: skip


def _has_place(rows: Sequence[Row], roofs: Roofs) -> bool:
    return any(row.bytes_by.get(roofs.level) and row.flops for row in rows)


def _values(panel: Panel) -> list[str]:
    return [short(value_text(panel.parameter, v), 16) for v in panel.values]


def _frame(
    panel: Panel, series: Sequence[str], name_of: Callable[[Row], str], roofs: Roofs | None
) -> ChartFrame:
    """One sweep, the other machine's cases beside it."""
    values = panel.values
    place = {value: n for n, value in enumerate(values)}
    texts = _values(panel)
    own = [row for row in panel.rows if name_of(row) in series]
    theirs = [row for row in panel.overlay if row.params.get(panel.parameter) in place]
    rows = [*own, *theirs]
    times = _times(rows, roofs)
    cases = []
    for row in rows:
        other = row in theirs
        at = place[row.params[panel.parameter]]
        name = f"{panel.word} {texts[at]}"
        colour = series.index(name_of(row)) if not other else 0
        cases.append(_case(row, name, at, colour, roofs, times.get(id(row)), other=other))
    return ChartFrame(panel.word, panel.word, texts, cases)


def _all_frame(panels: Sequence[Panel], series: Sequence[str], roofs: Roofs) -> ChartFrame:
    """Every case of all sweeps once, named by what it changes."""
    named = _named(panels)
    name_of = series_names(row for row, _ in named.values())
    rows = [row for row, _ in named.values() if name_of(row) in series]
    times = _times(rows, roofs)
    names = {row.id: name for row, name in named.values()}
    order = {name: n for n, name in enumerate(dict.fromkeys(names.values()))}
    cases = [
        _case(
            row, names[row.id], order[names[row.id]], series.index(name_of(row)), roofs,
            times.get(id(row)),
        )
        for row in rows
    ]  # fmt: skip
    return ChartFrame("all cases", "", [], cases)


def _published_frames(op: str, overlay: Overlay, roofs: Roofs) -> list[ChartFrame]:
    """All rows of the other machine of a kernel: every framework, pass, precision and size."""
    rows = [row for row in overlay.rows if row.op == op and row.time_s > 0]
    if not rows:
        return []
    times = _times(rows, roofs)
    cases = [
        _case(
            row, f"{row.framework} {row.precision} {row.pass_name}, {_params(row.params)}", 0, 0,
            roofs, times.get(id(row)), other=True,
        )
        for row in rows
    ]  # fmt: skip
    return [ChartFrame(f"{overlay.short_name}: {len(rows)} rows", "", [], cases)]


def _named(panels: Sequence[Panel]) -> dict[int, tuple[Row, str]]:
    """Cases by id with a name: the parameter that they change, or that they change none."""
    shared = set.intersection(*({row.id for row in panel.rows} for panel in panels))
    found: dict[int, tuple[Row, str]] = {}
    for panel in panels:
        texts = dict(zip(panel.values, _values(panel), strict=True))
        for row in panel.rows:
            name = f"{panel.word} {texts[row.params[panel.parameter]]}"
            found.setdefault(row.id, (row, BASE if row.id in shared else name))
    return found


def _times(rows: Sequence[Row], roofs: Roofs | None) -> dict[int, tuple[float, float]]:
    """Bandwidth and compute time of rows on the chart's roofs, as the model places them."""
    if roofs is None:
        return {}
    points = roofs.time_points_s([row_unit(row, Look()) for row in rows])
    return {id(row): point for row, point in zip(rows, points, strict=True)}


def _case(
    row: Row, name: str, value: int, series: int, roofs: Roofs | None,
    times: tuple[float, float] | None, *, other: bool = False,
) -> ChartCase:  # fmt: skip
    bandwidth_s, compute_s = times or (math.nan, math.nan)
    return ChartCase(
        name=name,
        value=value,
        time_s=row.time_s,
        limiter=limiter_kind(row.limiter or ""),
        series=series,
        flops=row.owed_flops if row.owed_flops is not None else row.flops,
        bytes=row.bytes_by.get(roofs.level) if roofs else row.bytes_by.get("dram"),
        bandwidth_time_s=_known(bandwidth_s),
        compute_time_s=_known(compute_s),
        bound_s=row.bound_s,
        launches=row.launches,
        words=short(_params(row.params), 120),
        other=other,
    )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _params(params: Mapping[str, object]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in params.items())


HEADS = (
    "time", "spread", "bound", "bound / time", "limiter", "FLOP/B", "FLOPs", "bytes", "launches",
)  # fmt: skip


class Line(NamedTuple):
    """One case of a table; `other` marks rows of another machine."""

    value: str
    series: str
    cells: tuple[str, ...]
    above_roof: str | None
    other: bool = False
    # The share of the processor that others used, where it is too much for a time to count.
    disturbed: str | None = None


class Table(NamedTuple):
    """One sweep on the page: chart and table."""

    title: str
    fixed: str
    key: str
    chart: Charted
    heads: tuple[str, ...]
    parameter: str
    lines: list[Line]
    note: str

    @property
    def several(self) -> bool:
        """Whether lines differ in their series."""
        return len({line.series for line in self.lines}) > 1


class KernelPart(NamedTuple):
    """The sweeps of one kernel, pass and number of threads."""

    title: str
    contains: str | None
    tables: list[Table]


def kernel_parts(
    rows: Sequence[Row], machine: Machine | None, overlay: Overlay | None
) -> list[KernelPart]:
    """Every kernel and pass: a chart and a table per sweep."""
    held: dict[tuple[str, str, int | None], list[Panel]] = {}
    for panel in sweeps.panels_beside(rows, overlay):
        held.setdefault((panel.op, panel.pass_name, panel.threads), []).append(panel)
    # The paper's kernels first; a forward pass before its backward pass.
    held = dict(sorted(held.items(), key=lambda item: _reading_order(*item[0][:2])))
    several = len({threads for _, _, threads in held}) > 1
    return [
        KernelPart(
            f"{op} {name}{f', {threads} thread' * several}{'s' * (several and threads != 1)}",
            own[0].rows[0].contains,
            [_table(panel, machine, overlay, f"{n}-{m}") for m, panel in enumerate(own)],
        )
        for n, ((op, name, threads), own) in enumerate(held.items())
    ]


def _reading_order(op: str, pass_name: str) -> tuple[bool, str, int]:
    place = PASSES.index(pass_name) if pass_name in PASSES else len(PASSES)
    return op not in NAMES, op, place


def _table(panel: Panel, machine: Machine | None, overlay: Overlay | None, place: str) -> Table:
    roofs = sweeps.chart_pair(panel.rows, machine) if machine else None
    level = roofs.level if roofs else level_of(panel.rows)
    why = level_note(panel.rows, level)
    lines = panel_lines(panel, overlay, level)
    return Table(
        title=f"{panel.word} from {panel.values[0]} to {panel.values[-1]}",
        fixed=panel.fixed,
        key=f"sweep-{place}",
        chart=sweep_chart(panel, overlay),
        heads=heads(level),
        parameter=panel.word,
        lines=lines,
        note=" ".join(_panel_notes(panel, lines, why)),
    )


def _panel_notes(panel: Panel, lines: Sequence[Line], why: str) -> Iterable[str]:
    for words in panel_regimes(panel):
        yield f"{words[:1].upper()}{words[1:]}."
    causes = [line.above_roof for line in lines if line.above_roof]
    if causes:
        named = ", ".join(sorted(set(causes)))
        yield f"{len(causes)} of {len(lines)} cases are faster than their bound, marked ▲: {named}."
    names = set(map(series_names(panel.rows), panel.rows))
    more = len(names) - len(sweeps.series_of([panel]))
    if more > 0:
        yield f"{more} further series are in the table only."
    if why:
        yield why


def heads(level: str = DRAM) -> tuple[str, ...]:
    """The columns of a table whose bytes are those of a level."""
    named = "bytes" if level == DRAM else f"{level.upper()} bytes"
    return tuple(named if head == "bytes" else head for head in HEADS)


def panel_lines(panel: Panel, overlay: Overlay | None, level: str = DRAM) -> list[Line]:
    """The lines of a panel by value, this machine's before the other's."""
    order = {value: place for place, value in enumerate(panel.values)}
    found, name_of = [], series_names(panel.rows)
    for row in (*panel.rows, *panel.overlay):
        other = overlay is not None and row in panel.overlay
        value, series = row.params[panel.parameter], name_of(row)
        if overlay is not None and other:
            series = f"{overlay.short_name}, {row.framework} {row.precision}"
        if value in order:
            busy = f"others used {format_percent(row.load)} of the processor" if row.busy else None
            head = short(value_text(panel.parameter, value), 24), short(series, 60)
            line = Line(*head, cells(row, level), row.above_roof, other, busy)
            found.append((order[value], other, sweeps.series_order(series), line))
    return [line for *_, line in sorted(found, key=lambda item: item[:3])]


def cells(row: Row, level: str = DRAM) -> tuple[str, ...]:
    """What a table says of a row, its bytes and intensity at one level."""
    intensity, moved = row.intensity_at(level), row.bytes_by.get(level)
    return (
        format_seconds(row.time_s),
        format_percent(row.time_spread),
        format_seconds(row.bound_s),
        format_percent(row.efficiency),
        limiter_words(row.limiter) if row.limiter else "?",
        # What moves no bytes has no intensity, which is not the same as not being known.
        "–" if moved == 0 else "?" if intensity is None else f"{intensity:.3g}",
        format_amount(row.flops, ""),
        format_amount(moved, "B"),
        "?" if row.launches is None else f"{row.launches:.0f}",
    )
