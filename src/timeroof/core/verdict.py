"""Verdicts: what bounds every row of a profile on one machine, as columns beside the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from timeroof.core.columns import BOUND, with_derived
from timeroof.core.resources import DRAM

if TYPE_CHECKING:
    from timeroof.core.machine import Ceiling
    from timeroof.core.notes import Note
    from timeroof.core.profile import Profile

__all__ = ["BOUND", "RoofPair", "Verdicts", "judged_rows", "plain_rows"]


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
    ceiling, and the `verdict` columns of `timeroof.core.columns`.
    `roofs` are the ceilings that were used, `pair` those of the time coordinates.
    """

    table: pl.DataFrame
    roofs: dict[str, Ceiling]
    pair: RoofPair | None = None
    asynchronous: bool = True
    notes: tuple[Note, ...] = ()

    @property
    def resources(self) -> list[str]:
        """Resources that gave a bound."""
        return [c.removeprefix(BOUND) for c in self.table.columns if c.startswith(BOUND)]


def plain_rows(profile: Profile, verdicts: Verdicts) -> pl.DataFrame:
    """The rows of a profile with their verdicts beside them, derived columns left out."""
    return pl.concat([profile.kernels, verdicts.table.drop("id")], how="horizontal")


def judged_rows(profile: Profile, verdicts: Verdicts) -> pl.DataFrame:
    """The rows of a profile with all that follows: the table that every view reads."""
    return with_derived(plain_rows(profile, verdicts))
