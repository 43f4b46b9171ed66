"""A gate for CI: limits on a run, broken only where the value is beyond them and the noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import polars as pl

from timeroof.core.columns import Row
from timeroof.core.errors import UsageError
from timeroof.core.report import Report
from timeroof.model.check.limits import LimitRule
from timeroof.model.compare import causes
from timeroof.model.compare.compare import in_common
from timeroof.model.compare.notes import pace_notes, unlike_notes
from timeroof.model.stats import noise_of

BELOW_NOISE = "inconclusive: the noise is larger than the distance to the limit"
SLOWDOWN = "slow-down against the baseline"
CHECK_SCHEMA = "timeroof.check/1"


@dataclass(frozen=True)
class Limit:
    """One limit and how the run stands to it; `noise` is in the unit of `value`."""

    what: str
    limit: float
    value: float | None
    passed: bool
    unit: str
    noise: float | None = None
    baseline: float | None = None
    note: str = ""


@dataclass(frozen=True)
class CheckResult:
    """All limits of a check."""

    limits: tuple[Limit, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether no limit is broken."""
        return all(limit.passed for limit in self.limits)

    def document(self) -> Row:
        """The JSON document, `timeroof.check/1`."""
        return {
            "schema": CHECK_SCHEMA,
            "passed": self.passed,
            "limits": [asdict(limit) for limit in self.limits],
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Limits:
    """What is asked of a run."""

    max_slowdown: float | None = None
    min_efficiency: float | None = None
    max_launches: float | None = None
    rules: Sequence[LimitRule] = field(default_factory=tuple)


def check(run: Report, baseline: Report | None, limits: Limits) -> CheckResult:
    """Hold a run against limits, and against a baseline where one is given."""
    found: list[Limit] = []
    if limits.max_slowdown is not None and baseline is not None:
        found.append(_slowdown(run, baseline, limits.max_slowdown))
    if limits.min_efficiency is not None:
        found.append(_efficiency(run, limits.min_efficiency))
    if limits.max_launches is not None:
        found.append(_launches(run, limits.max_launches))
    found += [_rule(run, baseline, rule) for rule in limits.rules]
    unlike = unlike_notes(in_common(baseline, run)) if baseline is not None else []
    shift = causes.pace_shift(baseline.totals, run.totals) if baseline is not None else 0.0
    pace = pace_notes(shift, ("the baseline", "the run"))
    return CheckResult(tuple(found), (*unlike, *_notes(found), *pace))


def _notes(limits: list[Limit]) -> list[str]:
    notes = []
    if any(limit.noise is None for limit in limits):
        notes.append("Where the spread is unknown the plain limit applies.")
    notes += [
        f"Rule {limit.what!r} says nothing here: the run and the baseline both have 0"
        f"{' at DRAM' if limit.unit == 'B' else ''}."
        for limit in limits
        if limit.baseline == 0 and limit.value == 0
    ]
    unsure = [limit.what for limit in limits if limit.note == BELOW_NOISE]
    if unsure:
        notes.append(
            f"Inconclusive: {', '.join(unsure)}. The noise is larger than the distance to the"
            " limit. Measure more steps (timeroof run --steps 100), or on a quieter machine."
        )
    return notes


def _launches(run: Report, limit: float) -> Limit:
    if run.totals.launches is None:
        raise UsageError(
            "the launches of the run cannot be judged: it has no kernels",
            advice="measure it again, or leave --max-launches out",
        )
    launches = float(run.totals.launches)
    return Limit("launches", limit, launches, launches <= limit, "", 0.0)


def _measured_s(report: Report, whose: str) -> float:
    if report.totals.ladder.measured_s is None:
        raise UsageError(
            f"the slow-down cannot be judged: nothing was timed in {whose}",
            advice="measure it again; `timeroof explain RUN` says what is known of it",
        )
    return report.totals.ladder.measured_s


def _slowdown(run: Report, baseline: Report, limit: float) -> Limit:
    now_s, before_s = _measured_s(run, "the run"), _measured_s(baseline, "the baseline")
    if before_s <= 0:
        same = now_s <= 0
        note = "" if same else "the baseline took no time"
        return Limit(SLOWDOWN, limit, 0.0 if same else None, same, "share", 0.0, note=note)
    value = now_s / before_s - 1
    noise_s = noise_of(_run_deviation_s(run), _run_deviation_s(baseline))
    noise = None if noise_s is None else noise_s / before_s
    # A neighbour slows most steps down, a change of the program all of them.
    least_s = causes.run_least_s(baseline.totals, before_s)
    sure = min(value, causes.run_least_s(run.totals, now_s) / least_s - 1) if least_s > 0 else value
    slower = max(0.0, causes.pace_shift(baseline.totals, run.totals))
    slack = 0.0 if causes.far_apart(baseline.totals, run.totals) else (noise or 0.0) + slower
    passed = sure <= limit + slack
    unsure = sure > limit or (slack > limit and sure + slack > limit)
    note = BELOW_NOISE if passed and unsure else ""
    return Limit(SLOWDOWN, limit, value, passed, "share", noise, note=note)


def _efficiency(run: Report, limit: float) -> Limit:
    value = run.totals.efficiency
    if value is None:
        raise UsageError(
            f"the efficiency of the run cannot be judged: {_why_no_efficiency(run)}",
            advice="record shapes or counters, name a --machine, or leave --min-efficiency out",
        )
    noise_s, measured_s = noise_of(_run_deviation_s(run)), run.totals.ladder.measured_s
    noise = value * noise_s / measured_s if noise_s is not None and measured_s else None
    passed = value >= limit - (noise or 0.0)
    note = BELOW_NOISE if passed and value < limit else ""
    return Limit("efficiency", limit, value, passed, "share", noise, note=note)


def _why_no_efficiency(run: Report) -> str:
    if run.machine is None:
        return "its machine is not known"
    if not len(run.profile):
        return "it has no kernels"
    return "no row has known FLOPs and bytes, so none has a bound"


def _rule(run: Report, baseline: Report | None, rule: LimitRule) -> Limit:
    rows = rule.rows(_rows(run))
    if rule.where and not rows.height:
        raise UsageError(
            f"rule {rule.text!r} matches no row", advice="`timeroof report RUN -o x.csv` lists them"
        )
    value, unit = _metric(rows, rule, run)
    against = rule.rows(_rows(baseline)) if rule.relative and baseline is not None else None
    base = None
    if against is not None and baseline is not None:
        base = _metric(against, rule, baseline)[0]
    if value is None or (rule.relative and base is None):
        whose = "the run" if value is None else "the baseline"
        raise UsageError(
            f"rule {rule.text!r} cannot be judged: {whose} has no known value of it",
            advice="record shapes or counters, name a --machine, or leave the rule out",
        )
    limit = rule.value * base if base is not None else rule.value
    noise = _rule_noise(rule, run, rows, (baseline, against), value)
    if noise and base is not None and baseline is not None and rule.metric == "time":
        noise += base * max(0.0, causes.pace_shift(baseline.totals, run.totals))
    sure = _sure_value(rule, (run, rows), (baseline, against), value, base)
    slack = noise or 0.0
    same = base is not None and value == base and rule.allows_the_same(base)
    passed = same or rule.holds(sure - slack if rule.at_most else sure + slack, limit)
    unsure = passed and not same and not rule.holds(value, limit)
    return Limit(
        rule.text, limit, value, passed, unit, noise, base, note=BELOW_NOISE if unsure else ""
    )


Side = tuple[Report, pl.DataFrame]
MaybeSide = tuple[Report | None, pl.DataFrame | None]


def _sure_value(
    rule: LimitRule, side: Side, before: MaybeSide, value: float, base: float | None
) -> float:
    """A time against a baseline's counts only as far as the fastest samples confirm it."""
    baseline, against = before
    is_limit = rule.metric == "time" and rule.at_most
    if not is_limit or against is None or baseline is None or not base:
        return value
    least_s, before_s = (
        float(rows["least_s"].sum()) if rule.where else causes.run_least_s(report.totals, seconds)
        for report, rows, seconds in ((*side, value), (baseline, against, base))
    )
    return min(value, base * least_s / before_s) if before_s > 0 else value


def _rule_noise(
    rule: LimitRule, run: Report, rows: pl.DataFrame, before: MaybeSide, value: float
) -> float | None:
    """By how much chance may move the metric; counts do not move."""
    if rule.metric in ("launches", "bytes", "flops"):
        return 0.0
    baseline, against = before
    if rule.where:
        tables = [rows, *([against] if against is not None else [])]
        noise_s = noise_of(*(causes.rows_deviation_s(table) for table in tables))
        time_s = _sum(rows, "elapsed_s")
    else:
        sides = [run, *([baseline] if baseline is not None and against is not None else [])]
        noise_s = noise_of(*(_run_deviation_s(side) for side in sides))
        time_s = run.totals.ladder.measured_s
    if noise_s is None:
        return None
    if rule.metric in ("time", "gap"):
        return noise_s
    return value * noise_s / time_s if time_s else 0.0


UNITS = {"time": "s", "gap": "s", "launches": "", "bytes": "B", "flops": "FLOP"}


def _metric(rows: pl.DataFrame, rule: LimitRule, report: Report) -> tuple[float | None, str]:
    """A metric of some rows and its unit."""
    unit = UNITS.get(rule.metric, "share")
    if rule.metric in ("bytes", "flops"):
        return _amount(rows, rule.metric), unit
    if rule.metric == "launches":
        return _sum_or_none_there(rows, "launches", rule, report), unit
    if rule.metric == "gap":
        return _sum(rows, "gap_s"), unit
    elapsed_s = whole_s = report.totals.ladder.measured_s
    if rule.where:
        elapsed_s = _sum_or_none_there(rows, "elapsed_s", rule, report)
    if rule.metric == "time":
        return elapsed_s, unit
    if rule.metric == "share":
        return (elapsed_s / whole_s if whole_s and elapsed_s is not None else None), unit
    return _ratio(rows, rule, report), unit


def _sum_or_none_there(
    rows: pl.DataFrame, column: str, rule: LimitRule, report: Report
) -> float | None:
    """A sum of some rows: 0 where a run has others but none such, unknown where it has no rows."""
    none_such = bool(rule.where) and not rows.height and len(report.profile) > 0
    return 0.0 if none_such else _sum(rows, column)


def _amount(rows: pl.DataFrame, metric: str) -> float | None:
    columns = [c for c in rows.columns if c.startswith(f"{metric[:-1]}/")]
    columns = [c for c in columns if metric == "flops" or c == "byte/dram"]
    sums = [s for s in (_sum(rows, c) for c in columns) if s is not None]
    return sum(sums) if sums else None


def _ratio(rows: pl.DataFrame, rule: LimitRule, report: Report) -> float | None:
    """Efficiency of some rows; without a selection the run's own, idle included."""
    of_time = rule.metric == "efficiency"
    if not rule.where:
        return report.totals.efficiency if of_time else report.totals.kernel_efficiency
    over, under = ("bound_s", "elapsed_s") if of_time else ("work_bound_s", "time_s")
    # Where amounts are unknown the bound is a part of the true one: no efficiency comes of it.
    known = rows.filter(pl.col("gap_s").is_not_null(), pl.col(over).is_not_null())
    below = _sum(known, under)
    return (_sum(known, over) or 0.0) / below if below else None


def _rows(report: Report) -> pl.DataFrame:
    idle = (pl.col("elapsed_s") - pl.col("time_s")).fill_null(0.0)
    least = causes.least_of_samples().fill_null(pl.col("time_s")) + idle
    return report.rows.with_columns(least.alias("least_s"), causes.deviation().alias("deviation_s"))


def _run_deviation_s(report: Report) -> float | None:
    return causes.run_deviation_s(report.totals, _rows(report))


def _sum(rows: pl.DataFrame, column: str) -> float | None:
    values = rows[column].drop_nulls()
    return float(values.sum()) if len(values) else None
