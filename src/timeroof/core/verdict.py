"""Verdicts: what bounds every row of a profile on one machine, as columns beside the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from timeroof.core.resources import DRAM

if TYPE_CHECKING:
    from timeroof.core.machine import Ceiling
    from timeroof.core.profile import Profile

BOUND = "bound."


class RoofPair(NamedTuple):
    """One compute and one memory ceiling for all rows: the two axes of the paper's planes.

    Time coordinates and `paper_class` divide the FLOPs of all precisions by this compute
    ceiling, as the authors do with the tensor-core peak. Bounds never use it.
    """

    compute: str = "flop/fp16-tensor"
    memory: str = DRAM


@dataclass(frozen=True)
class Verdicts:
    """One row per row of the judged profile, in its order.

    `table` has ``bound.<resource>`` per resource that has both amounts and a
    ceiling, and the columns that docs/model.md defines: limiter, work_bound_s,
    overhead_time_s, bound_s, elapsed_s, gap_s, kernel_efficiency, efficiency, owed_flops (of all
    precisions, without a convolution's padding), ai, compute_time_s, bandwidth_time_s,
    inside_overhead_box, paper_class, above_roof.
    `roofs` are the ceilings that were used, `pair` those of the time coordinates.
    """

    table: pl.DataFrame
    roofs: dict[str, Ceiling]
    pair: RoofPair | None = None
    asynchronous: bool = True
    notes: tuple[str, ...] = ()

    @property
    def resources(self) -> list[str]:
        """Resources that gave a bound."""
        return [c.removeprefix(BOUND) for c in self.table.columns if c.startswith(BOUND)]


def judged_rows(profile: Profile, verdicts: Verdicts) -> pl.DataFrame:
    """The rows of a profile with their verdicts beside them: the table that every view reads."""
    return pl.concat([profile.kernels, verdicts.table.drop("id")], how="horizontal")
