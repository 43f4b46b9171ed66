"""What the page says of several frameworks: every way of running the paper's kernels in the
measured order, and the five factors across frameworks."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import NamedTuple

from timeroof.core.report import Finding
from timeroof.core.units import format_seconds
from timeroof.study.factors.across import (
    FRAMEWORK_NAMES,
    Way,
    executed_per_needed,
    frameworks_of,
    ways,
)
from timeroof.study.factors.conclusion import NAMES as FACTOR_NAMES, times
from timeroof.study.judged_cases import Row
from timeroof.study.standing import NAMES

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
            found.append(WayTable(TITLES[op], [_line(way, every) for way in every], steps))
    return found


def _line(way: Way, every: Sequence[Way]) -> WayLine:
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
