"""Charts of sweeps: combined per parameter; planes and roofline per kernel and pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from timeroof.study.output import looks
from timeroof.study.output.looks import chart_pair, own_unit, row_unit, short
from timeroof.study.rows import LEVELS
from timeroof.views import pictures
from timeroof.views.pictures import FigureSize, Look, Roofs, Unit
from timeroof.views.pictures.frame import LEGEND_ROW, LegendEntry
from timeroof.views.pictures.marks import GREY, box_entry, size_entries, value_entries
from timeroof.views.pictures.points import drawable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from timeroof.core.machine import Machine
    from timeroof.study.output.parts import Overlay, Part

WIDTH = 4.4
MOST_VALUES = 10


def panel_roofs(panel: Part, machine: Machine) -> Roofs | None:
    """The roofs of a sweep's chart; None where it has none, or no case a place on it."""
    roofs = chart_pair(panel.rows, machine)
    if roofs is None or not _placed([row_unit(r, Look()) for r in panel.rows], roofs):
        return None
    return roofs


def panel_chart(panel: Part, roofs: Roofs, overlay: Overlay | None) -> Figure:
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
    size = _size(4.2 - 4 * LEGEND_ROW, max(4, *map(len, legend)))
    units = [*_placed(units, roofs), *theirs]
    return pictures.combined_chart(units, roofs, title=title, legend=legend, size=size)


def _placed(units: list[Unit], roofs: Roofs) -> list[Unit]:
    """Units that have bytes at the chart's level; the others are in the table."""
    return [unit for unit in units if drawable(unit, roofs.level)]


def _theirs(
    part: Part, roofs: Roofs, overlay: Overlay | None
) -> tuple[list[Unit], list[LegendEntry]]:
    """The other machine's rows, all with one symbol: the rest is in the table."""
    units = _placed([row_unit(row, looks.OVERLAY) for row in part.overlay], roofs)
    if overlay is None or not units:
        return [], []
    types = "/".join(dict.fromkeys(row.precision for row in part.overlay))
    return units, [LegendEntry(short(f"{overlay.short_name} {types}", 34), looks.OVERLAY)]


def _box(roofs: Roofs) -> list[LegendEntry]:
    return [box_entry()] if roofs.launch_s is not None else []


def _value_columns(panel: Part, markers: dict[int | str, str]) -> list[list[LegendEntry]]:
    """Values in columns of five, or in a line where they are many."""
    values = panel.values
    if len(values) > MOST_VALUES:
        text = short(f"{panel.word} {values[0]} to {values[-1]}")
        return [[LegendEntry(text, Look(GREY, "o"))]]
    told = {short(value, 16): marker for value, marker in markers.items()}
    entries = value_entries(short(panel.word, 16), panel.parameter, told)
    return [entries[i : i + 5] for i in range(0, len(entries), 5)]


def _size(height: float, legend_rows: int) -> FigureSize:
    """A chart keeps its height however long its legend is."""
    return FigureSize(width=WIDTH, height=height + LEGEND_ROW * legend_rows)


def overview_charts(part: Part, machine: Machine, overlay: Overlay | None) -> dict[str, Figure]:
    """Complexity plane, time plane and hierarchical roofline of a kernel's pass."""
    roofs = chart_pair(part.rows, machine)
    colours = looks.series_colours(part.rows)
    units = [own_unit(r, colours, "o") for r in part.rows if looks.series_name(r) in colours]
    if roofs is None or not _placed(units, roofs):
        return {}
    entries = looks.series_entries(colours)
    theirs, theirs_entries = _theirs(part, roofs, overlay)
    title, size = f"{part.op}, {part.pass_name}", _size(3.6, len(colours))
    planes = {"complexity": pictures.complexity_plane, "time": pictures.time_plane}
    charts = {
        name: plane(
            [*_placed(units, roofs), *theirs],
            roofs,
            title=short(f"{title}: {'work' if name == 'complexity' else 'time'}", 60),
            legend=[[*entries, *_box(roofs), *theirs_entries]],
            size=size,
        )
        for name, plane in planes.items()
    }
    return charts | {"roofline": _roofline(part, machine, units, entries, title, size)}


def _roofline(
    part: Part,
    machine: Machine,
    units: Sequence[Unit],
    entries: list[LegendEntry],
    title: str,
    size: FigureSize,
) -> Figure:
    """FLOP/s over intensity of every level that is known, all levels' roofs drawn."""
    roofs = machine.roofs(part.rows[0].scope)
    used = looks.compute_names(part.rows)
    compute = {n: roofs[f"flop/{n}"].rate for n in used if f"flop/{n}" in roofs}
    known = sorted({k for unit in units for k, v in unit.bytes_by_level.items() if v > 0})
    memory = {
        level.upper(): roofs[f"byte/{level}"].rate
        for level in reversed(LEVELS)
        if f"byte/{level}" in roofs and level in known
    }
    return pictures.hierarchical_roofline(
        units,
        compute,
        memory,
        levels=known or ("dram",),
        title=short(f"{title}: roofline", 60),
        legend=[entries],
        size=size,
        all_slopes=True,
    )
