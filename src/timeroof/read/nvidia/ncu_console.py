"""Nsight Compute's console text: a heading per launch, then tables of metrics per section."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.read.formats import ReadOptions
from timeroof.read.nvidia import ncu_profile
from timeroof.read.nvidia.ncu_profile import FACTS, Part, profile_of_parts, some_metrics
from timeroof.read.open import Input
from timeroof.read.text import head_text, lines

# name (grid)x(block), Context 1, Stream 7, Device 0, CC 8.0; older versions have a date
# instead of the grid and end with the stream.
_HEADING = re.compile(
    r"^\s{1,4}(?P<name>\S.*?)"
    r"(?: \((?P<grid>\d+, \d+, \d+)\)x\((?P<block>\d+, \d+, \d+)\))?"
    r"(?:, \d{4}-\w{3}-\d{2} [\d:]+)?"
    r", Context \d+, Stream (?P<stream>\d+)(?:, Device \d+, CC (?P<capability>\d+\.\d+))?\s*$"
)
_RULER = re.compile(r"^\s+-{3,}(?: +-{3,}){2}\s*$")
_DASHES = re.compile(r"-+")
_RULES = ("OPT ", "INF ", "WRN ", "ERR ")


@dataclass
class _Launch:
    name: str
    stream: str | None
    grid: str | None
    block: str | None
    capability: str | None
    metrics: list[tuple[str, str, str]] = field(default_factory=list)


def is_console(head: str) -> bool:
    """Whether a text is Nsight Compute's console output."""
    return any(_RULER.match(line) for line in head.split("\n")) and "Metric Name" in head


def read_console(text_lines: Iterable[str], name: str, folder: str) -> Part | None:
    """The launches of a console text, None where it has none."""
    launches = list(_launches(text_lines))
    if not launches:
        return None
    facts = {key: [getattr(launch, key) for launch in launches] for key in FACTS[1:]}
    ids = [f"#{index}" for index in range(len(launches))]
    table = pl.DataFrame({"launch": ids, **facts}, schema=dict.fromkeys(FACTS, pl.String))
    metrics = {metric for launch in launches for metric, _, _ in launch.metrics}
    capabilities = {launch.capability for launch in launches if launch.capability}
    table = table.with_columns(_roles(launches))
    capability = capabilities.pop() if len(capabilities) == 1 else None
    return Part(name, folder, table, some_metrics(metrics), capability=capability)


def _launches(text_lines: Iterable[str]) -> Iterator[_Launch]:
    launch: _Launch | None = None
    spans: list[tuple[int, int]] = []
    for line in text_lines:
        if ", Context " in line and (match := _HEADING.match(line)):
            if launch is not None:
                yield launch
            grid, block = (f"({v})" if v else None for v in (match["grid"], match["block"]))
            launch = _Launch(match["name"], match["stream"], grid, block, match["capability"])
            spans = []
        elif _RULER.match(line):
            # Three rulers frame a table: above its headings, below them, at its end.
            spans = [m.span() for m in _DASHES.finditer(line)]
        elif spans and launch is not None:
            cells = _cells(line, spans)
            if cells is None:
                spans = []
            elif cells[0] != "Metric Name":
                launch.metrics.append(cells)
    if launch is not None:
        yield launch


def _cells(line: str, spans: list[tuple[int, int]]) -> tuple[str, str, str] | None:
    """Name, unit and value of a table's line; None where the line is not of the table."""
    (start, _), (_, unit_end), (value_start, _) = spans
    if not line[:start].isspace() or not line[start : start + 1].strip():
        return None
    name, unit = line[start : spans[0][1]].strip(), line[spans[0][1] : unit_end].strip()
    value = line[min(unit_end, value_start) :].strip()
    is_rule = line.lstrip().startswith(_RULES)
    return (name, unit, value) if value and not is_rule else None


def _roles(launches: list[_Launch]) -> list[pl.Series]:
    """A column per role: of every launch the preferred metric that plays it."""
    cells: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for index, launch in enumerate(launches):
        for metric, unit, value in launch.metrics:
            cells[metric, unit].setdefault(index, value)
    columns = []
    for (metric, unit), found in cells.items():
        if (reading := ncu_profile.reading_of(metric, unit)) is not None:
            values = [found.get(i) for i in range(len(launches))]
            columns.append((reading, pl.Series(values, dtype=pl.String)))
    return ncu_profile.role_columns(columns)


def sniff(found: Input) -> bool:
    """Tables between rulers, under headings with context and stream."""
    return is_console(head_text(found.only))


def read(found: Input, options: ReadOptions) -> Profile:
    """One profile of all launches."""
    part = read_console(lines(found.only), found.name, "")
    if part is None:
        raise InputError("has no launch of a kernel", found.name, "profile the program again")
    return profile_of_parts([part], found, options.architecture)
