"""The combined chart of a sweep: colour per series, marker per value, one pair of roofs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from timeroof.study.rows import LEVELS, USUAL, Row, Value, level_of
from timeroof.views.palette import PALETTE
from timeroof.views.pictures import FigureSize, Look, Roofs, Unit, combined_chart, marks
from timeroof.views.pictures.frame import LEGEND_ROW, LegendEntry
from timeroof.views.pictures.points import MARKERS, drawable
from timeroof.views.plain import clip, plain_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from timeroof.core.machine import Machine
    from timeroof.study.output.parts import Overlay, Panel

# More series than colours that everyone tells apart would not be told apart.
MOST_SERIES, MOST_VALUES = 6, 10
WIDE = ("fp32", "fp64")
# Launching below this share of every time is left off a chart: its box would shrink all else.
SMALLEST_BOX = 0.02
# Another machine's rows: a thin marker, which no row of this machine has.
OVERLAY = Look("#000000", "x")


def short(text: object, limit: int = 40) -> str:
    """A text of a file on a picture: printable and of bearable length."""
    return clip(plain_line(str(text)), limit)


def series_name(row: Row) -> str:
    """What tells a row's series from others of one chart; what is usual is not said."""
    names = ("precision", "framework", "device", "variant", "cache")
    return " ".join(v for n in names if (v := getattr(row, n)) and USUAL.get(n) != v) or "all"


def series_order(name: str) -> tuple[bool, str]:
    """Where a series stands among others: fp32, which gains are measured against, first."""
    return not name.startswith("fp32"), name


def series_colours(rows: Iterable[Row]) -> dict[str, str]:
    """A colour per series, the paper's fp32 first, as many as may be told apart."""
    names = sorted({series_name(row) for row in rows}, key=series_order)
    return dict(zip(names[:MOST_SERIES], PALETTE, strict=False))


def value_markers(values: Sequence[Value]) -> dict[Value, str]:
    """A marker per value; one for all where there are more values than markers."""
    if len(values) > len(MARKERS):
        return dict.fromkeys(values, "o")
    return dict(zip(values, MARKERS, strict=False))


def row_unit(row: Row, look: Look) -> Unit:
    """A row as a unit of a chart; an amount that is not known is NaN."""
    return Unit(
        name=row.name,
        flops=math.nan if row.owed_flops is None else row.owed_flops,
        bytes_by_level={level: v for level, v in row.bytes_by.items() if v is not None},
        time_s=row.time_s,
        launches=row.launches or 0.0,
        look=look,
    )


def own_unit(row: Row, colours: dict[str, str], marker: str) -> Unit:
    """Colour of the series, the value's marker, open for wide types and filled for narrow ones."""
    return row_unit(row, Look(colours[series_name(row)], marker, row.precision not in WIDE))


def series_entries(colours: dict[str, str]) -> list[LegendEntry]:
    """The legend's column of series."""
    return [
        LegendEntry(short(name, 30), Look(colour, "o", name.split()[0] not in WIDE))
        for name, colour in colours.items()
    ]


def chart_pair(rows: Sequence[Row], machine: Machine) -> Roofs | None:
    """The pair of roofs of a chart: the highest compute ceiling that its rows use, and a memory.

    The memory is DRAM, or the nearest level to it at which all rows move bytes.
    """
    roofs = machine.roofs(rows[0].scope)
    used = [name for name in compute_names(rows) if f"flop/{name}" in roofs]
    known = [level for level in LEVELS if f"byte/{level}" in roofs]
    if not used or not known:
        return None
    level = level_of(rows, known)
    best = max(used, key=lambda name: roofs[f"flop/{name}"].rate)
    boxed = max((row.overhead_time_s or 0.0) / row.time_s for row in rows) > SMALLEST_BOX
    launch = roofs.get("launch") if boxed else None
    return Roofs(
        compute_name=best,
        flops_per_s=roofs[f"flop/{best}"].rate,
        memory_name=level.upper(),
        bytes_per_s=roofs[f"byte/{level}"].rate,
        level=level,
        launch_s=1 / launch.rate if launch else None,
    )


def compute_names(rows: Iterable[Row]) -> list[str]:
    """Precisions that rows have FLOPs of."""
    return sorted({name for row in rows for name, v in row.flops_by.items() if v})


def panel_roofs(panel: Panel, machine: Machine) -> Roofs | None:
    """The roofs of a sweep's chart; None where it has none, or no case a place on it."""
    roofs = chart_pair(panel.rows, machine)
    if roofs is None or not _placed([row_unit(r, Look()) for r in panel.rows], roofs):
        return None
    return roofs


def panel_chart(panel: Panel, roofs: Roofs, overlay: Overlay | None) -> Figure:
    """The combined chart of one sweep on its roofs."""
    colours = series_colours(panel.rows)
    markers = value_markers(panel.values)
    units = [
        own_unit(row, colours, markers[row.params[panel.parameter]])
        for row in panel.rows
        if series_name(row) in colours
    ]
    theirs, entries = _theirs(panel, roofs, overlay)
    legend = [
        [*series_entries(colours), *_box(roofs)],
        [*marks.size_entries(), *entries],
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
    units = _placed([row_unit(row, OVERLAY) for row in panel.overlay], roofs)
    if overlay is None or not units:
        return [], []
    types = "/".join(dict.fromkeys(row.precision for row in panel.overlay))
    return units, [LegendEntry(short(f"{overlay.short_name} {types}", 34), OVERLAY)]


def _box(roofs: Roofs) -> list[LegendEntry]:
    return [marks.box_entry()] if roofs.launch_s is not None else []


def _value_columns(panel: Panel, markers: dict[int | str, str]) -> list[list[LegendEntry]]:
    """Values in columns of five, or in a line where they are many."""
    values = panel.values
    if len(values) > MOST_VALUES:
        text = short(f"{panel.word} {values[0]} to {values[-1]}")
        return [[LegendEntry(text, Look(marks.GREY, "o"))]]
    told = {short(value, 16): marker for value, marker in markers.items()}
    entries = marks.value_entries(short(panel.word, 16), panel.parameter, told)
    return [entries[i : i + 5] for i in range(0, len(entries), 5)]
