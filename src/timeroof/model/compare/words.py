"""What a comparison says beside its numbers: which test decided, and which amounts differ."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from timeroof.core.units import format_percent, format_seconds
from timeroof.model.compare.match import AMOUNTS

# Amounts that differ by less than this share are the same, rounded.
SAME_WORK = 1e-6
# Kinds of work, and the columns of a pair's sides that hold their amounts.
WORK = {
    "flops": ("flops",),
    "bytes": tuple(c for c in AMOUNTS if c.startswith("byte/")),
    "launches": ("launches",),
}


@dataclass(frozen=True)
class WholeRuns:
    """The difference of two whole runs, test by test.

    `confirmed_s` is what the fastest steps confirm of `delta_s`, `beyond_pace_s` what the machine's
    own pace does not explain of that. `threshold_s` is `threshold` of the longer run.
    """

    delta_s: float
    confirmed_s: float
    beyond_pace_s: float
    noise_s: float | None
    threshold: float
    threshold_s: float

    @property
    def needed_s(self) -> float:
        """Seconds that all tests must leave of a difference that is called one."""
        return max(self.noise_s or 0.0, self.threshold_s)

    @property
    def significant(self) -> bool:
        """Whether the difference passes all tests."""
        return abs(self.beyond_pace_s) > self.needed_s

    @property
    def reason(self) -> str | None:
        """The first test that a difference does not pass, in a phrase; None where it passes all.

        >>> WholeRuns(0.5, 0.5, 0.5, 0.1, 0.07, 0.7).reason
        'below 7 % of the run'
        >>> WholeRuns(2.0, 0.0, 0.0, 0.1, 0.07, 0.7).reason
        'the fastest steps of both runs do not confirm it'
        """
        if self.significant or self.delta_s == 0:
            return None
        if abs(self.delta_s) <= self.needed_s:
            return self._too_small()
        if abs(self.confirmed_s) <= self.needed_s:
            return self._not_confirmed()
        left = format_seconds(abs(self.beyond_pace_s))
        return f"the machine's own pace explains all but {left} of it"

    def _too_small(self) -> str:
        if self.noise_s is not None and self.noise_s > self.threshold_s:
            return f"within the noise of the samples, {format_seconds(self.noise_s)}"
        return f"below {format_percent(self.threshold)} of the run"

    def _not_confirmed(self) -> str:
        if self.confirmed_s == 0:
            return "the fastest steps of both runs do not confirm it"
        differ, needed = format_seconds(abs(self.confirmed_s)), format_seconds(self.needed_s)
        return f"the fastest steps differ by {differ} only, {needed} are needed"


def differing_work() -> pl.Expr:
    """Which of FLOPs, bytes and launches the sides of a pair have different amounts of, as a list.

    What is unknown on a side differs from nothing.
    """
    kinds = [
        pl.when(pl.any_horizontal(*(_differs(c) for c in columns))).then(pl.lit(kind))
        for kind, columns in WORK.items()
    ]
    return pl.concat_list(kinds).list.drop_nulls()


def _differs(column: str) -> pl.Expr:
    a, b = pl.col(f"a.{column}"), pl.col(f"b.{column}")
    apart = (a - b).abs() > SAME_WORK * pl.max_horizontal(a.abs(), b.abs())
    return apart.fill_null(False)
