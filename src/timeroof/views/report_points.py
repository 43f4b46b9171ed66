"""What every chart of a report starts from: the pair of roofs, and rows as plain points."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from timeroof.core.profile import FLOP_FREE_KINDS
from timeroof.core.resources import limiter_kind

if TYPE_CHECKING:
    from timeroof.core.report import Report


# A level with less than this of the largest level's bound seconds has hardly any bytes.
HARDLY = 0.1


@dataclass(frozen=True)
class ChartRoofs:
    """The ceilings of the charts' axes; NaN where the machine has none."""

    compute: str | None
    flops_per_s: float
    memory: str | None
    bytes_per_s: float
    launch_s: float | None

    @property
    def complete(self) -> bool:
        """Whether times can be placed on both axes."""
        return math.isfinite(self.flops_per_s) and math.isfinite(self.bytes_per_s)


@dataclass(frozen=True)
class ReportPoint:
    """A row of a report for a chart; an amount that is not known is NaN."""

    name: str
    full_name: str
    kind: str
    flops: float
    bytes_by_level: dict[str, float]
    time_s: float
    launches: float
    row: dict[str, Any]


def headline_pair(report: Report) -> tuple[str | None, str | None]:
    """The pair of roofs that the report was judged with."""
    return report.verdicts.pair or (None, None)


def first_level(report: Report) -> str | None:
    """The memory level that charts begin at: the headline's, unless hardly anything is there.

    What fits into caches moves no byte at DRAM, and its points would all stand on an axis. Then
    the level with the largest bound seconds says most.
    """
    _, headline = headline_pair(report)
    rows, roofs = report.profile.kernels, report.verdicts.roofs
    levels = [a for a in report.profile.amount_columns if a.startswith("byte/") and a in roofs]
    if headline not in levels:
        return None
    bound_s = {level: float(rows[level].sum()) / roofs[level].rate for level in levels}
    moved_s = {level: float(rows.filter(pl.col(level) > 0)["time_s"].sum()) for level in levels}
    fullest = max(levels, key=lambda level: bound_s[level])
    few_bytes = bound_s[headline] < HARDLY * bound_s[fullest]
    few_rows = moved_s[headline] < 0.5 * moved_s[fullest]
    return fullest if few_bytes or few_rows else headline


def chart_roofs(report: Report) -> ChartRoofs:
    """The pair of roofs that charts begin with, and their rates."""
    roofs = report.verdicts.roofs
    (compute, _), memory = headline_pair(report), first_level(report)
    launch = roofs.get("launch")
    return ChartRoofs(
        compute=compute,
        flops_per_s=roofs[compute].rate if compute else math.nan,
        memory=memory,
        bytes_per_s=roofs[memory].rate if memory else math.nan,
        launch_s=1 / launch.rate if launch else None,
    )


def used_ceilings(report: Report) -> tuple[dict[str, float], dict[str, float]]:
    """Compute and memory ceilings of what the run uses, by resource."""
    rows, roofs = report.profile.kernels, report.verdicts.roofs
    used = {a: roofs[a].rate for a in report.profile.amount_columns if a in roofs}
    compute = {
        a: rate for a, rate in used.items() if a.startswith("flop/") and bool((rows[a] > 0).any())
    }
    return compute, {a: rate for a, rate in used.items() if a.startswith("byte/")}


def report_points(report: Report, limit: int | None = None) -> list[ReportPoint]:
    """The longest rows as points."""
    flops = [a for a in report.profile.amount_columns if a.startswith("flop/")]
    levels = [a for a in report.profile.amount_columns if a.startswith("byte/")]
    rows = report.rows.drop("samples").filter(pl.col("time_s") > 0)
    table = rows if limit is None else rows.head(limit)
    return [
        ReportPoint(
            name=row["short_name"],
            full_name=row["name"],
            kind=limiter_kind(row["limiter"]),
            flops=_total(row, flops),
            bytes_by_level={a.removeprefix("byte/"): _number(row[a]) for a in levels},
            time_s=row["time_s"],
            launches=row["launches"],
            row=row,
        )
        for row in table.iter_rows(named=True)
    ]


def _total(row: dict[str, Any], columns: list[str]) -> float:
    if not columns:
        return 0.0 if row["kind"] in FLOP_FREE_KINDS else math.nan
    return sum(_number(row[c]) for c in columns)


def _number(value: float | None) -> float:
    return math.nan if value is None else value
