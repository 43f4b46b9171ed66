"""Utilisation of the compute roof beside the attainable one: a table of the preset's kernels, for
page and terminal, and their places on the combined chart; and the ways of running the paper's
kernels in several frameworks, in the measured order."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import NamedTuple

from timeroof.core.machine import Machine, limiter_kind
from timeroof.core.report import Finding
from timeroof.core.units import format_percent, format_seconds
from timeroof.study.czaja import Place, Utilised, places_of, utilised
from timeroof.study.factors.across import (
    FRAMEWORK_NAMES,
    Way,
    executed_per_needed,
    frameworks_of,
    ways,
)
from timeroof.study.factors.conclusion import NAMES as FACTOR_NAMES, times
from timeroof.study.judged_cases import Row, limiter_words
from timeroof.study.output.charted import HEADS, cases_chart, cells
from timeroof.study.report import Study
from timeroof.study.standing import NAMES, paper_case, summary_lines
from timeroof.views.page.templates import Charted
from timeroof.views.terminal import console

ABOVE = "▲"


class UtilisationCell(NamedTuple):
    """A kernel at one place: both shares as texts and as percent of the roof."""

    text: str
    used: float
    attainable: float
    kind: str
    # Time and limit, for whoever points at it.
    hint: str
    above: str | None = None


class UtilisationLine(NamedTuple):
    """A kernel of the table."""

    name: str
    sizes: str
    cells: list[UtilisationCell | None]
    # The same share on the paper's V100, where the paper has the kernel.
    paper: str


class UtilisationTable(NamedTuple):
    """The preset's kernels by place."""

    places: list[str]
    lines: list[UtilisationLine]
    notes: list[str]
    # Every number of every case.
    heads: tuple[str, ...]
    details: list[tuple[str, str, tuple[str, ...]]]


def utilisation_table(rows: Sequence[Row]) -> UtilisationTable | None:
    """The table; None where the preset did not run."""
    every, places = utilised(rows), places_of(rows)
    if not every:
        return None
    details = [
        (one.kernel.name, place.words, cells(row))
        for one in every
        for place in places
        if (row := one.by_place.get(place)) is not None
    ]
    return UtilisationTable(
        [place.words for place in places],
        [_line(one, places) for one in every],
        list(_notes(every)),
        HEADS,
        details,
    )


def _line(one: Utilised, places: Sequence[Place]) -> UtilisationLine:
    scaled = ", smaller batch" if one.scaled else ""
    done = {executed_per_needed(row) for row in one.by_place.values()} - {None, 1.0}
    less = "".join(f", {times(ratio)} the products" for ratio in done if ratio is not None)
    theirs = paper_case(one.kernel.op) if one.kernel.reference else None
    return UtilisationLine(
        one.kernel.name,
        f"{one.kernel.sizes}{scaled}{less}",
        [_cell(one.by_place.get(place)) for place in places],
        shares(theirs) if theirs is not None else "",
    )


def _cell(row: Row | None) -> UtilisationCell | None:
    if row is None:
        return None
    spent = cells(row)
    return UtilisationCell(
        shares(row),
        used=100 * min(1.0, row.utilisation or 0.0),
        attainable=100 * min(1.0, row.attainable or 0.0),
        kind=limiter_kind(row.limiter or ""),
        hint=f"{spent[0]}, limited by {limiter_words(row.limiter)}, {spent[5]} FLOP/B",
        above=row.above_roof,
    )


def shares(row: Row) -> str:
    """Both shares in a few characters.

    >>> shares(Row(time_s=4.0, compute_s=1.0, work_bound_s=2.0))
    '25 % of 50 %'
    """
    mark = f" {ABOVE}" if row.above_roof else ""
    return f"{format_percent(row.utilisation)} of {format_percent(row.attainable)}{mark}"


def _notes(every: Sequence[Utilised]) -> list[str]:
    ran = [row for one in every for row in one.by_place.values()]
    found = [f"Blocked layout {one.layout}." for one in every if one.layout]
    causes = sorted({row.above_roof for row in ran if row.above_roof})
    if causes:
        count = sum(bool(row.above_roof) for row in ran)
        found.append(f"{count} of {len(ran)} cases are above the attainable share, marked {ABOVE}:"
                     f" {', '.join(causes)}.")  # fmt: skip
    counted = sum(row.measured("flops") or row.measured("bytes/dram") for row in ran)
    model = "FLOPs and bytes are modelled from shapes: no counters were read."
    counters = f"perf counted FLOPs or bytes of {counted} of {len(ran)} cases."
    return [*found, counters if counted else model]


def utilisation_charts(rows: Sequence[Row], machine: Machine | None) -> dict[str, Charted]:
    """The preset's kernels on the roofs of each place, with cold caches: all of them move bytes."""
    every, found = utilised(rows), dict[str, Charted]()
    for number, place in enumerate(p for p in places_of(rows) if p.cache == "cold"):
        there = [(one.kernel.name, one.by_place[place]) for one in every if place in one.by_place]
        own = [row for _, row in there]
        chart = cases_chart(place.words, own, [n for n, _ in there], machine) if machine else None
        if chart is not None:
            found[f"utilisation-{number}"] = chart
    return found


def print_utilisation(table: UtilisationTable) -> None:
    """The table in the terminal; a narrow one shows a line per kernel and place."""
    from rich.table import Table

    from timeroof.views.terminal import console

    out = console(stderr=True)
    shown = Table(box=None, pad_edge=False, title_justify="left")
    shown.add_column("utilisation of attainable", style="bold")
    wide = out.width >= 34 + 16 * len(table.places)
    if not wide:
        shown.add_column("place")
        shown.add_column("share", justify="right")
    for place in table.places if wide else ():
        shown.add_column(place, justify="right")
    for line in table.lines:
        texts = [cell.text if cell else "-" for cell in line.cells]
        if wide:
            shown.add_row(line.name, *texts)
            continue
        for place, text in zip(table.places, texts, strict=True):
            shown.add_row(line.name if place == table.places[0] else "", place, text)
    out.print(shown)
    for note in table.notes:
        out.print(note, soft_wrap=True)


def print_study(study: Study, page: str | None) -> None:
    """One line each: the machine, the paper's kernels, the factors, what to trust, the page."""
    from rich.text import Text

    report = study.report
    table = utilisation_table(study.rows)
    if table is not None:
        print_utilisation(table)
    lines = summary_lines(study.rows, report.machine, report.findings, page)
    width = 2 + max(len(name) for name, _ in lines)
    out = console(stderr=True)
    for name, words in lines:
        out.print(Text(f"{name:{width}}", style="bold") + Text(words), soft_wrap=True)


TITLES = {"lstm": "LSTM, forward", "conv2d": "conv2d, forward"}


class WayLine(NamedTuple):
    """A way of running a kernel: its time as a bar, its launches, the work that it executes."""

    # The place of its framework among the charts' colours.
    series: int
    name: str
    time: str
    # Percent of the slowest, on a scale of logarithms: ways differ by a hundred times and more.
    width: float
    ratio: str
    launches: str
    per_step: str
    executed: str
    because: str | None
    contains: str | None


class WayTable(NamedTuple):
    """All ways of running one kernel, slowest first."""

    title: str
    lines: list[WayLine]
    per_step: bool


class FactorLine(NamedTuple):
    """A factor across frameworks."""

    name: str
    sentence: str
    lines: list[tuple[str, str]]


def way_tables(rows: Sequence[Row]) -> list[WayTable]:
    """The paper's kernels, LSTM first: launching is what tells frameworks apart. Nothing where one
    framework alone ran."""
    if len(frameworks_of(rows)) < 2:
        return []
    found = []
    for op in sorted(NAMES, key=lambda op: op != "lstm"):
        every = ways(rows, op)
        if len(every) > 1:
            steps = any(way.launches_per_step is not None for way in every)
            found.append(WayTable(TITLES[op], [_way_line(way, every) for way in every], steps))
    return found


def _way_line(way: Way, every: Sequence[Way]) -> WayLine:
    slow, fast = every[0].row.time_s, every[-1].row.time_s
    span = log10(slow / fast) if slow > fast else 0.0
    place = log10(way.row.time_s / fast) / span if span else 1.0
    each, done = way.launches_per_step, executed_per_needed(way.row)
    return WayLine(
        series=sorted({FRAMEWORK_NAMES[w.framework] for w in every}).index(
            FRAMEWORK_NAMES[way.framework]
        ),
        name=f"{FRAMEWORK_NAMES[way.framework]} {way.name}",
        time=format_seconds(way.row.time_s),
        width=12 + 88 * place,
        ratio=times(way.row.time_s / fast),
        launches="?" if way.row.launches is None else f"{way.row.launches:.0f}",
        per_step="" if each is None else f"{each:.3g}",
        executed="?" if done is None else times(done),
        because=way.row.executed_because,
        contains=way.row.contains,
    )


def factor_lines(findings: Sequence[Finding]) -> list[FactorLine]:
    """The five factors across frameworks, as the findings have them; a factor that was not compared
    says so."""
    held = {f.code.split("/")[1]: f for f in findings if f.code.endswith("/frameworks")}
    if not held:
        return []
    return [
        FactorLine(
            name,
            str(held[key].evidence["across"]) if key in held else _NOT_COMPARED[key],
            [(a, b) for a, b in held[key].evidence["lines"]] if key in held else [],
        )
        for key, name in FACTOR_NAMES.items()
    ]


_NOT_COMPARED = dict.fromkeys(FACTOR_NAMES, "Not compared: too few cases ran.") | {
    "precision": "Not compared: add --precision fp32,bf16.",
    "locality": "Not compared: no kernel ran in two layouts.",
}


def framework_versions(software: dict[str, str], rows: Sequence[Row]) -> list[str]:
    """The frameworks that ran with their versions, as far as they are known."""
    from timeroof.study.run import version_of

    found = []
    for name in frameworks_of(rows):
        version = software.get(name) or version_of(name)
        found.append(f"{FRAMEWORK_NAMES[name]} {version}" if version else FRAMEWORK_NAMES[name])
    return found
