"""Tables of a study: one line per case of a sweep, with the digits that its spread supports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from timeroof.study.factors.cases import Row, flops, label, launches, moved_bytes
from timeroof.study.output.looks import series_name, series_order, short
from timeroof.units import format_amount, format_percent, format_seconds
from timeroof.views.figures.series import value_text

if TYPE_CHECKING:
    from timeroof.study.output.overlay import Overlay
    from timeroof.study.output.sweeps import Panel

HEADS = (
    "FLOP/B", "FLOPs", "bytes", "launches", "time", "spread", "bound", "limiter", "bound / time",
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One case of a table; `other` marks rows of another machine."""

    value: str
    series: str
    cells: tuple[str, ...]
    above_roof: str | None
    other: bool = False


def panel_lines(panel: Panel, overlay: Overlay | None) -> list[Line]:
    """The lines of a panel by value, this machine's before the other's."""
    order = {value: place for place, value in enumerate(panel.values)}
    lines = [
        (
            order[str(label(row, panel.parameter))],
            other,
            _line(row, panel.parameter, overlay, other),
        )
        for rows, other in ((panel.rows, False), (panel.overlay, True))
        for row in rows
        if str(label(row, panel.parameter)) in order
    ]
    return [
        line for _, _, line in sorted(lines, key=lambda x: (x[0], x[1], series_order(x[2].series)))
    ]


def _line(row: Row, parameter: str, overlay: Overlay | None, other: bool) -> Line:
    series = series_name(row)
    if other and overlay is not None:
        series = f"{overlay.short_name}, {label(row, 'framework')} {label(row, 'precision')}"
    return Line(
        value=short(value_text(parameter, label(row, parameter)), 24),
        series=short(series, 60),
        cells=cells(row),
        above_roof=row.get("above_roof"),
        other=other,
    )


def cells(row: Row) -> tuple[str, ...]:
    """What a table says of a row."""
    spread = row.get("time_spread")
    count = launches(row)
    return (
        _ai(row.get("ai")),
        format_amount(flops(row), ""),
        format_amount(moved_bytes(row), "B"),
        "?" if count is None else f"{count:.0f}",
        format_seconds(row["time_s"], time_digits(spread)),
        "?" if spread is None else format_percent(spread),
        format_seconds(row.get("bound_s")),
        str(row.get("limiter") or "?"),
        format_percent(row.get("efficiency")),
    )


def time_digits(spread: float | None) -> int:
    """Digits that a time deserves: two where samples differ by more than a tenth.

    >>> time_digits(0.02), time_digits(0.3), time_digits(None)
    (3, 2, 3)
    """
    return 2 if spread is not None and spread > 0.1 else 3


def _ai(value: float | None) -> str:
    return "?" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def above_roof_note(lines: Sequence[Line]) -> str:
    """Which lines beat their roof, and the likely causes."""
    causes = [line.above_roof for line in lines if line.above_roof]
    if not causes:
        return ""
    named = ", ".join(sorted({str(cause) for cause in causes}))
    return f"{len(causes)} of {len(lines)} cases are faster than their bound, marked ▲: {named}."
