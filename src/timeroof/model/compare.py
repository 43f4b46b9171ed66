"""Compare two runs: what got faster or slower, why, and whether it is more than noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import polars as pl

from timeroof.core.machine import Machine
from timeroof.core.profile import LABEL
from timeroof.core.report import Report
from timeroof.model.compare_causes import CAUSES, with_causes
from timeroof.model.compare_match import match
from timeroof.model.compare_noise import clean_scale, noise_s, total_noise_s, variance
from timeroof.model.judge import judge

COMPARE_SCHEMA = "timeroof.compare/1"
OUTSIDE = "(outside kernels)"

# Rows whose difference is below this share of the run are never called significant.
LEAST_SHARE = 0.005
# Where no side has samples: a difference above this share of the longer one is called one.
PLAIN_THRESHOLD = 0.05


@dataclass(frozen=True)
class Comparison:
    """Two runs side by side.

    `rows` has per pair `name`, `matched_by`, `a_s`, `b_s`, `delta_s`, `significant`, one
    column per cause, `spread_known` and `noise_s`; the largest difference first.
    """

    a: str
    b: str
    a_s: float
    b_s: float
    significant: bool
    noise_s: float
    spread_known: bool
    causes: dict[str, float]
    rows: pl.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def delta_s(self) -> float:
        """Seconds that the second run takes more."""
        return self.b_s - self.a_s

    def document(self) -> dict[str, Any]:
        """The contract's JSON, `timeroof.compare/1`."""
        return {
            "schema": COMPARE_SCHEMA,
            "a": self.a,
            "b": self.b,
            "total": {
                "a_s": self.a_s,
                "b_s": self.b_s,
                "delta_s": self.delta_s,
                "significant": self.significant,
                "noise_s": self.noise_s,
                "spread_known": self.spread_known,
            },
            "causes": self.causes,
            "rows": [_row(row) for row in self.rows.iter_rows(named=True)],
            "notes": list(self.notes),
        }


def compare(a: Report, b: Report, names: tuple[str, str] = ("A", "B")) -> Comparison:
    """Match the rows of two runs and split the difference of every pair by cause."""
    a_rows, b_rows = _side(a, b.machine), _side(b, a.machine)
    pairs = with_causes(match(a_rows, b_rows), _launch_cost_ratio(a.machine, b.machine))
    a_s, b_s = a.totals.ladder.measured_s, b.totals.ladder.measured_s
    known = bool(
        pairs.select((pl.col("a.variance_s") > 0) | (pl.col("b.variance_s") > 0)).to_series().any()
    )
    noise = total_noise_s(a_rows, b_rows)
    rows = _significant(_with_outside(pairs, a_s, b_s), max(a_s, b_s), noise)
    limit_s = max(noise, PLAIN_THRESHOLD * max(a_s, b_s))
    notes = () if known else (_no_spread(),)
    return Comparison(
        a=names[0],
        b=names[1],
        a_s=a_s,
        b_s=b_s,
        significant=abs(b_s - a_s) > limit_s,
        noise_s=noise,
        spread_known=known,
        causes={cause: math.fsum(rows[cause].to_list()) for cause in CAUSES},
        rows=rows,
        notes=notes,
    )


def _no_spread() -> str:
    return (
        "No row has several samples, so the noise is not known: differences above"
        f" {PLAIN_THRESHOLD:.0%} are called significant."
    )


def _side(report: Report, other: Machine | None) -> pl.DataFrame:
    """The rows of one run with what matching and causes need."""
    profile, verdicts = report.profile, report.verdicts
    moved = (
        verdicts.table["work_bound_s"]
        if other is None or other == report.machine
        else judge(profile, other).table["work_bound_s"]
    )
    rows = pl.concat([profile.kernels, verdicts.table.drop("id")], how="horizontal")
    seconds = pl.col("time_s", "elapsed_s", "idle_before_s") * clean_scale(report.totals)
    rows = rows.with_columns(moved.alias("work_other_s"), _labels(rows).alias("labels"), seconds)
    synchronous = report.machine is not None and report.machine.launching == "synchronous"
    return rows.filter(pl.col("time_s").is_not_null()).with_columns(
        pl.col("short_name").alias("title"),
        _launching(synchronous=synchronous).alias("launch_s"),
        pl.col("work_bound_s").fill_null(0.0).alias("work_s"),
        pl.when(pl.col("work_bound_s").is_not_null())
        .then(pl.col("elapsed_s"))
        .otherwise(0.0)
        .alias("known_s"),
        pl.col("work_other_s").fill_null(0.0),
        variance().alias("variance_s"),
    )


def _launching(*, synchronous: bool) -> pl.Expr:
    """Seconds of a row that are launching: added on a synchronous device; on a queue all of a
    row that launching limits, and the idle before others as far as launching explains it."""
    overhead = pl.col("overhead_time_s").fill_null(0.0)
    if synchronous:
        return pl.min_horizontal(overhead, "elapsed_s")
    idle = pl.col("idle_before_s").fill_null(0.0)
    limits = (overhead > pl.col("work_bound_s").fill_null(0.0)) & (overhead > 0)
    return pl.when(limits).then(pl.col("elapsed_s")).otherwise(pl.min_horizontal(idle, overhead))


def _labels(rows: pl.DataFrame) -> pl.Expr:
    """All labels of a row as one text, so that runs with different labels can be joined."""
    labels = sorted(c for c in rows.columns if c.startswith(LABEL))
    if not labels:
        return pl.lit("")
    told = [
        pl.when(pl.col(c).is_not_null())
        .then(pl.format(f"{c.removeprefix(LABEL).replace('{', '(').replace('}', ')')}={{}}", c))
        .otherwise(pl.lit(""))
        for c in labels
    ]
    return pl.concat_str(told, separator="|").str.replace_all(r"\|+", "|").str.strip_chars("|")


def _launch_cost_ratio(a: Machine | None, b: Machine | None) -> float:
    """The cost of a launch on the second machine by the first's; 1 where one is not known."""
    first = a.launch_overhead_s if a is not None else None
    second = b.launch_overhead_s if b is not None else None
    return second / first if first and second else 1.0


def _with_outside(pairs: pl.DataFrame, a_s: float, b_s: float) -> pl.DataFrame:
    """The pairs as rows of the result, and one for the seconds beside all kernels."""
    rows = pairs.select(
        pl.col("title").alias("name"),
        "matched_by",
        pl.col("a.elapsed_s").alias("a_s"),
        pl.col("b.elapsed_s").alias("b_s"),
        "delta_s",
        *CAUSES,
        noise_s().alias("noise_s"),
        ((pl.col("a.variance_s") > 0) | (pl.col("b.variance_s") > 0)).alias("spread_known"),
    )
    out_a, out_b = a_s - float(rows["a_s"].sum()), b_s - float(rows["b_s"].sum())
    if max(abs(out_a), abs(out_b)) <= 1e-9 * max(a_s, b_s):
        return rows
    outside = dict.fromkeys(CAUSES, 0.0) | {"other": out_b - out_a}
    beside = {
        "name": OUTSIDE,
        "matched_by": "",
        "a_s": out_a,
        "b_s": out_b,
        "delta_s": out_b - out_a,
    }
    extra = pl.DataFrame([beside | outside | {"noise_s": 0.0, "spread_known": False}])
    return pl.concat([rows, extra.select(rows.columns)])


def _significant(rows: pl.DataFrame, total_s: float, total_noise_s: float) -> pl.DataFrame:
    """Mark differences beyond the noise, the plain threshold and a share of the run.

    A row's noise is its own and its part of what moves the whole run.
    """
    size = pl.col("delta_s").abs()
    longer = pl.max_horizontal(pl.col("a_s").abs(), pl.col("b_s").abs())
    common = total_noise_s / total_s if total_s > 0 else 0.0
    beside = pl.when(pl.col("name") == OUTSIDE).then(total_noise_s).otherwise(longer * common)
    rows = rows.with_columns(pl.col("noise_s") + beside)
    limit = pl.max_horizontal("noise_s", PLAIN_THRESHOLD * longer, pl.lit(LEAST_SHARE * total_s))
    return rows.with_columns((size > limit).alias("significant")).sort(
        size, descending=True, maintain_order=True
    )


def _row(row: dict[str, Any]) -> dict[str, Any]:
    kept = ("name", "a_s", "b_s", "delta_s", "significant")
    beside = ("matched_by", "noise_s", "spread_known")
    return {
        **{k: row[k] for k in kept},
        "causes": {cause: row[cause] for cause in CAUSES},
        **{k: row[k] for k in beside},
    }
