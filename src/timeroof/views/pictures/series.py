"""What charts of measured series share: a judged row as a unit, and the parts of their legends."""

from __future__ import annotations

import math
from typing import Any

from timeroof.views.pictures.frame import LegendEntry
from timeroof.views.pictures.marks import SIZE
from timeroof.views.pictures.points import Look, Unit

GREY = "#555555"


def row_unit(row: dict[str, Any], look: Look) -> Unit:
    """A row of judged rows as a unit of a chart; an amount that is not known is NaN.

    >>> row_unit({"name": "a", "time_s": 1.0, "launches": 2.0, "flop/fp32": 8.0, "byte/dram": 4.0},
    ...          Look()).bytes_at("dram")
    4.0
    """
    work = [v for k, v in row.items() if k.startswith("flop/")]
    traffic = {k.removeprefix("byte/"): v for k, v in row.items() if k.startswith("byte/")}
    return Unit(
        name=row["name"],
        flops=math.nan if None in work else float(sum(work)),
        bytes_by_level={level: float(v) for level, v in traffic.items() if v is not None},
        time_s=row["time_s"],
        launches=row["launches"] or 0.0,
        look=look,
    )


def box_entry() -> LegendEntry:
    """The dashed box that launches fill."""
    return LegendEntry("launch box", Look(GREY, "o"), dashed=True)


def size_entries() -> list[LegendEntry]:
    """Work and time of the combined chart, told by size."""
    return [
        LegendEntry("small: work", Look(GREY, "o"), size=SIZE - 1.2),
        LegendEntry("large: time", Look(GREY, "o"), size=SIZE + 0.6),
    ]


def value_text(parameter: str, value: object) -> str:
    """A parameter's value on a chart.

    >>> value_text("kernel", 3), value_text("batch", 16)
    ('3x3', '16')
    """
    return f"{value}x{value}" if parameter == "kernel" else str(value)


def value_entries(word: str, parameter: str, markers: dict[Any, str]) -> list[LegendEntry]:
    """Values of a swept parameter, told by marker."""
    return [
        LegendEntry(f"{word} {value_text(parameter, value)}", Look(GREY, marker))
        for value, marker in markers.items()
    ]
