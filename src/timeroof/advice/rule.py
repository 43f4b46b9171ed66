"""A rule: a stable code, a name after the pattern it looks for, and the seconds it claims.

What rules reckon with is here, too: idle seconds by what could end them, bounds in another format.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import polars as pl

from timeroof.advice.context import Context
from timeroof.core.machine import is_resource
from timeroof.core.report import BOUND, Finding
from timeroof.core.vocabulary import IdleCause
from timeroof.model.bounds import amounts_known
from timeroof.model.stats import IQR_PER_DEVIATION, MEDIAN_PER_MEAN_ERROR

# Idle seconds by what could end them.

HOST, DATA, SYNC, LINK, ASLEEP = "host", "data", "synchronisation", "communication", "asleep"
COMPILING = "compiling"

# Causes that are not here are the device's own, the measuring's, the machine's or unknown.
_GROUPS: dict[str, str] = {
    **dict.fromkeys(("launch-starved", "python", "autograd", "dispatch", "runtime"), HOST),
    IdleCause.DATA: DATA,
    IdleCause.HOST_SYNC: SYNC,
    IdleCause.COMMUNICATION: LINK,
    IdleCause.ASLEEP: ASLEEP,
    IdleCause.COMPILE: COMPILING,
}


def idle_seconds(context: Context, group: str) -> float:
    """Idle seconds of the run that belong to a group of causes; pauses outside of steps do not."""
    causes, steps = context.totals.idle_by_cause, context.totals.steps
    pauses = steps.pause_by_cause if steps is not None else {}
    seconds = (
        s - pauses.get(cause, 0.0) for cause, s in causes.items() if _GROUPS.get(cause) == group
    )
    return max(0.0, sum(seconds))


def idle_share(context: Context, group: str) -> float:
    """The share of the rows' idle that belongs to a group; all of it where no cause is known."""
    if not context.totals.idle_by_cause:
        return 1.0
    known_s = float(context.rows["idle_s"].sum())
    return min(1.0, idle_seconds(context, group) / known_s) if known_s else 0.0


def with_idle_gain(context: Context, group: str) -> tuple[pl.DataFrame, dict[str, float]]:
    """Idle seconds of a group as gains of rows, or beside the rows where those do not know.

    Where rows know the idle before them, each gives the group's share of it.
    """
    seconds = idle_seconds(context, group)
    known_s = float(context.rows["idle_s"].sum())
    share = idle_share(context, group) if seconds else 0.0
    rows = context.rows.filter(pl.col("idle_s") > 0).with_columns(
        pl.lit(0.0).alias("busy_gain_s"), (pl.col("idle_s") * share).alias("idle_gain_s")
    )
    left = seconds - share * known_s
    return rows, ({group: left} if left > 1e-12 else {})


# What a row's bound would be, were its arithmetic done in another format.

# Units that multiply matrices of 16-bit numbers, best first.
SIXTEEN_BIT = ("flop/bf16-tensor", "flop/fp16-tensor", "flop/bf16")
NATIVE = {
    "fp16": ("flop/fp16-tensor",),
    "bf16": ("flop/bf16-tensor", "flop/bf16"),
    "fp32": ("flop/tf32-tensor",),
}


def native_rate(context: Context, resources: tuple[str, ...]) -> tuple[str, float] | None:
    """The first resource that the device has a unit of its own for, and its rate."""
    emulated = context.machine.emulated if context.machine is not None else {}
    rates = ((resource, context.rate(resource)) for resource in resources)
    return next(((r, rate) for r, rate in rates if rate is not None and r not in emulated), None)


def contraction_amount() -> pl.Expr:
    """FLOPs that a matrix unit could do; all FLOPs of a contraction where not told apart."""
    return pl.coalesce(pl.col("contraction_flops"), pl.col("total_flops"))


def flop_bounds(rows: pl.DataFrame) -> list[str]:
    """Bounds by arithmetic."""
    return [c for c in rows.columns if c.startswith(f"{BOUND}flop/")]


def other_bounds(rows: pl.DataFrame, byte_factor: float = 1.0) -> pl.Expr:
    """The largest bound by bytes, which a narrower format shortens, and by links."""
    memory = [c for c in rows.columns if c.startswith((f"{BOUND}byte/", f"{BOUND}link/"))]
    if not memory:
        return pl.lit(0.0)
    return pl.max_horizontal(memory).fill_null(0.0) * byte_factor


def flop_bound(rows: pl.DataFrame) -> pl.Expr:
    """The largest bound by arithmetic."""
    bounds = flop_bounds(rows)
    return pl.max_horizontal(bounds).fill_null(0.0) if bounds else pl.lit(0.0)


def on_unit(rows: pl.DataFrame, rate: float, byte_factor: float = 1.0) -> pl.Expr:
    """Seconds at the roof with all contractions on a unit of that rate."""
    return pl.max_horizontal(contraction_amount() / rate, other_bounds(rows, byte_factor))


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
