"""A gate for CI: limits on a run, broken only where the value is beyond them and the noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from timeroof.core.report import Report
from timeroof.errors import UsageError
from timeroof.model.check_rules import LimitRule
from timeroof.model.compare_noise import (
    clean_scale,
    deviation,
    least_of_samples,
    noise_of,
    rows_deviation_s,
    run_deviation_s,
    run_least_s,
)

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

    def document(self) -> dict[str, Any]:
        """The contract's JSON, `timeroof.check/1`."""
        return {
            "schema": CHECK_SCHEMA,
            "passed": self.passed,
            "limits": [
                {
                    "what": limit.what,
                    "limit": limit.limit,
                    "value": limit.value,
                    "passed": limit.passed,
                    "noise": limit.noise,
                    "unit": limit.unit,
                    "baseline": limit.baseline,
                    "note": limit.note,
                }
                for limit in self.limits
            ],
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
        launches = float(run.totals.launches)
        holds = launches <= limits.max_launches
        found.append(Limit("launches", limits.max_launches, launches, holds, "", 0.0))
    found += [_rule(run, baseline, rule) for rule in limits.rules]
    unknown = any(limit.noise is None for limit in found)
    notes = ("Where the spread is unknown the plain limit applies.",) if unknown else ()
    return CheckResult(tuple(found), notes)


def _slowdown(run: Report, baseline: Report, limit: float) -> Limit:
    now_s, before_s = run.totals.ladder.measured_s, baseline.totals.ladder.measured_s
    value = now_s / before_s - 1 if before_s > 0 else None
    noise_s = noise_of(_run_deviation_s(run), _run_deviation_s(baseline))
    noise = noise_s / before_s if noise_s is not None and before_s > 0 else None
    # A neighbour slows most steps down, a change of the program all of them.
    least_s = run_least_s(baseline.totals)
    least = run_least_s(run.totals) / least_s - 1 if least_s > 0 else None
    sure = min(v for v in (value, least) if v is not None) if value is not None else None
    passed = sure is not None and sure <= limit + (noise or 0.0)
    return Limit("slow-down against the baseline", limit, value, passed, "share", noise)


def _efficiency(run: Report, limit: float) -> Limit:
    value = run.totals.efficiency
    noise_s, measured_s = noise_of(_run_deviation_s(run)), run.totals.ladder.measured_s
    noise = None
    if value is not None and noise_s is not None and measured_s > 0:
        noise = value * noise_s / measured_s
    passed = value is not None and value >= limit - (noise or 0.0)
    note = "" if value is not None else "no machine is known, so there is no efficiency"
    return Limit("efficiency", limit, value, passed, "share", noise, note=note)


def _rule(run: Report, baseline: Report | None, rule: LimitRule) -> Limit:
    rows = rule.rows(_rows(run))
    if rule.where and not rows.height:
        raise UsageError(
            f"rule {rule.text!r} matches no row", advice="`timeroof report RUN -o x.csv` lists them"
        )
    value, unit = _metric(rows, rule.metric, run)
    against = rule.rows(_rows(baseline)) if rule.relative and baseline is not None else None
    base = None
    if against is not None and baseline is not None:
        base = _metric(against, rule.metric, baseline)[0]
    if rule.relative and base is None:
        return Limit(rule.text, rule.value, value, False, unit, note="needs a baseline that has it")
    limit = rule.value * base if base is not None else rule.value
    if value is None:
        return Limit(rule.text, limit, None, False, unit, note="no row has a known value")
    noise = _rule_noise(rule, rows, against, value)
    sure = _sure_value(rule, rows, against, value, base)
    slack = noise or 0.0
    passed = rule.holds(sure - slack if rule.sign.startswith("<") else sure + slack, limit)
    return Limit(rule.text, limit, value, passed, unit, noise, base)


def _sure_value(
    rule: LimitRule,
    rows: pl.DataFrame,
    against: pl.DataFrame | None,
    value: float,
    base: float | None,
) -> float:
    """A time against a baseline's counts only as far as the fastest samples confirm it."""
    if rule.metric != "time" or against is None or not base or not rule.sign.startswith("<"):
        return value
    least_s, before_s = (float(table["least_s"].sum()) for table in (rows, against))
    return min(value, base * least_s / before_s) if before_s > 0 else value


def _rule_noise(
    rule: LimitRule, rows: pl.DataFrame, against: pl.DataFrame | None, value: float
) -> float | None:
    """By how much chance may move the metric; counts do not move."""
    if rule.metric in ("launches", "bytes", "flops"):
        return 0.0
    noise_s = _noise_s(rows, *([against] if against is not None else []))
    if noise_s is None:
        return None
    time_s = float(rows["elapsed_s"].sum())
    return noise_s if rule.metric in ("time", "gap") else value * noise_s / time_s


def _metric(rows: pl.DataFrame, metric: str, report: Report) -> tuple[float | None, str]:
    elapsed_s = _sum(rows, "elapsed_s") or 0.0
    if metric == "time":
        return elapsed_s, "s"
    if metric == "gap":
        return _sum(rows, "gap_s"), "s"
    if metric == "launches":
        return _sum(rows, "launches") or 0.0, ""
    if metric == "share":
        whole = report.totals.ladder.measured_s
        return (elapsed_s / whole if whole else None), "share"
    if metric in ("bytes", "flops"):
        columns = [c for c in rows.columns if c.startswith(f"{metric[:-1]}/")]
        columns = [c for c in columns if metric == "flops" or c == "byte/dram"]
        sums = [s for s in (_sum(rows, c) for c in columns) if s is not None]
        return (sum(sums) if sums else None), ("B" if metric == "bytes" else "FLOP")
    over, under = ("bound_s", "elapsed_s") if metric == "efficiency" else ("work_bound_s", "time_s")
    known = rows.filter(pl.col(over).is_not_null())
    below = _sum(known, under)
    return ((_sum(known, over) or 0.0) / below if below else None), "share"


def _rows(report: Report) -> pl.DataFrame:
    table = pl.concat([report.profile.kernels, report.verdicts.table.drop("id")], how="horizontal")
    seconds = pl.col("time_s", "elapsed_s", "idle_before_s", "gap_s") * clean_scale(report.totals)
    fastest = least_of_samples().fill_null(pl.col("time_s")) + _idle()
    return table.with_columns(fastest.alias("least_s"), seconds).with_columns(
        deviation().alias("deviation_s")
    )


def _idle() -> pl.Expr:
    return (pl.col("elapsed_s") - pl.col("time_s")).fill_null(0.0)


def _run_deviation_s(report: Report) -> float | None:
    return run_deviation_s(report.totals, _rows(report))


def _noise_s(*tables: pl.DataFrame) -> float | None:
    """Seconds by which chance may move some rows of the runs; None where no side has a spread."""
    return noise_of(*(rows_deviation_s(table) for table in tables))


def _sum(rows: pl.DataFrame, column: str) -> float | None:
    values = rows[column].drop_nulls()
    return float(values.sum()) if len(values) else None
