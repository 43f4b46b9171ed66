"""Totals of a judged profile: where the seconds are, and how many could come back."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from timeroof.core.columns import bytes_known, flops_known
from timeroof.core.machine import DRAM, LIMITER_KINDS, Machine, Scope, limiter_kind
from timeroof.core.profile import Profile
from timeroof.core.report import Ladder, Totals, Verdicts, plain_rows
from timeroof.core.units import format_seconds
from timeroof.core.vocabulary import IdleCause
from timeroof.model.bounds import is_settled
from timeroof.model.judge import judge

KEY = "short_name"
# Rows with a known limit stand for their group where they hold this share of its time.
LEAST_SETTLED = 0.5


def kernel_groups(rows: pl.DataFrame, devices: int | None = None) -> pl.DataFrame:
    """One line per kernel of judged rows, largest time first.

    Seconds are divided by `devices`, by default the ranks. Columns: `short_name`, `ops` (those
    that launch it, the longest first), `limiter` and `limit` (those of most seconds), `time_s`,
    `idle_before_s`, `elapsed_s`, `bound_s`, `gap_s` (null where a row has none), `calls`,
    `launches`, `share` (of the time of all rows), `achieved_flop_per_s`,
    `achieved_byte_per_s`, `kernel_efficiency` (of the rows that have one, where these hold half
    of the time), `of_limit` (the same, but of the elapsed time where launching is the limit) and
    `rows`, the ids behind the line.
    """
    parts = devices or max(1, rows["rank"].drop_nulls().n_unique())
    timed = rows.filter(pl.col("time_s").is_not_null()).with_columns(
        _moved(rows).alias("_bytes"), pl.col("time_s").sum().over(KEY, "limit").alias("_limit_s")
    )
    sums = ("time_s", "elapsed_s", "calls", "launches")
    whole = ("bound_s", "gap_s", "owed_flops", "_bytes")
    most_first = pl.col("limiter", "limit").sort_by("_limit_s", "time_s", descending=True).first()
    grouped = (
        timed.group_by(KEY, maintain_order=True)
        .agg(
            pl.col(sums).sum() / parts,
            *(_whole_sum(c) / parts for c in whole),
            _known_sum("idle_before_s") / parts,
            most_first,
            *shares_of_bounds(),
            _ops(),
            pl.col("id").alias("rows"),
        )
        .sort("time_s", descending=True, maintain_order=True)
    )
    total_s = float(grouped["time_s"].sum()) or 1.0
    return grouped.with_columns(
        (pl.col("time_s") / total_s).alias("share"),
        _per_second("owed_flops").alias("achieved_flop_per_s"),
        _per_second("_bytes").alias("achieved_byte_per_s"),
        of_limit(),
    ).drop("_bytes", "owed_flops", "efficiency")


def _ops() -> pl.Expr:
    """The ops of a kernel, those of its longest rows first."""
    longest_first = pl.col("op").sort_by("time_s", descending=True)
    return longest_first.drop_nulls().unique(maintain_order=True).alias("ops")


def shares_of_bounds() -> list[pl.Expr]:
    """What a group's rows reach of the bound of their work, and of all their bounds."""
    return [
        _efficiency("kernel_efficiency", "work_bound_s", "time_s"),
        _efficiency("efficiency", "bound_s", "elapsed_s"),
    ]


def of_limit() -> pl.Expr:
    """What a group reaches of its limit: launching counts where that is the limit."""
    launching = pl.col("limit") == "launch"
    return pl.when(launching).then("efficiency").otherwise("kernel_efficiency").alias("of_limit")


def _efficiency(column: str, least: str, taken: str) -> pl.Expr:
    """An efficiency of the rows that have one; null where they hold less than half of the time."""
    time_s, settled = pl.col("time_s"), pl.col(column).is_not_null()
    settled_s = time_s.filter(settled).sum()
    enough = (settled_s > 0) & (settled_s >= LEAST_SETTLED * time_s.sum())
    share = pl.col(least).filter(settled).sum() / pl.col(taken).filter(settled).sum()
    return pl.when(enough).then(share).alias(column)


def _moved(rows: pl.DataFrame) -> pl.Expr:
    return pl.col(DRAM) if DRAM in rows.columns else pl.lit(None, pl.Float64)


def _whole_sum(column: str) -> pl.Expr:
    """The sum over rows that all have it, else null."""
    return pl.when(pl.col(column).null_count() == 0).then(pl.col(column).sum()).alias(column)


def _known_sum(column: str) -> pl.Expr:
    """The sum over the rows that have it; null where none has."""
    known = pl.col(column).is_not_null().any()
    return pl.when(known).then(pl.col(column).sum()).alias(column)


def _per_second(column: str) -> pl.Expr:
    return pl.when(pl.col("time_s") > 0).then(pl.col(column) / pl.col("time_s"))


# A larger share of an unprofiled step that rows and idle causes leave unexplained is a warning.
MOST_UNEXPLAINED = 0.03
# A smaller one is 0.0 %.
LEAST_UNEXPLAINED = 0.0005
# Below this share of the time with a known bound the roof of the whole run is not told.
LEAST_BOUNDED = 0.5

# What sums of floating-point seconds may miss is no time without a cause.
ROUNDING = 1e-12


def totals(
    profile: Profile, verdicts: Verdicts, machine: Machine | None, scope: Scope = "all"
) -> Totals:
    """Sum a judged profile up; what is not known stays out of a sum and is said so.

    Of several ranks the totals are those of a mean one.
    """
    every = plain_rows(profile, verdicts)
    ranks = rank_count(profile)
    # A row without a time has bounds, but nothing to hold them against.
    rows = every.filter(pl.col("time_s").is_not_null())
    time_s = _sum(rows, "time_s", ranks)
    kernel_s = _busy_s(profile, time_s)
    idle_s, unexplained_s = _outside_kernels(profile, kernel_s)
    amounts = profile.amount_columns
    known = {"flops": flops_known(amounts), "bytes": bytes_known(amounts)}
    ladder = _ladder(profile, rows, machine, scope)
    recoverable_s = efficiency = None
    if ladder.roof_s is not None and ladder.measured_s:
        recoverable_s = ladder.measured_s - ladder.roof_s
        efficiency = ladder.roof_s / ladder.measured_s
    return Totals(
        wall_s=profile.wall_s,
        wall_s_min=_of_ranks(profile, min),
        wall_s_max=_of_ranks(profile, max),
        kernel_s=kernel_s,
        idle_s=idle_s,
        idle_by_cause=profile.idle_by_cause,
        steps=profile.steps,
        launches=_sum(every, "launches", ranks),
        known={what: _time_share(rows, of) for what, of in known.items()},
        flops=_sums(every, "flop/", ranks),
        contraction_flops=_sum(every, "contraction_flops", ranks),
        bytes=_sums(every, "byte/", ranks),
        bound_s=ladder.roof_s,
        gap_s=recoverable_s,
        kernel_efficiency=_share(rows, "work_bound_s", "time_s"),
        efficiency=efficiency,
        known_time_share=_time_share(rows, known["flops"] & known["bytes"]),
        ladder=ladder,
        recoverable_s=recoverable_s,
        unexplained_s=unexplained_s,
        unexplained_error_s=None if unexplained_s is None else profile.unexplained_error_s,
        by_limiter={kind: s / ranks for kind, s in seconds_by_limiter(rows).items()},
        by_class=seconds_by_class(profile, rows, kernel_s, unexplained_s),
    )


def _of_ranks(profile: Profile, chosen: Callable[[list[float]], float]) -> float | None:
    """One rank's wall time; None where there are no ranks, or one was not timed."""
    walls = [rank.wall_s for rank in profile.ranks]
    known = [wall_s for wall_s in walls if wall_s is not None]
    return chosen(known) if known and len(known) == len(walls) else None


def rank_count(profile: Profile) -> int:
    """How many ranks rows are of, or are summed over."""
    return max(1, len(profile.ranks), profile.kernels["rank"].drop_nulls().n_unique())


def _busy_s(profile: Profile, time_s: float | None) -> float | None:
    """Seconds in kernels; unknown where none was timed, for then nobody looked."""
    if profile.kernel_s is None or (profile.kernel_s == 0 and time_s is None):
        return time_s
    return profile.kernel_s


def _outside_kernels(profile: Profile, kernel_s: float | None) -> tuple[float | None, float | None]:
    """Idle and unexplained seconds of the wall clock; only unprofiled steps leave the second."""
    if profile.wall_s is None or kernel_s is None:
        return None, None
    if profile.steps is None or profile.steps.unprofiled_s is None:
        return profile.wall_s - kernel_s, None
    idle_s = sum(profile.idle_by_cause.values())
    return idle_s, profile.wall_s - kernel_s - idle_s


def is_doubtful(totals: Totals) -> bool:
    """Whether more of an unprofiled step is unexplained than 3 % and two standard errors."""
    if totals.unexplained_s is None or not totals.wall_s:
        return False
    limit_s = max(MOST_UNEXPLAINED * totals.wall_s, 2 * (totals.unexplained_error_s or 0.0))
    return abs(totals.unexplained_s) > limit_s


def unexplained_words(totals: Totals) -> str | None:
    """How profiled and unprofiled steps compare; None where the difference shows in no digit."""
    seconds, wall_s = totals.unexplained_s, totals.wall_s
    if seconds is None or not wall_s or abs(seconds) < LEAST_UNEXPLAINED * wall_s:
        return None
    error_s = totals.unexplained_error_s
    error = "" if error_s is None else f" ± {100 * error_s / wall_s:.1f} %"
    how = "slower" if seconds < 0 else "faster"
    return (
        f"Unexplained: profiled steps are {format_seconds(abs(seconds))}"
        f" ({100 * abs(seconds) / wall_s:.1f} %{error}) {how} than unprofiled ones after"
        " subtracting profiler overhead."
    )


def seconds_by_limiter(rows: pl.DataFrame) -> dict[str, float]:
    """Seconds of rows by what kind of resource limits them; they sum to all seconds."""
    seconds = dict.fromkeys(LIMITER_KINDS, 0.0)
    for limiter, time_s in rows.group_by("limiter").agg(pl.col("time_s").sum()).iter_rows():
        seconds[limiter_kind(limiter)] += time_s
    return seconds


# Classes of the wall time beside the kinds of limiters, which are those of kernels.
COMMUNICATION, COPY, UNEXPLAINED, IDLE = "communication", "copy", "unexplained", "idle."
_CLASS_OF_KIND = {"collective": COMMUNICATION, "copy": COPY, "memset": COPY}


def seconds_by_class(
    profile: Profile, rows: pl.DataFrame, kernel_s: float | None, unexplained_s: float | None
) -> dict[str, float]:
    """Where the wall time goes, instant by instant; sums to it, or to `kernel_s` without one.

    Rows count by the instants that they have to themselves, so that `communication` is what no
    kernel hides. What idle causes leave of the time outside of kernels has no known cause.
    """
    seconds = dict.fromkeys((*LIMITER_KINDS, COMMUNICATION, COPY), 0.0)
    if kernel_s is None:
        return seconds
    for one, own_s in _exclusive_by_class(rows, kernel_s):
        seconds[one] += own_s
    if profile.wall_s is None:
        return seconds
    for cause, idle_s in profile.idle_by_cause.items():
        # A rank that waits in a collective is communicating.
        one = COMMUNICATION if cause == IdleCause.COMMUNICATION else IDLE + cause
        seconds[one] = seconds.get(one, 0.0) + idle_s
    rest_s = profile.wall_s - sum(seconds.values())
    if unexplained_s is None and abs(rest_s) <= ROUNDING * profile.wall_s:
        return seconds
    if unexplained_s is not None or rest_s < 0:
        seconds[UNEXPLAINED] = rest_s
    elif rest_s > 0:
        unknown = IDLE + IdleCause.UNKNOWN
        seconds[unknown] = seconds.get(unknown, 0.0) + rest_s
    return seconds


def _exclusive_by_class(rows: pl.DataFrame, kernel_s: float) -> list[tuple[str, float]]:
    """Seconds by class that sum to `kernel_s`: rows of several devices are one device's mean."""
    own = exclusive_s()
    kinds = rows.group_by("kind", "limiter", maintain_order=True).agg(own.sum().alias("own_s"))
    own_s = float(kinds["own_s"].sum())
    scale = kernel_s / own_s if own_s > 0 else 0.0
    return [
        (_CLASS_OF_KIND.get(kind) or limiter_kind(limiter), seconds * scale)
        for kind, limiter, seconds in kinds.iter_rows()
    ]


def exclusive_s() -> pl.Expr:
    """A row's own instants; all of its time where the source does not tell what overlaps."""
    return pl.coalesce("exclusive_s", "time_s")


def _sum(rows: pl.DataFrame, column: str, ranks: int) -> float | None:
    """Sum of what is known, a mean rank's; None where nothing is."""
    values = rows[column].drop_nulls()
    return float(values.sum()) / ranks if len(values) else None


def _sums(rows: pl.DataFrame, prefix: str, ranks: int) -> dict[str, float | None]:
    columns = [c for c in rows.columns if c.startswith(prefix)]
    return {c.removeprefix(prefix): _sum(rows, c, ranks) for c in columns}


def _share(rows: pl.DataFrame, over: str, under: str) -> float | None:
    """Ratio of two sums over the rows that have both."""
    known = rows.filter(
        pl.col(over).is_not_null() & (pl.col(under) > 0) & pl.col("gap_s").is_not_null()
    )
    below = float(known[under].sum())
    return float(known[over].sum()) / below if below else None


def _time_share(rows: pl.DataFrame, of: pl.Expr) -> float | None:
    time_s = float(rows["time_s"].sum())
    return float(rows.filter(of)["time_s"].sum()) / time_s if time_s else None


def _ladder(profile: Profile, rows: pl.DataFrame, machine: Machine | None, scope: Scope) -> Ladder:
    """The rungs from the run as it was down to one ideal kernel; none is above the one before.

    A row whose limiter is unknown keeps its time on the second rung: no gain is
    claimed where nothing is known. Kernels that overlap today overlap as much at their bounds.
    A pause outside of all steps is on no rung: no step can give it back.
    """
    measured_s = profile.wall_s
    if measured_s is not None and profile.steps is not None:
        measured_s -= profile.steps.pause_s or 0.0
    if measured_s is None:
        measured_s = _sum(rows, "elapsed_s", rank_count(profile))
    roof_s = _at_most(_roof_s(profile, rows), measured_s)
    fused_s = _at_most(_rung(profile, machine, "fused", scope), roof_s, measured_s)
    ideal_s = _at_most(_rung(profile, machine, "ideal", scope), fused_s, roof_s, measured_s)
    return Ladder(measured_s=measured_s, roof_s=roof_s, fused_s=fused_s, ideal_s=ideal_s)


def _at_most(seconds: float | None, *rungs: float | None) -> float | None:
    """Seconds, but no more than the rungs above: a run above its roof has nothing to climb."""
    return None if seconds is None else min([seconds, *(r for r in rungs if r is not None)])


def _roof_s(profile: Profile, rows: pl.DataFrame) -> float | None:
    """Seconds with every kernel at its bound; None where less than half of the time has one."""
    if (bounded_share(rows) or 0.0) < LEAST_BOUNDED:
        return None
    own = pl.when(pl.col("time_s") > 0).then(exclusive_s() / pl.col("time_s")).otherwise(1.0)
    # Launching bounds what is not known too; more of the idle before it is no kernel's time.
    elapsed = exclusive_s() + pl.col("idle_before_s").fill_null(0.0)
    launching = pl.min_horizontal(elapsed, pl.col("overhead_time_s").fill_null(0.0))
    kept = pl.max_horizontal(exclusive_s(), launching)
    roof = pl.when(is_settled()).then(pl.col("bound_s") * own).otherwise(kept)
    return float(rows.select(roof.sum()).item()) * _mean_device(profile, rows)


def _mean_device(profile: Profile, rows: pl.DataFrame) -> float:
    """One device's part of the seconds that rows have to themselves: rows may be of several."""
    own_s = float(rows.select(exclusive_s().sum()).item())
    if profile.kernel_s is None or own_s <= 0:
        return 1 / rank_count(profile)
    return min(1.0, profile.kernel_s / own_s)


def device_count(profile: Profile, rows: pl.DataFrame) -> int:
    """How many devices rows are summed over, of all ranks: totals are those of a mean one."""
    own_s = float(rows.select(exclusive_s().sum()).item())
    summed = round(own_s / profile.kernel_s) if profile.kernel_s else 1
    return max(rank_count(profile), summed)


def bounded_share(rows: pl.DataFrame) -> float | None:
    """Share of the rows' time that a limiter is known for; None without time."""
    return _time_share(rows, is_settled())


def _rung(profile: Profile, machine: Machine | None, rung: str, scope: Scope) -> float | None:
    """Bound of the fused kernels of one rung: each phase's, or the whole step's."""
    if profile.rungs is None or machine is None:
        return None
    rows = profile.rungs.filter(pl.col("name") == rung)
    if not rows.height:
        return None
    table = judge(Profile.of(rows, profile.source), machine, scope=scope).table
    return None if table["bound_s"].null_count() else float(table["bound_s"].sum())
