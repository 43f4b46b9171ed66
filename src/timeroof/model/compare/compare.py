"""Compare two runs: what got faster or slower, why, and whether it is more than noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec
import polars as pl

from timeroof.core.columns import Row
from timeroof.core.machine import Machine
from timeroof.core.profile import LABEL
from timeroof.core.report import Report, Totals
from timeroof.core.shapes import shown_shapes
from timeroof.model.compare import causes as of, notes as told
from timeroof.model.compare.causes import (
    AMOUNTS,
    CAUSES,
    match,
    run_deviation_s,
    run_least_s,
    with_causes,
    with_primitives_in_their_ops,
)
from timeroof.model.judge import judge
from timeroof.model.stats import Drift, PairedRuns, deviations_needed, noise_of

COMPARE_SCHEMA = "timeroof.compare/1"
OUTSIDE = "(outside kernels)"
TOTAL = ("a_s", "b_s", "delta_s", "significant", "reason", "noise_s", "spread_known")

# Rows whose difference is below this share of the run are never called significant; twice that
# where their work is the same: where a tensor lies in memory can make a small kernel twice as slow.
LEAST_SHARE = 0.005
# Where memory lies differs from run to run and moves whole runs of one program by this share.
RUN_THRESHOLD = 0.07
# Where no side has samples: a difference above this share of the longer one is called one.
PLAIN_THRESHOLD = 0.05
NO_SPREAD = (
    "No row has several samples, so the noise is unknown. Differences above"
    f" {PLAIN_THRESHOLD:.0%} are called significant."
)


@dataclass(frozen=True)
class Comparison:
    """Two runs side by side.

    `rows` has per pair `name`, `where` (module, else shape), `matched_by`, `a_s`, `b_s`,
    `delta_s`, `significant`, one column per cause, `spread_known`, `noise_s` and `differs_in`
    (flops, bytes, launches), and for charts `a.…` and `b.…` of `flops`, `byte/<level>`, `time_s`,
    `launches` (null where not known); the largest difference first.
    """

    a: str
    b: str
    # Null where nothing was timed; then the difference and its causes are too.
    a_s: float | None
    b_s: float | None
    significant: bool
    noise_s: float
    spread_known: bool
    causes: dict[str, float] | dict[str, None]
    rows: pl.DataFrame
    matched_share: float | None = None
    notes: tuple[str, ...] = ()
    # Why a difference is not called one.
    reason: str | None = None
    # What both runs have; None where one has no rows or no seconds.
    in_common: told.InCommon | None = None

    @property
    def delta_s(self) -> float | None:
        """Seconds that the second run takes more; None where one was not timed."""
        return None if self.a_s is None or self.b_s is None else self.b_s - self.a_s

    def document(self) -> Row:
        """The JSON document, `timeroof.compare/1`."""
        return {
            "schema": COMPARE_SCHEMA,
            "a": self.a,
            "b": self.b,
            "total": {name: getattr(self, name) for name in TOTAL},
            "causes": self.causes,
            "matched_share": self.matched_share,
            "in_common": _common_document(self.in_common),
            "rows": [_row(row) for row in self.rows.iter_rows(named=True)],
            "notes": list(self.notes),
        }


def compare(a: Report, b: Report, names: tuple[str, str] = ("A", "B")) -> Comparison:
    """Match the rows of two runs and split the difference of every pair by cause."""
    a_s, b_s = a.totals.ladder.measured_s, b.totals.ladder.measured_s
    if a_s is None or b_s is None:
        return _not_timed(a, b, names)
    a_rows, b_rows = _side(a, b), _side(b, a)
    pairs = with_causes(match(a_rows, b_rows), _launch_cost_ratio(a.machine, b.machine))
    noise = noise_of(run_deviation_s(a.totals, a_rows), run_deviation_s(b.totals, b_rows))
    longer_s = max(a_s, b_s)
    shift = of.pace_shift(a.totals, b.totals)
    whole = _whole_runs((a.totals, a_s), (b.totals, b_s), noise, shift)
    common_rows = told.in_common(a, b, pairs)
    significant = whole.counts or of.far_apart(a.totals, b.totals)
    moved = of.drift(pairs, LEAST_SHARE * longer_s) if noise is not None else Drift()
    # What moved all rows of runs that are not told apart is noise of every one of them.
    common = 0.0 if significant else min(moved.common, PLAIN_THRESHOLD)
    common = max(common, abs(shift))
    rows = _with_outside(pairs, (a_s, a.totals), (b_s, b.totals))
    rows = _significant(rows, longer_s, noise or 0.0, Drift(common, moved.single))
    return Comparison(
        a=names[0],
        b=names[1],
        a_s=a_s,
        b_s=b_s,
        significant=significant,
        noise_s=noise or 0.0,
        spread_known=noise is not None,
        causes={cause: math.fsum(rows[cause].to_list()) for cause in CAUSES},
        rows=rows,
        matched_share=told.matched_share(pairs),
        reason=None if significant else told.why_not(whole),
        in_common=common_rows,
        notes=(
            *told.comparison_notes(a, b, pairs, common_rows),
            *([] if noise is not None else [NO_SPREAD]),
            *told.pace_notes(shift, names),
        ),
    )


def in_common(a: Report, b: Report) -> told.InCommon | None:
    """What the rows of two runs have in common."""
    return told.in_common(a, b, match(_side(a, b), _side(b, a)))


def _common_document(common: told.InCommon | None) -> Row | None:
    if common is None:
        return None
    return {**msgspec.structs.asdict(common), "same_program": common.is_same_program}


def _not_timed(a: Report, b: Report, names: tuple[str, str]) -> Comparison:
    """Two runs of which at least one has no seconds: not 0, so there is no difference to split."""
    sides = (("first", a), ("second", b))
    untimed = [name for name, side in sides if side.totals.ladder.measured_s is None]
    reason = f"nothing was timed in the {' and in the '.join(untimed)} run"
    no_pairs = with_causes(match(_side(a, b).clear(), _side(b, a).clear()), 1.0)
    return Comparison(
        a=names[0],
        b=names[1],
        a_s=a.totals.ladder.measured_s,
        b_s=b.totals.ladder.measured_s,
        significant=False,
        noise_s=0.0,
        spread_known=False,
        causes=dict.fromkeys(CAUSES),
        rows=_significant(
            _with_outside(no_pairs, (0.0, a.totals), (0.0, b.totals)), 0.0, 0.0, Drift()
        ),
        reason=reason,
        notes=(f"{reason.capitalize()}: there is no difference to tell.",),
    )


def _whole_runs(
    first: tuple[Totals, float], second: tuple[Totals, float], noise_s: float | None, shift: float
) -> PairedRuns:
    """The tests that the difference of two runs must pass."""
    (a, a_s), (b, b_s) = first, second
    return PairedRuns(
        before_s=a_s,
        delta_s=b_s - a_s,
        least_delta_s=run_least_s(b, b_s) - run_least_s(a, a_s),
        noise_s=noise_s,
        threshold=PLAIN_THRESHOLD if noise_s is None else RUN_THRESHOLD,
        shift=shift,
    )


def _side(report: Report, against: Report) -> pl.DataFrame:
    """The rows of one run with what matching and causes need."""
    moved = _work_on_roofs_of(against, report)
    rows = report.rows
    rows = rows.with_columns(
        moved.alias("work_other_s"),
        _labels(rows).alias("labels"),
        shown_shapes(rows).alias("shapes_shown"),
    )
    synchronous = report.machine is not None and report.machine.launching == "synchronous"
    rows = rows.filter(pl.col("time_s").is_not_null()).with_columns(
        pl.col("short_name").alias("title"),
        pl.coalesce("module", "shapes_shown").alias("where"),
        _launching(synchronous=synchronous).alias("launch_s"),
        pl.col("work_bound_s").fill_null(0.0).alias("work_s"),
        pl.when(pl.col("work_bound_s").is_null()).then(0.0).otherwise("elapsed_s").alias("known_s"),
        pl.col("work_other_s").fill_null(0.0),
        of.deviation().alias("deviation_s"),
        _least_s().alias("least_s"),
        *_amounts(rows),
    )
    return of.with_plain_names(with_primitives_in_their_ops(rows))


def _work_on_roofs_of(other: Report, report: Report) -> pl.Series:
    """The work bounds of a run on the roofs that the other was judged on: machine and cores."""
    same = other.machine == report.machine and other.verdicts.roofs == report.verdicts.roofs
    if other.machine is None or same:
        return report.verdicts.table["work_bound_s"]
    return judge(report.profile, other.machine, scope=told.judged_scope(other)).table[
        "work_bound_s"
    ]


def _least_s() -> pl.Expr:
    """A row's least seconds with the idle before it."""
    fastest = pl.when(pl.col("samples").list.len() > 1).then(of.least_of_samples())
    return fastest.fill_null(pl.col("time_s")) + (pl.col("elapsed_s") - pl.col("time_s"))


def _amounts(rows: pl.DataFrame) -> list[pl.Expr]:
    """FLOPs that have to be done and bytes of every level, null where one is not known."""
    missing = [c for c in AMOUNTS if c.startswith("byte/") and c not in rows.columns]
    flops = pl.col("owed_flops").alias("flops")
    return [flops, *(pl.lit(None, pl.Float64).alias(c) for c in missing)]


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
    texts = [
        pl.when(pl.col(c).is_not_null())
        .then(pl.format(f"{c.removeprefix(LABEL).replace('{', '(').replace('}', ')')}={{}}", c))
        .otherwise(pl.lit(""))
        for c in labels
    ]
    return pl.concat_str(texts, separator="|").str.replace_all(r"\|+", "|").str.strip_chars("|")


def _launch_cost_ratio(a: Machine | None, b: Machine | None) -> float:
    """The cost of a launch on the second machine by the first's; 1 where one is not known."""
    first = a.launch_overhead_s if a is not None else None
    second = b.launch_overhead_s if b is not None else None
    return second / first if first and second else 1.0


def _with_outside(
    pairs: pl.DataFrame, first: tuple[float, Totals], second: tuple[float, Totals]
) -> pl.DataFrame:
    """The pairs as rows of the result, and one for the seconds beside all kernels."""
    (a_s, a), (b_s, b) = first, second
    chart = [f"{side}.{c}" for side in "ab" for c in (*AMOUNTS, "time_s", "launches")]
    deviations = (pl.col("a.deviation_s"), pl.col("b.deviation_s"))
    rows = pairs.select(
        pl.col("title").alias("name"),
        "where",
        "matched_by",
        pl.col("a.elapsed_s").alias("a_s"),
        pl.col("b.elapsed_s").alias("b_s"),
        "delta_s",
        *CAUSES,
        (deviations[0] ** 2 + deviations[1] ** 2).sqrt().alias("deviation_s"),
        ((deviations[0] > 0) | (deviations[1] > 0)).alias("spread_known"),
        (pl.col("b.least_s") - pl.col("a.least_s")).alias("least_delta_s"),
        *chart,
    )
    out_a, out_b = a_s - float(rows["a_s"].sum()), b_s - float(rows["b_s"].sum())
    if max(abs(out_a), abs(out_b)) <= 1e-9 * max(a_s, b_s):
        return rows
    launching = of.host_between((a, out_a), (b, out_b))
    beside = {
        **dict.fromkeys(CAUSES, 0.0),
        **dict.fromkeys(("delta_s", "least_delta_s"), out_b - out_a),
        **{"launches": launching, "other": out_b - out_a - launching},
        **{"name": OUTSIDE, "where": None, "matched_by": "", "a_s": out_a, "b_s": out_b},
        **{"deviation_s": 0.0, "spread_known": False},
    }
    extra = pl.DataFrame([beside | dict.fromkeys(chart)], schema=rows.schema)
    return pl.concat([rows, extra])


def _significant(
    rows: pl.DataFrame, total_s: float, total_noise_s: float, moved: Drift
) -> pl.DataFrame:
    """Mark differences beyond the noise, the plain threshold and a share of the run.

    A row's noise is its samples' and the drift of single rows, and what moved the whole run.
    Seconds beside all kernels are what is left of the whole: they have its noise.
    """
    size = pl.col("delta_s").abs()
    same_way = pl.col("delta_s") * pl.col("least_delta_s") > 0
    sure = pl.when(same_way).then(pl.min_horizontal(size, pl.col("least_delta_s").abs()))
    longer = pl.max_horizontal(pl.col("a_s").abs(), pl.col("b_s").abs())
    needed = deviations_needed(rows.filter(longer >= LEAST_SHARE * total_s).height)
    own = needed * pl.col("deviation_s")
    between = (needed * moved.single + moved.common) * longer
    outside = pl.col("name") == OUTSIDE
    noise = pl.when(outside).then(total_noise_s).otherwise(pl.max_horizontal(own, between))
    rows = rows.with_columns(noise.alias("noise_s"), told.differing_work().alias("differs_in"))
    beyond = pl.when(outside).then(size > total_noise_s).otherwise((size > own) & (sure > between))
    least_s = LEAST_SHARE * total_s * pl.when(_work_changed()).then(1.0).otherwise(2.0)
    limit = pl.max_horizontal(PLAIN_THRESHOLD * longer, least_s)
    rows = rows.with_columns((beyond & (sure > limit)).fill_null(False).alias("significant"))
    return rows.drop("deviation_s", "least_delta_s").sort(
        size, descending=True, maintain_order=True
    )


def _work_changed() -> pl.Expr:
    """Whether the sides of a pair have different amounts or launches, or one has none at all."""
    one_side = (pl.col("a_s") == 0) | (pl.col("b_s") == 0)
    return one_side | (pl.col("differs_in").list.len() > 0)


def _row(row: Row) -> Row:
    kept = ("name", "a_s", "b_s", "delta_s", "significant")
    beside = ("where", "matched_by", "noise_s", "spread_known", "differs_in")
    return {
        **{k: row[k] for k in kept},
        "causes": {cause: row[cause] for cause in CAUSES},
        **{k: row[k] for k in beside},
    }
