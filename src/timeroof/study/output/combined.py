"""The paper's combined chart of a kernel with all its sweeps, as SVG in the page's own colours.

Every case is a ring (bytes and FLOPs: the work that it must do) joined to a disc (the time that it
took, on the axes above and to the right). The page shows one sweep at a time, by styles alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup, escape

from timeroof.core.machine import Machine
from timeroof.core.resources import limiter_kind
from timeroof.core.units import format_amount, format_percent, format_seconds
from timeroof.study.judged_cases import Row, level_of, limiter_words
from timeroof.study.output.sweep_charts import Overlay, Panel, chart_pair, short
from timeroof.views.pictures import Roofs
from timeroof.views.pictures.frame import short_number
from timeroof.views.pictures.marks import value_text

# Pixels of the square between the axes, margins, the fewest decades an axis spans.
SIDE, LEFT, RIGHT, TOP, BOTTOM, LEAST = 500.0, 74.0, 92.0, 58.0, 52.0, 1.6
RING, SMALLEST, LARGEST = 4.5, 5.0, 17.0
# Pixels that the texts of the regions and of the line between them need.
WIDE_ENOUGH = 140.0


class Place(NamedTuple):
    """A case on the chart: where its work is, and where its time."""

    row: Row
    moved: float
    work: float
    time_x: float
    time_y: float


@dataclass(frozen=True)
class SweepChoice:
    """A sweep that a reader may choose: its word and values."""

    key: str
    word: str
    values: str


@dataclass(frozen=True)
class CombinedChart:
    """The chart of one kernel, and the sweeps that it can show."""

    key: str
    title: str
    svg: Markup
    choices: list[SweepChoice]
    note: str


def place_of(row: Row, roofs: Roofs) -> Place | None:
    """Where a case is on the chart; None where an amount is not known, or none."""
    moved, work = row.bytes_by.get(roofs.level), row.flops
    if not moved or not work or not row.time_s > 0:
        return None
    compute_s, memory_s = work / roofs.flops_per_s, moved / roofs.bytes_per_s
    over = row.time_s / max(compute_s, memory_s)
    return Place(row, moved, work, moved * over, work * over)


def combined_chart(
    key: str, panels: Sequence[Panel], machine: Machine, overlay: Overlay | None
) -> CombinedChart | None:
    """A kernel's sweeps on one chart; None where there are no roofs or amounts for it."""
    rows = list({row.id: row for panel in panels for row in panel.rows}.values())
    roofs = chart_pair(rows, machine) if rows else None
    if roofs is None:
        return None
    places = {row.id: p for row in rows if (p := place_of(row, roofs)) is not None}
    if not places:
        return None
    choices = [
        SweepChoice(
            f"{key}-{index}",
            panel.word,
            " · ".join(short(value_text(panel.parameter, v), 16) for v in panel.values[:8]),
        )
        for index, panel in enumerate(panels)
    ]
    frame = _Frame.around(list(places.values()), roofs)
    longest_s = max(p.row.time_s for p in places.values())
    parts = [frame.background(), frame.axes()]
    for choice, panel in zip(choices, panels, strict=True):
        drawn = [p for row in panel.rows if (p := places.get(row.id)) is not None]
        marks = "".join(_mark(frame, p, panel, longest_s) for p in drawn)
        theirs = "".join(_their_mark(frame, row, roofs, panel) for row in panel.overlay)
        parts.append(f'<g class="sweep {choice.key}">{theirs if overlay else ""}{marks}</g>')
    words = f"Combined chart of {panels[0].op}: work and time of {len(places)} cases"
    svg = (
        f'<svg class="combined" role="img" aria-label="{escape(words)}"'
        f' viewBox="0 0 {frame.width:.0f} {frame.height:.0f}">{"".join(parts)}</svg>'
    )
    title = f"{panels[0].op}, {panels[0].pass_name}"
    return CombinedChart(key, title, Markup(svg), choices, _note(rows, places, level_of(rows)))


def _note(rows: Sequence[Row], places: dict[int, Place], level: str) -> str:
    missing = len(rows) - len(places)
    words = [f"Bytes are those at {level.upper()}."]
    if missing:
        words.append(f"{missing} of {len(rows)} cases move no bytes there and are in the tables.")
    return " ".join(words)


@dataclass(frozen=True)
class _Frame:
    """Axes with square decades: logarithms of bytes and FLOPs to pixels."""

    roofs: Roofs
    x: tuple[float, float]
    y: tuple[float, float]

    @classmethod
    def around(cls, places: Sequence[Place], roofs: Roofs) -> _Frame:
        """The axes that hold all symbols, with room around them."""
        xs = [math.log10(v) for p in places for v in (p.moved, p.time_x)]
        ys = [math.log10(v) for p in places for v in (p.work, p.time_y)]
        decades = max(LEAST, *(max(v) - min(v) + 0.5 for v in (xs, ys)))
        return cls(roofs, _span(xs, decades), _span(ys, decades))

    @property
    def decade(self) -> float:
        """Pixels of a decade, the same on both axes: a constant intensity rises by 45 degrees."""
        return SIDE / (self.x[1] - self.x[0])

    @property
    def width(self) -> float:
        """Pixels in all."""
        return LEFT + RIGHT + SIDE

    @property
    def height(self) -> float:
        """Pixels in all."""
        return TOP + BOTTOM + SIDE

    def at(self, moved: float, work: float) -> tuple[float, float]:
        """Pixels of bytes and FLOPs."""
        return (
            LEFT + self.decade * (math.log10(moved) - self.x[0]),
            TOP + self.decade * (self.y[1] - math.log10(work)),
        )

    def inside(self, moved: float, work: float) -> bool:
        """Whether a point is on the chart."""
        x, y = math.log10(moved), math.log10(work)
        return self.x[0] <= x <= self.x[1] and self.y[0] <= y <= self.y[1]

    def background(self) -> str:
        """The side where compute is the limit, and the one where memory is."""
        left, top, right, low = LEFT, TOP, self.width - RIGHT, self.height - BOTTOM
        balance = math.log10(self.roofs.flops_per_s / self.roofs.bytes_per_s)

        def edge(x: float) -> tuple[float, float]:
            y = min(max(x + balance, self.y[0]), self.y[1])
            return LEFT + self.decade * (x - self.x[0]), TOP + self.decade * (self.y[1] - y)

        low_x = min(max(self.y[0] - balance, self.x[0]), self.x[1])
        high_x = min(max(self.y[1] - balance, self.x[0]), self.x[1])
        line = [edge(x) for x in (self.x[0], low_x, high_x, self.x[1])]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in line)
        compute = f"{left:.1f},{top:.1f} {path} {right:.1f},{top:.1f}"
        memory = f"{left:.1f},{low:.1f} {path} {right:.1f},{low:.1f}"
        middle = ((line[1][0] + line[2][0]) / 2, (line[1][1] + line[2][1]) / 2)
        ratio = self.roofs.flops_per_s / self.roofs.bytes_per_s
        named = [
            ("compute", left + 10, top + 20, "start", "COMPUTE is the limit"),
            ("memory", right - 10, low - 10, "end", f"{self.roofs.memory_name} is the limit"),
        ]
        # A corner that is too small for its name goes without.
        named = named if right - line[1][0] > WIDE_ENOUGH + 60 else named[:1]
        texts = "".join(
            f'<text class="region" x="{x:.0f}" y="{y:.0f}" text-anchor="{side}"'
            f' fill="var(--{kind})">{escape(text)}</text>'
            for kind, x, y, side, text in named
        )
        balanced = line[2][0] - line[1][0] > WIDE_ENOUGH
        label = (
            f'<text class="guide" transform="translate({middle[0]:.0f} {middle[1] - 6:.0f})'
            f' rotate(-45)" text-anchor="middle">{ratio:.3g} FLOP per byte</text>'
            if balanced
            else ""
        )
        return (
            f'<polygon points="{compute}" fill="var(--compute)" fill-opacity=".06"/>'
            f'<polygon points="{memory}" fill="var(--memory)" fill-opacity=".06"/>'
            f'<polyline points="{path}" class="balance"/>{texts}{label}'
        )

    def axes(self) -> str:
        """Four axes: amounts below and left, their seconds at the roofs above and right."""
        left, top, right, low = LEFT, TOP, self.width - RIGHT, self.height - BOTTOM
        parts = [
            f'<rect class="frame" x="{left}" y="{top}" width="{right - left:.1f}"'
            f' height="{low - top:.1f}"/>'
        ]
        for exponent in _decades(self.x):
            x = LEFT + self.decade * (exponent - self.x[0])
            parts.append(_line("grid", x, x, top, low))
            parts.append(_text(x, low + 18, short_number(10**exponent, "B")))
        for exponent in _decades(self.y):
            y = TOP + self.decade * (self.y[1] - exponent)
            parts.append(_line("grid", left, right, y, y))
            parts.append(_text(left - 8, y + 4, short_number(10**exponent, ""), "end"))
        shift_x, shift_y = (
            math.log10(self.roofs.bytes_per_s),
            math.log10(self.roofs.flops_per_s),
        )
        for exponent in _decades((self.x[0] - shift_x, self.x[1] - shift_x)):
            x = LEFT + self.decade * (exponent + shift_x - self.x[0])
            parts.append(_line("tick", x, x, top - 5, top))
            parts.append(_text(x, top - 10, short_number(10**exponent, "s")))
        for exponent in _decades((self.y[0] - shift_y, self.y[1] - shift_y)):
            y = TOP + self.decade * (self.y[1] - exponent - shift_y)
            parts.append(_line("tick", right, right + 5, y, y))
            parts.append(_text(right + 8, y + 4, short_number(10**exponent, "s"), "start"))
        across, along = (left + right) / 2, (top + low) / 2
        memory = f"{self.roofs.memory_name} {format_amount(self.roofs.bytes_per_s, 'B/s')}"
        compute = f"{self.roofs.compute_name} {format_amount(self.roofs.flops_per_s, 'FLOP/s')}"
        parts += [
            _text(across, low + 42, "bytes moved (ring)", cls="name"),
            _text(across, top - 34, f"seconds (disc), if {memory} sets the pace", cls="name"),
            _turned(18, along, "FLOPs (ring)"),
            _turned(self.width - 12, along, f"seconds (disc), if {compute} sets the pace"),
        ]
        return "".join(parts)


def _span(values: Sequence[float], decades: float) -> tuple[float, float]:
    middle = (min(values) + max(values)) / 2
    return middle - decades / 2, middle + decades / 2


def _decades(span: tuple[float, float]) -> list[float]:
    """Exponents of ticks: decades, and threes between them where there are few."""
    whole = [float(e) for e in range(math.ceil(span[0]), math.floor(span[1]) + 1)]
    if len(whole) >= 3:
        return whole
    half = [e + math.log10(3) for e in range(math.floor(span[0]), math.floor(span[1]) + 1)]
    return sorted([*whole, *(e for e in half if span[0] <= e <= span[1])])


def _text(x: float, y: float, text: str, anchor: str = "middle", cls: str = "label") -> str:
    return (
        f'<text class="{cls}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _line(cls: str, x1: float, x2: float, y1: float, y2: float) -> str:
    return f'<line class="{cls}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'


def _turned(x: float, y: float, text: str) -> str:
    return (
        f'<text class="name" transform="translate({x:.1f} {y:.1f}) rotate(-90)"'
        f' text-anchor="middle">{escape(text)}</text>'
    )


def _mark(frame: _Frame, place: Place, panel: Panel, longest_s: float) -> str:
    """Ring, disc, the line between them, and the value beside the disc."""
    row = place.row
    (x, y), (tx, ty) = frame.at(place.moved, place.work), frame.at(place.time_x, place.time_y)
    size = max(SMALLEST, LARGEST * math.sqrt(row.time_s / longest_s))
    colour = f"var(--{limiter_kind(row.limiter or '')})"
    value = short(value_text(panel.parameter, row.params[panel.parameter]), 16)
    share = f", {format_percent(row.efficiency)} of its bound" if row.efficiency else ""
    hover = (
        f"{panel.word} {value}: {format_seconds(row.time_s)}, limited by"
        f" {limiter_words(row.limiter)}{share}"
    )
    return (
        f'<g class="case" tabindex="0"><title>{escape(hover)}</title>'
        f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{tx:.1f}" y2="{ty:.1f}" stroke="{colour}"/>'
        f'<circle cx="{tx:.1f}" cy="{ty:.1f}" r="{size:.1f}" fill="{colour}" class="disc"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RING}" stroke="{colour}" class="ring"/>'
        f'<text class="value" x="{tx + size + 4:.1f}" y="{ty + 4:.1f}">{escape(value)}</text></g>'
    )


def _their_mark(frame: _Frame, row: Row, roofs: Roofs, panel: Panel) -> str:
    """Another machine's time on these axes: a cross, with its own words."""
    place = place_of(row, roofs)
    if place is None or not frame.inside(place.time_x, place.time_y):
        return ""
    x, y = frame.at(place.time_x, place.time_y)
    value = short(value_text(panel.parameter, row.params[panel.parameter]), 16)
    hover = f"V100, {panel.word} {value}: {format_seconds(row.time_s)}"
    return (
        f'<g class="theirs"><title>{escape(hover)}</title><path d="M{x - 5:.1f} {y - 5:.1f}l10 10'
        f'm-10 0l10 -10"/></g>'
    )
