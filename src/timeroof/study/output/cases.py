"""Every case of a study in tables, a small chart above each sweep's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from timeroof.core.machine import Machine
from timeroof.core.units import format_amount, format_percent, format_seconds
from timeroof.study.judged_cases import DRAM, Row, level_note, level_of, limiter_words
from timeroof.study.kernel import PASSES
from timeroof.study.output import sweeps
from timeroof.study.output.charted import panel_regimes, sweep_chart
from timeroof.study.output.sweeps import Overlay, Panel, series_names, short
from timeroof.study.standing import NAMES
from timeroof.views.page.templates import Charted
from timeroof.views.pictures.marks import value_text

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
