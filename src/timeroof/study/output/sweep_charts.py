"""Charts of sweeps: combined per parameter; planes and roofline per kernel and pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from timeroof.study.factors.cases import LEVELS, Row, label, level_title, scope
from timeroof.study.output.looks import (
    OVERLAY_COLOUR,
    OVERLAY_MARKERS,
    chart_pair,
    compute_names,
    look_of,
    series_colours,
    series_entries,
    series_name,
    short,
    value_markers,
)
from timeroof.study.output.overlay import Overlay, roofs_text
from timeroof.views.pictures import (
    FigureSize,
    Look,
    Roofs,
    Unit,
    combined_chart,
    complexity_plane,
    hierarchical_roofline,
    time_plane,
)
from timeroof.views.pictures.frame import LegendEntry
from timeroof.views.pictures.marks import GREY, box_entry, row_unit, size_entries, value_entries
from timeroof.views.pictures.points import drawable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from timeroof.core.machine import Machine
    from timeroof.study.output.overlay import Overview, Panel

SIZE = FigureSize(width=4.4, height=4.2)
WORDS = {"batch": "batch size", "kernel": "kernel size", "hidden": "hidden size"}
MOST_VALUES = 10


def panel_roofs(panel: Panel, machine: Machine) -> Roofs | None:
    """The roofs of a sweep's chart; None where it has none, or no case a place on it."""
    roofs = chart_pair(panel.rows, machine, scope(panel.rows[0]))
    if roofs is None or not any(drawable(row_unit(r, Look()), roofs.level) for r in panel.rows):
        return None
    return roofs


def panel_chart(panel: Panel, roofs: Roofs, overlay: Overlay | None) -> Figure:
    """The combined chart of one sweep on its roofs."""
    colours = series_colours(panel.rows)
    markers = value_markers(panel.values)
    own = [row for row in panel.rows if series_name(row) in colours]
    units = [
        row_unit(row, look_of(row, colours, markers[str(label(row, panel.parameter))]))
        for row in own
    ]
    units = _placed(units, roofs)
    word = WORDS.get(panel.parameter, panel.parameter.replace("_", " "))
    legend = [
        [*series_entries(colours), *_box(roofs)],
        size_entries(),
        *_value_columns(word, panel, markers),
    ]
    theirs = _overlay_markers(panel)
    beside = _placed(
        [
            row_unit(row, Look(OVERLAY_COLOUR, theirs[str(label(row, panel.parameter))]))
            for row in panel.overlay
        ],
        roofs,
    )
    if overlay and beside:
        units += beside
        legend[1] = [*size_entries(), *_overlay_entries(panel, overlay, theirs)]
    title = f"{panel.op}, {panel.pass_name}: {word}"
    return combined_chart(units, roofs, title=short(title, 60), legend=legend, size=_size(legend))


def _placed(units: list[Unit], roofs: Roofs) -> list[Unit]:
    """Units that have bytes at the chart's level; the others are in the table."""
    return [unit for unit in units if drawable(unit, roofs.level)]


def _box(roofs: Roofs) -> list[LegendEntry]:
    return [box_entry()] if roofs.launch_s is not None else []


def _value_columns(word: str, panel: Panel, markers: dict[str, str]) -> list[list[LegendEntry]]:
    """Values in one column, in two where they are many."""
    values = panel.values
    if len(values) > MOST_VALUES:
        return [[LegendEntry(short(f"{word} {values[0]} to {values[-1]}"), Look(GREY, "o"))]]
    told = {short(value, 16): marker for value, marker in markers.items()}
    entries = value_entries(short(word, 16), panel.parameter, told)
    half = len(entries) if len(entries) <= 5 else (len(entries) + 1) // 2
    return [part for part in (entries[:half], entries[half:]) if part]


def _overlay_markers(panel: Panel) -> dict[str, str]:
    values = panel.values
    return {v: OVERLAY_MARKERS[i % len(OVERLAY_MARKERS)] for i, v in enumerate(values)}


def _overlay_entries(panel: Panel, overlay: Overlay, markers: dict[str, str]) -> list[LegendEntry]:
    """The other machine's rows: one line, the rest is in the table."""
    types = "/".join(dict.fromkeys(str(label(row, "precision")) for row in panel.overlay))
    shown = {str(label(row, panel.parameter)) for row in panel.overlay}
    name = overlay.short_name
    return [
        LegendEntry(short(f"{name} {types}: {value}", 34), Look(OVERLAY_COLOUR, marker))
        for value, marker in markers.items()
        if value in shown
    ]


def _size(legend: Sequence[Sequence[object]]) -> FigureSize:
    """A chart keeps its height however long its legend is."""
    rows = max(len(group) for group in legend)
    return FigureSize(width=SIZE.width, height=SIZE.height + 0.128 * max(0, rows - 4))


def overview_charts(
    overview: Overview, machine: Machine, overlay: Overlay | None
) -> dict[str, Figure]:
    """Complexity plane, time plane and hierarchical roofline of a kernel's pass."""
    which = scope(overview.rows[0])
    roofs = chart_pair(overview.rows, machine, which)
    colours = series_colours(overview.rows)
    own = [row for row in overview.rows if series_name(row) in colours]
    units = [row_unit(row, look_of(row, colours, "o")) for row in own]
    if roofs is None or not _placed(units, roofs):
        return {}
    entries = [series_entries(colours)]
    charts = {}
    beside = _placed([row_unit(r, Look(OVERLAY_COLOUR, "x")) for r in overview.overlay], roofs)
    theirs: list[LegendEntry] = []
    if overlay and beside:
        theirs_text = roofs_text(overlay.machine, _peak(overview.overlay), roofs.level)
        text = f"{overlay.short_name} ({theirs_text})"
        theirs = [LegendEntry(short(text, 64), Look(OVERLAY_COLOUR, "x"))]
    for name, plane in (("complexity", complexity_plane), ("time", time_plane)):
        charts[name] = plane(
            [*_placed(units, roofs), *beside],
            roofs,
            title=short(f"{overview.title}: {'work' if name == 'complexity' else 'time'}", 60),
            legend=[[*entries[0], *_box(roofs), *theirs]],
            size=FigureSize(width=SIZE.width, height=3.6 + 0.128 * len(colours)),
        )
    charts["roofline"] = _roofline(overview, machine, units, [[*entries[0]]])
    return charts


def _peak(rows: Sequence[Row]) -> str:
    names = compute_names(rows)
    return names[-1] if names else "flop/fp32"


def _roofline(
    overview: Overview, machine: Machine, units: list[Unit], legend: list[list[LegendEntry]]
) -> Figure:
    """FLOP/s over intensity of every level that is known, all levels' roofs drawn."""
    which = scope(overview.rows[0])
    ceilings = machine.roofs(which)
    compute = {
        r.removeprefix("flop/"): ceilings[r].rate
        for r in compute_names(overview.rows)
        if r in ceilings
    }
    known = sorted({k for unit in units for k, v in unit.bytes_by_level.items() if v > 0})
    memory = {
        level_title(level): ceilings[f"byte/{level}"].rate
        for level in reversed(LEVELS)
        if f"byte/{level}" in ceilings and level in known
    }
    return hierarchical_roofline(
        units,
        compute,
        memory,
        levels=known or ("dram",),
        title=short(f"{overview.title}: roofline", 60),
        legend=legend,
        size=FigureSize(width=SIZE.width, height=3.6 + 0.128 * len(legend[0])),
        all_slopes=True,
    )
