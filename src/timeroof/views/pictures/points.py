"""What a chart draws: units with their work and time, the roofs they meet, and their look."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from timeroof.model.judge import time_coordinates
from timeroof.views.style import PALETTE

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")


@dataclass(frozen=True)
class Look:
    """How a unit is drawn: which colour and marker of the chart's, open or filled."""

    colour: str = PALETTE[0]
    marker: str = "o"
    filled: bool = True


@dataclass(frozen=True)
class Unit:
    """A kernel or a whole pass: FLOPs that had to be done, bytes per level, seconds, launches."""

    name: str
    flops: float
    bytes_by_level: dict[str, float]
    time_s: float
    launches: float = 0.0
    look: Look = field(default_factory=Look)

    def bytes_at(self, level: str) -> float:
        """Bytes moved at one level, NaN where they are not known."""
        return self.bytes_by_level.get(level, math.nan)


@dataclass(frozen=True)
class Roofs:
    """The pair of roofs behind a chart's second axes, and the cost of a launch."""

    compute_name: str
    flops_per_s: float
    memory_name: str
    bytes_per_s: float
    launch_s: float | None = None
    level: str = "dram"

    @property
    def balance(self) -> float:
        """Machine balance in FLOP per byte."""
        return self.flops_per_s / self.bytes_per_s

    def time_points_s(self, units: Sequence[Unit]) -> list[tuple[float, float]]:
        """Bandwidth and compute time of units as the model places them on these roofs."""
        work = {
            "flops": [u.flops for u in units],
            "bytes": [u.bytes_at(self.level) for u in units],
            "time_s": [u.time_s for u in units],
        }
        table = pl.DataFrame(work, schema=dict.fromkeys(work, pl.Float64)).fill_nan(None)
        places = table.select(
            time_coordinates(
                pl.col("flops") / self.flops_per_s,
                pl.col("bytes") / self.bytes_per_s,
                pl.col("time_s"),
            )
        ).fill_null(math.nan)
        return list(places.select("bandwidth_time_s", "compute_time_s").iter_rows())


def drawable(unit: Unit, level: str) -> bool:
    """Whether a unit has a place on a plane: its bytes are known and it took time."""
    return unit.bytes_at(level) > 0 and unit.time_s > 0 and unit.flops >= 0
