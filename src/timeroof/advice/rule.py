"""A rule: a stable code, a name after the pattern it looks for, and the seconds it claims."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import polars as pl

from timeroof.advice.context import Context
from timeroof.advice.gains import HOST
from timeroof.core.report import Finding
from timeroof.core.resources import is_resource
from timeroof.model.bounds import amounts_known
from timeroof.model.stats import IQR_PER_DEVIATION, MEDIAN_PER_MEAN_ERROR

# A cure that gives back less than this share of the run is not worth a line.
MIN_SHARE = 0.01

_GAINS = {"id": pl.Int64, "busy_s": pl.Float64, "idle_s": pl.Float64}


@dataclass(frozen=True)
class Claim:
    """A finding, and whose seconds it claims: so that none is promised twice.

    `gains` has per row the busy and the idle seconds that the cure can give back at
    most, the idle ones of one group of causes (`idle_group`); `outside_s` are idle seconds by
    group that belong to no row. A claim that informs has none.
    """

    code: str
    title: str
    why: str
    action: str | None
    kernels: list[int]
    evidence: dict[str, Any]
    gains: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_GAINS))
    outside_s: dict[str, float] = field(default_factory=dict)
    idle_group: str = HOST
    informs: bool = False
    most_s: float = float("inf")

    @property
    def gain_s(self) -> float | None:
        """Seconds at stake for this cure by itself, at most all of the run; None informs."""
        if self.informs:
            return None
        return _sum_s(self.gains, self.outside_s, self.most_s)

    @property
    def finding(self) -> Finding:
        """The claim as a finding of the report."""
        return Finding(**{name: getattr(self, name) for name in Finding.__struct_fields__})


class Rule(ABC):
    """Looks for one pattern. The docstring of a rule is its page in the documentation."""

    code: ClassVar[str]
    name: ClassVar[str]
    title: ClassVar[str]
    actions: ClassVar[dict[str, str]]
    # Whether its rows are accounted for, so that rules which only say "slow" leave them alone …
    explains: ClassVar[bool] = True
    # … as those do that have this.
    last_resort: ClassVar[bool] = False
    # Whether it is a matter of counts, which hold where times do not.
    counts: ClassVar[bool] = False
    # Whether its seconds were seen to pass, however much single calls of a row differ.
    seen: ClassVar[bool] = False
    # Whether the cure removes rows, so that all of their time counts, whatever their amounts.
    removes: ClassVar[bool] = False

    # Whose idle seconds it claims.
    idle_group: ClassVar[str] = HOST

    @abstractmethod
    def claims(self, context: Context) -> list[Claim]:
        """What the pattern claims in a run; empty where it is not there."""

    def find(self, context: Context) -> list[Finding]:
        """The findings of this rule in a run."""
        return [claim.finding for claim in self.claims(context)]

    def documentation(self) -> str:
        """The rule's page."""
        return inspect.cleandoc(self.__doc__ or "")

    def claim(
        self,
        context: Context,
        rows: pl.DataFrame,
        why: str,
        evidence: dict[str, Any],
        *,
        title: str | None = None,
        action: str | None = None,
        outside_s: dict[str, float] | None = None,
        least_share: float = MIN_SHARE,
    ) -> list[Claim]:
        """Claim the columns `busy_gain_s` and `idle_gain_s` of rows, if they are worth it.

        Silent below `least_share` of the run and below the noise of the rows themselves. A row
        that runs beside others gives back only the instants that it runs alone, one whose
        work is unknown nothing of it.
        """
        gains = _gains(rows, of_work=not self.removes)
        gain_s = _sum_s(gains, outside_s or {}, context.total_s)
        worth = gain_s >= least_share * context.total_s and gain_s > 0
        if not worth or not (self.seen or gain_s > noise_s(rows)):
            return []
        claim = Claim(
            code=self.code,
            title=title or self.title,
            why=why,
            action=action or context.action(self.actions, rows),
            kernels=gains["id"].to_list(),
            evidence={**evidence, "share_of_time": _share(rows, context)},
            gains=gains,
            outside_s=outside_s or {},
            idle_group=self.idle_group,
            most_s=context.total_s,
        )
        return [claim]

    def inform(
        self,
        context: Context,
        rows: pl.DataFrame,
        why: str,
        evidence: dict[str, Any],
        *,
        title: str | None = None,
        action: str | None = None,
    ) -> list[Claim]:
        """Say something that costs or saves no seconds by itself."""
        return [
            Claim(
                code=self.code,
                title=title or self.title,
                why=why,
                action=action or context.action(self.actions),
                kernels=rows["id"].to_list(),
                evidence={**evidence, "share_of_time": _share(rows, context)},
                informs=True,
            )
        ]


def _sum_s(gains: pl.DataFrame, outside_s: dict[str, float], most_s: float) -> float:
    """Seconds of rows and beside them, at most all of the run."""
    rows_s = float(gains["busy_s"].sum()) + float(gains["idle_s"].sum())
    return min(rows_s + sum(outside_s.values()), most_s)


def noise_s(rows: pl.DataFrame) -> float:
    """Seconds by which the rows' medians may be off, were they all to move together.

    The standard error of a median is about 0.93 spreads by the root of the samples; a
    spread without its samples counts in full.
    """
    if "time_spread" not in rows.columns or not rows.height:
        return 0.0
    samples = pl.col("samples").list.len().fill_null(0) if "samples" in rows.columns else pl.lit(0)
    error = MEDIAN_PER_MEAN_ERROR / IQR_PER_DEVIATION / samples.sqrt()
    error = pl.when(samples > 1).then(error).otherwise(1.0)
    spread = pl.col("time_spread").fill_null(0.0)
    return float(rows.select((spread * pl.col("time_s") * error).sum()).item())


def _gains(rows: pl.DataFrame, *, of_work: bool) -> pl.DataFrame:
    busy = pl.col("busy_gain_s").fill_null(0.0).clip(lower_bound=0.0)
    if "most_gain_s" in rows.columns:
        busy = pl.min_horizontal(busy, "most_gain_s")
    if of_work:
        amounts = [c for c in rows.columns if is_resource(c)]
        busy = pl.when(amounts_known(amounts)).then(busy).otherwise(0.0)
    idle = pl.col("idle_gain_s") if "idle_gain_s" in rows.columns else pl.lit(0.0)
    gains = rows.select("id", busy.alias("busy_s"), idle.alias("idle_s"))
    worth = pl.col("busy_s") + pl.col("idle_s")
    return gains.filter(worth > 0).sort(worth, descending=True, maintain_order=True)


def _share(rows: pl.DataFrame, context: Context) -> float:
    time_s = float(context.rows["time_s"].sum())
    return round(float(rows["time_s"].sum()) / time_s, 4) if time_s else 0.0
