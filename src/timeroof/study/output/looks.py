"""How the series of a study look on its charts: colour per series, marker per value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from timeroof.study.factors.cases import LEVELS, Row, label, level_of, level_title
from timeroof.views.palette import PALETTE
from timeroof.views.pictures import Look, Roofs
from timeroof.views.pictures.frame import LegendEntry
from timeroof.views.pictures.points import MARKERS
from timeroof.views.plain import clip, plain_line

if TYPE_CHECKING:
    from timeroof.core.machine import Machine
    from timeroof.core.resources import Scope

# More series than colours that everyone tells apart would not be told apart.
MOST_SERIES = 6
WIDE = ("fp32", "fp64")
# Launching below this share of every time is left off a chart.
SMALLEST_BOX = 0.02
OVERLAY_COLOUR = "#000000"
# Thin markers, which no row of this machine has.
OVERLAY_MARKERS = ("1", "x", "2", "+", "3", "4")


def short(text: object, limit: int = 40) -> str:
    """A text of a file on a picture: printable and of bearable length."""
    return clip(plain_line(str(text)), limit)


def series_name(row: Row) -> str:
    """What tells a row's series from others of one chart; what is usual is not said."""
    usual = {"framework": "torch", "device": "cpu", "cache": "warm", "variant": "eager"}
    told = [label(row, name) for name in ("precision", "framework", "device", "variant", "cache")]
    names = ("precision", "framework", "device", "variant", "cache")
    words = [v for n, v in zip(names, told, strict=True) if v and usual.get(n) != v]
    return " ".join(words) or "all"


def series_order(name: str) -> tuple[bool, str]:
    """Where a series stands among others: fp32, which gains are measured against, first."""
    return not name.startswith("fp32"), name


def series_colours(rows: Iterable[Row]) -> dict[str, str]:
    """A colour per series, the paper's fp32 first, as many as may be told apart."""
    names = sorted({series_name(row) for row in rows}, key=series_order)
    return dict(zip(names[:MOST_SERIES], PALETTE, strict=False))


def value_markers(values: Sequence[str]) -> dict[str, str]:
    """A marker per value; one for all where there are more values than markers."""
    if len(values) > len(MARKERS):
        return dict.fromkeys(values, "o")
    return dict(zip(values, MARKERS, strict=False))


def look_of(row: Row, colours: dict[str, str], marker: str) -> Look:
    """Colour of the series, the value's marker, open for wide types and filled for narrow ones."""
    return Look(colours[series_name(row)], marker, label(row, "precision") not in WIDE)


def series_entries(colours: dict[str, str]) -> list[LegendEntry]:
    """The legend's column of series."""
    return [
        LegendEntry(short(name, 30), Look(colour, "o", name.split()[0] not in WIDE))
        for name, colour in colours.items()
    ]


def chart_pair(rows: Sequence[Row], machine: Machine, scope: Scope) -> Roofs | None:
    """The pair of roofs of a chart: the highest compute ceiling that its rows use, and a memory.

    The memory is DRAM, or the nearest level to it at which all rows move bytes.
    """
    roofs = machine.roofs(scope)
    used = [r for r in compute_names(rows) if r in roofs]
    known = [level for level in LEVELS if f"byte/{level}" in roofs]
    if not used or not known:
        return None
    level = level_of(rows, known)
    best = max(used, key=lambda r: roofs[r].rate)
    launch = roofs.get("launch") if _boxes_matter(rows) else None
    return Roofs(
        compute_name=best.removeprefix("flop/"),
        flops_per_s=roofs[best].rate,
        memory_name=level_title(level),
        bytes_per_s=roofs[f"byte/{level}"].rate,
        level=level,
        launch_s=1 / launch.rate if launch else None,
    )


def _boxes_matter(rows: Sequence[Row]) -> bool:
    """Whether launching is near any row's time: a box far below all points would shrink them."""
    shares = [(row.get("overhead_time_s") or 0.0) / row["time_s"] for row in rows]
    return max(shares, default=0.0) > SMALLEST_BOX


def compute_names(rows: Sequence[Row]) -> list[str]:
    """Compute resources that rows use."""
    return sorted({k for row in rows for k, v in row.items() if k.startswith("flop/") and v})
