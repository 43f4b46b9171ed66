"""The same run on another machine: its bounds there, and the time that today's efficiency gives.

A model, not a measurement. Per row, with the resources that both machines have ceilings for:

* Work keeps its efficiency: time there = time here × work bound there / work bound here.
* Rows whose launching outweighs their work here scale with the cost of a launch, between devices
  that launch the same way.
* On a synchronous device launching is taken out first and added again at the other's cost. From an
  eager CPU to a queue the rest scales with the work, and a row without work (an op's own time
  beside its primitives) is only launched; no row is shorter than its launches.
* The idle before a row scales with the cost of a launch; idle outside of rows stays.
* Rows without a bound scale like all the others together.

The interval: a row's time may follow any of its resources that are in play (whose bound is at
least `IN_PLAY` of the largest), so the least and the most favourable of their ratios are its
ends; and its efficiency may change by the factor by which the rows of the same limiter differ
today (quartiles, at least `LEAST_CHANGE`, at most `MOST_CHANGE`). What the roof does not explain
(time less bound: latency, too few tiles) may scale with the roof or stay as it is; a row of which
nothing is known may do either as a whole. FP32 contractions may use TF32 where only the other
machine has it. No interval ends below the bound. A machine with the same ceilings gives exactly
what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from timeroof.core.columns import Row
from timeroof.core.errors import UsageError
from timeroof.core.machine import Machine, Scope
from timeroof.core.profile import Profile
from timeroof.core.report import Report
from timeroof.model.judge import judge
from timeroof.model.totals import seconds_by_limiter
from timeroof.model.whatif.rows import Crossing, in_precision, project_rows, with_substitutes

# Sums of the same numbers in another order; and the share of the seconds that is worth a note.
ROUNDING, WORTH_A_WORD = 1e-9, 0.01
UNTIMED = "Nothing was timed in this run, so no time is predicted."
# From this share of the time with unknown work on, a note warns.
MOST_UNKNOWN = 0.3


@dataclass(frozen=True)
class Projection:
    """A run on one machine.

    `table` has per row `id`, `bound_s`, `limiter`, `limiter_now`, `predicted_s`, `low_s`, `high_s`,
    and the last three without the idle before the row as `busy_s`, `busy_low_s`, `busy_high_s`.
    `outside_s` are seconds beside the rows (idle), part of the sums. `by_limiter` are seconds of
    the rows alone, as in a report: what `predicted_s` has beyond them is idle.
    """

    machine: Machine
    table: pl.DataFrame
    bound_s: float | None
    # Null where no row was timed: bounds are all that can be told.
    predicted_s: float | None
    low_s: float | None
    high_s: float | None
    outside_s: float
    by_limiter: dict[str, float]
    notes: tuple[str, ...] = ()


def project(
    profile: Profile,
    here: Machine,
    there: Machine,
    precision: str | None = None,
    *,
    measured_s: float | None = None,
    scopes: tuple[Scope, Scope] = ("all", "all"),
) -> Projection:
    """The run of `profile`, measured on `here`, as it would go on `there`.

    `scopes` are those of the ceilings here and there: a run of one thread has one core's.
    """
    likely = profile if precision is None else in_precision(profile, precision)
    substituted = with_substitutes(there, likely, scopes[1], precision)
    target = substituted.machine
    now, then = judge(profile, here, scope=scopes[0]), judge(likely, target, scope=scopes[1])
    # The precision that it has: then efficiencies are known, not guessed.
    same = likely.kernels.equals(profile.kernels) and _same_machine(here, there, scopes)
    table = project_rows(
        profile.kernels, now.table, then.table, Crossing(here, target, scopes, same)
    ).with_columns(substituted.name_units(pl.col("limiter")))
    outside_s, overlap = _outside(table, measured_s)
    timed = table["elapsed_s"].count() > 0

    def whole_s(column: str) -> float | None:
        return _sum(table, column) * overlap + outside_s if timed else None

    return Projection(
        machine=there,
        table=table,
        bound_s=float(table["bound_s"].sum()) if table["bound_s"].count() else None,
        predicted_s=whole_s("predicted_s"),
        low_s=whole_s("low_s"),
        high_s=whole_s("high_s"),
        outside_s=outside_s,
        by_limiter=seconds_by_limiter(table.select("limiter", pl.col("busy_s").alias("time_s"))),
        notes=(
            *([] if timed else [UNTIMED]),
            *_unknown(now.table, table),
            *_above_roof(table, then.table["work_bound_s"]),
            *substituted.notes,
        ),
    )


def _unknown(now: pl.DataFrame, table: pl.DataFrame) -> list[str]:
    """A warning where most seconds have no known work: then the prediction hangs on the rest."""
    unknown_s = float(table.filter(now["work_bound_s"].is_null())["elapsed_s"].sum())
    whole_s = _sum(table, "elapsed_s")
    if not whole_s or unknown_s < MOST_UNKNOWN * whole_s:
        return []
    return [
        f"{unknown_s / whole_s:.0%} of the time has unknown work and is scaled like the rest: the"
        " prediction says little; record shapes, or collect counters."
    ]


def _above_roof(table: pl.DataFrame, work_bound_s: pl.Series) -> list[str]:
    """A word where a prediction is below the work's bound, as the measured time is.

    A kernel shorter than its launches is above no roof.
    """
    below = table.filter(table["busy_s"] < work_bound_s * (1 - ROUNDING))
    seconds = _sum(below, "busy_s")
    if not below.height or seconds < WORTH_A_WORD * _sum(table, "busy_s"):
        return []
    return [
        f"{below.height} rows are predicted below their bound: they are above their roof as"
        " measured (data in a cache, or a count or ceiling that is wrong), and keep that."
    ]


def _same_machine(here: Machine, there: Machine, scopes: tuple[Scope, Scope]) -> bool:
    ours, theirs = (
        {r: c.rate for r, c in machine.roofs(scope).items()}
        for machine, scope in zip((here, there), scopes, strict=True)
    )
    return here.launching == there.launching and ours == theirs


def _outside(table: pl.DataFrame, measured_s: float | None) -> tuple[float, float]:
    """Seconds beside the rows, and how much rows overlap (1: not at all)."""
    rows_s = _sum(table, "elapsed_s")
    if measured_s is None or not rows_s or abs(measured_s - rows_s) <= 1e-9 * rows_s:
        return 0.0, 1.0
    if rows_s > measured_s:
        return 0.0, measured_s / rows_s
    return measured_s - rows_s, 1.0


def _sum(table: pl.DataFrame, column: str) -> float:
    return float(table[column].fill_null(0.0).sum())


# A run on several machines side by side, and its JSON, `timeroof.whatif/1`.

# From this share of the predicted time on, a change of limiter is worth telling.
LEAST_SHARE = 1e-3
WHATIF_SCHEMA = "timeroof.whatif/1"
MODEL = (
    "Estimate, not a measurement: each kernel keeps today's efficiency. The range shows how far"
    " that may be off."
)


@dataclass(frozen=True)
class WhatIf:
    """One run projected to several machines."""

    report: Report
    here: Machine
    projections: tuple[Projection, ...]
    notes: tuple[str, ...] = ()

    def document(self) -> Row:
        """The JSON document, `timeroof.whatif/1`."""
        return {
            "schema": WHATIF_SCHEMA,
            "from": self.here.name,
            "measured_s": self.report.totals.ladder.measured_s,
            "measured_bound_s": self.report.totals.bound_s,
            "measured_by_limiter": self.report.totals.by_limiter,
            "known_time_share": self.report.totals.known_time_share,
            "machines": [_machine(p) for p in self.projections],
            "rows": self._rows(),
            "notes": [
                MODEL,
                *dict.fromkeys([*self.notes, *(n for p in self.projections for n in p.notes)]),
            ],
        }

    def _rows(self) -> Sequence[Row]:
        """Like beside like: `predicted_s` is what becomes of `time_s`, the kernel alone.

        `predicted_elapsed_s` is what becomes of `elapsed_s`, with the idle before it.
        """
        named = ("id", "name", "short_name", "module", "shape", "time_s")
        rows = self.report.profile.kernels.select(named).to_dicts()
        tables = [(p.machine.name, p.table.to_dicts()) for p in self.projections]
        return [
            row | {
                "machines": [_row_there(name, there[place]) for name, there in tables],
                **{out: tables[-1][1][place][c] for out, c in ROW_NOW.items() if tables},
            }
            for place, row in enumerate(rows)
        ]  # fmt: skip


# What a row is today, by the projections' columns that hold it.
ROW_NOW = {"limiter": "limiter_now", "elapsed_s": "elapsed_s"}
ROW_THERE = {
    "bound_s": "bound_s", "predicted_s": "busy_s", "low_s": "busy_low_s", "high_s": "busy_high_s",
    "predicted_elapsed_s": "predicted_s", "limiter": "limiter",
}  # fmt: skip


def _row_there(name: str, there: Row) -> Row:
    changes = there["limiter"] != there["limiter_now"]
    seconds = {out: there[c] for out, c in ROW_THERE.items()}
    return {"name": name, **seconds, "limiter_changes": changes}


SUMS = ("bound_s", "predicted_s", "low_s", "high_s", "by_limiter", "outside_s")


def _machine(projection: Projection) -> Row:
    return {
        "name": projection.machine.name,
        "device": projection.machine.device,
        **{name: getattr(projection, name) for name in SUMS},
        "limiter_changes_s": limiter_changes(projection),
    }


def limiter_changes(projection: Projection) -> dict[str, float]:
    """Predicted seconds of rows whose limiter becomes another, by `from → to`, longest first.

    Less than a thousandth of the run's is left out.
    """
    if projection.predicted_s is None:
        return {}
    changed = (
        projection.table.filter(pl.col("limiter") != pl.col("limiter_now"))
        .group_by("limiter_now", "limiter")
        .agg(pl.col("busy_s").fill_null(0.0).sum())
        .filter(pl.col("busy_s") >= LEAST_SHARE * projection.predicted_s)
        .sort("busy_s", "limiter_now", "limiter", descending=[True, False, False])
    )
    return {f"{now} → {then}": seconds for now, then, seconds in changed.iter_rows()}


def what_if(
    report: Report,
    machines: Sequence[Machine],
    precision: str | None = None,
    here: Machine | None = None,
    scope_of: Callable[[Machine], Scope] = lambda machine: "all",
    notes: Sequence[str] = (),
) -> WhatIf:
    """Project a judged run to machines; `here` is where it ran, if the report does not say.

    `scope_of` says which ceilings of a machine the run is held against (one core's or all).
    A machine that is named twice stands there once.
    """
    origin = here or report.machine
    if origin is None:
        raise UsageError(
            "the run does not say on which machine it was measured",
            advice="name it with --from, for example --from v100-sxm2",
        )
    measured_s = report.totals.ladder.measured_s
    # One name may mean several machines.
    once = [machine for k, machine in enumerate(machines) if machine not in machines[:k]]
    projections = [
        project(
            report.profile, origin, there, precision, measured_s=measured_s,
            scopes=(scope_of(origin), scope_of(there)),
        )
        for there in once or [origin]
    ]  # fmt: skip
    return WhatIf(report, origin, tuple(projections), tuple(notes))
