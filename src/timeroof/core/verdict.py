"""Verdicts: what bounds every row of a profile on one machine, as columns beside the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from timeroof.core.machine import Ceiling

BOUND = "bound."


@dataclass(frozen=True)
class Verdicts:
    """One row per row of the judged profile, in its order.

    `table` has ``bound.<resource>`` per resource that has both amounts and a
    ceiling, and the columns that docs/model.md defines: limiter, work_bound_s,
    overhead_time_s, bound_s, elapsed_s, gap_s, kernel_efficiency, efficiency, ai,
    compute_time_s, bandwidth_time_s, inside_overhead_box, paper_class, above_roof.
    `roofs` are the ceilings that were used.
    """

    table: pl.DataFrame
    roofs: dict[str, Ceiling]
    asynchronous: bool = True
    notes: tuple[str, ...] = ()

    @property
    def resources(self) -> list[str]:
        """Resources that gave a bound."""
        return [c.removeprefix(BOUND) for c in self.table.columns if c.startswith(BOUND)]
