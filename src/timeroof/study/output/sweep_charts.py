"""The combined chart of a sweep: work and time of its cases on one pair of roofs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timeroof.study.output import looks
from timeroof.study.output.looks import chart_pair, own_unit, row_unit, short
from timeroof.views.pictures import FigureSize, Look, Roofs, Unit, combined_chart
from timeroof.views.pictures.frame import LEGEND_ROW, LegendEntry
from timeroof.views.pictures.marks import GREY, box_entry, size_entries, value_entries
from timeroof.views.pictures.points import drawable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from timeroof.core.machine import Machine
    from timeroof.study.output.parts import Overlay, Panel

MOST_VALUES = 10


def panel_roofs(panel: Panel, machine: Machine) -> Roofs | None:
    """The roofs of a sweep's chart; None where it has none, or no case a place on it."""
    roofs = chart_pair(panel.rows, machine)
    if roofs is None or not _placed([row_unit(r, Look()) for r in panel.rows], roofs):
        return None
    return roofs


def panel_chart(panel: Panel, roofs: Roofs, overlay: Overlay | None) -> Figure:
    """The combined chart of one sweep on its roofs."""
    colours = looks.series_colours(panel.rows)
    markers = looks.value_markers(panel.values)
    units = [
        own_unit(row, colours, markers[row.params[panel.parameter]])
        for row in panel.rows
        if looks.series_name(row) in colours
    ]
    theirs, entries = _theirs(panel, roofs, overlay)
    legend = [
        [*looks.series_entries(colours), *_box(roofs)],
        [*size_entries(), *entries],
        *_value_columns(panel, markers),
    ]
    title = short(f"{panel.op}, {panel.pass_name}: {panel.word}", 60)
    # A chart keeps its height however long its legend is.
    height = 4.2 + LEGEND_ROW * max(0, *(len(column) - 4 for column in legend))
    size = FigureSize(width=4.4, height=height)
    units = [*_placed(units, roofs), *theirs]
    return combined_chart(units, roofs, title=title, legend=legend, size=size)


def _placed(units: list[Unit], roofs: Roofs) -> list[Unit]:
    """Units that have bytes at the chart's level; the others are in the table."""
    return [unit for unit in units if drawable(unit, roofs.level)]


def _theirs(
    panel: Panel, roofs: Roofs, overlay: Overlay | None
) -> tuple[list[Unit], list[LegendEntry]]:
    """The other machine's rows, all with one symbol: the rest is in the table."""
    units = _placed([row_unit(row, looks.OVERLAY) for row in panel.overlay], roofs)
    if overlay is None or not units:
        return [], []
    types = "/".join(dict.fromkeys(row.precision for row in panel.overlay))
    return units, [LegendEntry(short(f"{overlay.short_name} {types}", 34), looks.OVERLAY)]


def _box(roofs: Roofs) -> list[LegendEntry]:
    return [box_entry()] if roofs.launch_s is not None else []


def _value_columns(panel: Panel, markers: dict[int | str, str]) -> list[list[LegendEntry]]:
    """Values in columns of five, or in a line where they are many."""
    values = panel.values
    if len(values) > MOST_VALUES:
        text = short(f"{panel.word} {values[0]} to {values[-1]}")
        return [[LegendEntry(text, Look(GREY, "o"))]]
    told = {short(value, 16): marker for value, marker in markers.items()}
    entries = value_entries(short(panel.word, 16), panel.parameter, told)
    return [entries[i : i + 5] for i in range(0, len(entries), 5)]
