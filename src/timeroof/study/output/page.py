"""The page of a study: conclusions, charts and tables in one file that opens from disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from markupsafe import Markup

from timeroof.core.units import format_amount, format_percent, format_seconds
from timeroof.study.factors.cases import (
    BUSY,
    DRAM,
    Row,
    busy,
    bytes_at,
    flops,
    intensity_at,
    label,
    launches,
    level_title,
    number,
)
from timeroof.study.output.looks import series_name, series_order, short
from timeroof.views.page.templates import asset, content_policy, page_styles, page_template
from timeroof.views.pictures.marks import value_text

if TYPE_CHECKING:
    from timeroof.study.output.overlay import Overlay, Panel

# Where the template and the styles of this page are.
OURS = "timeroof.study.output"

# Tables of a study: one line per case of a sweep, with the digits that its spread supports.


HEADS = (
    "time", "spread", "bound", "bound / time", "limiter", "FLOP/B", "FLOPs", "bytes", "launches",
)  # fmt: skip
# A spread of more medians than this is no spread of one thing.
SCATTERED = 1.0


@dataclass(frozen=True)
class Line:
    """One case of a table; `other` marks rows of another machine."""

    value: str
    series: str
    cells: tuple[str, ...]
    above_roof: str | None
    other: bool = False
    # The share of the processor that others used, where it is too much for a time to count.
    disturbed: str | None = None
    scattered: bool = False


def heads(level: str = DRAM) -> tuple[str, ...]:
    """The columns of a table whose bytes are those of a level.

    >>> heads("l1")[7]
    'L1 bytes'
    """
    if level == DRAM:
        return HEADS
    return tuple(f"{level_title(level)} bytes" if head == "bytes" else head for head in HEADS)


def panel_lines(panel: Panel, overlay: Overlay | None, level: str = DRAM) -> list[Line]:
    """The lines of a panel by value, this machine's before the other's."""
    order = {value: place for place, value in enumerate(panel.values)}
    lines = [
        (
            order[str(label(row, panel.parameter))],
            other,
            _line(row, panel.parameter, overlay, other, level),
        )
        for rows, other in ((panel.rows, False), (panel.overlay, True))
        for row in rows
        if str(label(row, panel.parameter)) in order
    ]
    return [
        line for _, _, line in sorted(lines, key=lambda x: (x[0], x[1], series_order(x[2].series)))
    ]


def _line(row: Row, parameter: str, overlay: Overlay | None, other: bool, level: str) -> Line:
    series = series_name(row)
    if other and overlay is not None:
        series = f"{overlay.short_name}, {label(row, 'framework')} {label(row, 'precision')}"
    return Line(
        value=short(value_text(parameter, label(row, parameter)), 24),
        series=short(series, 60),
        cells=cells(row, level),
        above_roof=row.get("above_roof"),
        other=other,
        disturbed=_others_share(row) if busy(row) else None,
        scattered=(row.get("time_spread") or 0.0) > SCATTERED,
    )


def _others_share(row: Row) -> str:
    return f"others used {format_percent(number(label(row, 'load')))} of the processor"


def cells(row: Row, level: str = DRAM) -> tuple[str, ...]:
    """What a table says of a row, its bytes and intensity at one level."""
    spread = row.get("time_spread")
    count = launches(row)
    return (
        format_seconds(row["time_s"], time_digits(spread)),
        _spread(spread),
        format_seconds(row.get("bound_s")),
        format_percent(row.get("efficiency")),
        str(row.get("limiter") or "?"),
        _ai(intensity_at(row, level), bytes_at(row, level)),
        format_amount(flops(row), ""),
        format_amount(bytes_at(row, level), "B"),
        "?" if count is None else f"{count:.0f}",
    )


def _spread(spread: float | None) -> str:
    """The spread in percent; one beyond the median itself as that many medians.

    >>> _spread(0.04), _spread(270.97), _spread(None)
    ('4 %', '271 ×', '?')
    """
    if spread is None:
        return "?"
    return format_percent(spread) if spread <= SCATTERED else f"{spread:.3g} ×"


def time_digits(spread: float | None) -> int:
    """Digits that a time deserves: two where samples differ by more than a tenth.

    >>> time_digits(0.02), time_digits(0.3), time_digits(None)
    (3, 2, 3)
    """
    return 2 if spread is not None and spread > 0.1 else 3


def _ai(value: float | None, moved_bytes: float | None) -> str:
    """Intensity; what moves no bytes has none, which is not the same as not being known."""
    if moved_bytes == 0:
        return "–"
    return "?" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def above_roof_note(lines: Sequence[Line]) -> str:
    """Which lines beat their roof, and the likely causes."""
    causes = [line.above_roof for line in lines if line.above_roof]
    if not causes:
        return ""
    named = ", ".join(sorted({str(cause) for cause in causes}))
    return f"{len(causes)} of {len(lines)} cases are faster than their bound, marked ▲: {named}."


def busy_note(lines: Sequence[Line]) -> str:
    """How many lines were measured beside other programs."""
    own = [line for line in lines if not line.other]
    count = sum(line.disturbed is not None for line in own)
    if not count:
        return ""
    return (
        f"{count} of {len(own)} cases, marked ◆, ran while others used more than"
        f" {format_percent(BUSY)} of the processor: their times are not the kernel's alone."
    )


def scatter_note(lines: Sequence[Line]) -> str:
    """Spreads that are larger than their medians."""
    count = sum(line.scattered for line in lines)
    if not count:
        return ""
    cases = "case" if count == 1 else "cases"
    return (
        f"In {count} {cases} the middle half of the samples is wider than the median (× counts"
        " medians): something else ran in between, and the time says little."
    )


@dataclass(frozen=True)
class Image:
    """A picture in the page with its caption."""

    data: str
    caption: str
    width: int
    height: int


@dataclass(frozen=True)
class ConclusionPart:
    """One factor on the page."""

    anchor: str
    title: str
    points: list[str]
    # found, not found or open
    state: str
    action: str | None
    images: list[Image]


@dataclass(frozen=True)
class PanelPart:
    """One sweep on the page: chart and table."""

    title: str
    fixed: str
    image: Image | None
    heads: tuple[str, ...]
    parameter: str
    lines: list[Line]
    note: str

    @property
    def several(self) -> bool:
        """Whether lines differ in their series."""
        return len({line.series for line in self.lines}) > 1


@dataclass(frozen=True)
class KernelPart:
    """One kernel, pass and number of threads."""

    anchor: str
    title: str
    contains: str
    panels: list[PanelPart]
    overview: list[Image]


@dataclass(frozen=True)
class StudyPage:
    """All that the page shows."""

    title: str
    subtitle: str
    conclusions: list[ConclusionPart]
    kernels: list[KernelPart]
    roofs: list[tuple[str, list[str]]]
    roof_heads: list[str]
    failures: list[tuple[str, str, str]]
    notes: list[str]
    links: list[tuple[str, str]] = field(default_factory=list)
    # What a reader must know before any number.
    warning: str = ""


def study_page(page: StudyPage) -> str:
    """The page as HTML: nothing is fetched, nothing runs."""
    styles = page_styles(("base.css",)) + Markup(asset("study.css", OURS))
    return page_template("study.html.j2", OURS).render(
        page=page, policy=content_policy(), styles=styles
    )
