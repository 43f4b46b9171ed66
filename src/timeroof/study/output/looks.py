"""How a study's cases look on its charts: colour per series, marker per value, and the roofs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from timeroof.study.rows import LEVELS, USUAL, Row, Value, level_of
from timeroof.views.palette import PALETTE
from timeroof.views.pictures import Look, Roofs, Unit
from timeroof.views.pictures.frame import LegendEntry
from timeroof.views.pictures.points import MARKERS
from timeroof.views.plain import clip, plain_line

if TYPE_CHECKING:
    from timeroof.core.machine import Machine

# More series than colours that everyone tells apart would not be told apart.
MOST_SERIES = 6
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
