"""Seconds of a clean step: what was timed with instruments, scaled to the step without them.

The rows of a live run are timed with the profiler on, its step time is that of clean steps. Every
view for people shows clean seconds, so that parts sum to the step; JSON, CSV and Parquet keep rows
as they were timed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from timeroof.core.units import format_seconds

if TYPE_CHECKING:
    from timeroof.core.report import Report, Totals

# The cause of idling that is the measuring's own.
PROFILER = "profiler"
# A smaller difference between clean and timed steps shows in no digit.
ALIKE = 5e-4


@dataclass(frozen=True)
class CleanStep:
    """How seconds of a timed step become those of a clean one."""

    clean_s: float
    timed_s: float
    profiler_s: float
    scale: float

    @property
    def difference_s(self) -> float:
        """What timed steps took more than clean ones, beyond the profiler's known cost."""
        return self.timed_s - self.profiler_s - self.clean_s


def clean_step(totals: Totals) -> CleanStep | None:
    """Both steps of a live run; None where there is no clean one to scale to."""
    clean_s = totals.steps.clean_s if totals.steps is not None else None
    profiler_s = totals.idle_by_cause.get(PROFILER, 0.0)
    if not clean_s or totals.wall_s is None or totals.wall_s <= profiler_s:
        return None
    return CleanStep(clean_s, totals.wall_s, profiler_s, totals.clean_scale)


def clean_by_limiter(totals: Totals) -> dict[str, float]:
    """Seconds by limiter in a step without instruments."""
    return {kind: s * totals.clean_scale for kind, s in totals.by_limiter.items()}


def clean_idle(totals: Totals) -> tuple[float | None, dict[str, float]]:
    """Idle seconds and their causes in a step without instruments, which has no profiler's."""
    if totals.idle_s is None or totals.steps is None or not totals.steps.clean_s:
        return totals.idle_s, totals.idle_by_cause
    scale, profiler_s = totals.clean_scale, totals.idle_by_cause.get(PROFILER, 0.0)
    causes = {c: s * scale for c, s in totals.idle_by_cause.items() if c != PROFILER}
    return max(0.0, totals.idle_s - profiler_s) * scale, causes


def clean_tables(report: Report) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows and verdicts in clean seconds; bounds are the machine's and stay as they are.

    Gaps and efficiencies follow from the clean seconds, so that a row's bound and gap still sum
    to its time, and all gaps and the idle time to what the ladder says the same kernels could
    bring back. Which row is above its roof stays as it was judged.
    """
    rows, verdicts = report.profile.kernels, report.verdicts.table
    scale = report.totals.clean_scale
    if scale == 1.0:
        return rows, verdicts
    rows = rows.with_columns(pl.col("time_s", "idle_before_s") * scale)
    return rows, verdicts.with_columns(
        pl.col("elapsed_s") * scale,
        _gap(rows["time_s"], scale).alias("gap_s"),
        pl.col("efficiency", "kernel_efficiency") / scale,
    )


def _gap(time_s: pl.Series, scale: float) -> pl.Expr:
    """As it is judged: seconds above the bound, never below 0 inside the launch box."""
    gap = pl.col("elapsed_s") * scale - pl.col("bound_s")
    inside = pl.lit(time_s) <= pl.col("overhead_time_s")
    settled = pl.when(inside).then(pl.max_horizontal(gap, 0.0)).otherwise(gap)
    return pl.when(pl.col("gap_s").is_not_null()).then(settled)


def clean_table(report: Report) -> pl.DataFrame:
    """Every judged row, in clean seconds."""
    rows, scale = report.rows.drop("samples"), report.totals.clean_scale
    if scale == 1.0:
        return rows
    clean, verdicts = clean_tables(report)
    return rows.with_columns(
        *clean.select("time_s", "idle_before_s"),
        *verdicts.select("elapsed_s", "gap_s", "efficiency", "kernel_efficiency"),
        pl.col("compute_time_s", "bandwidth_time_s") * scale,
        pl.col("achieved_flop_per_s", "achieved_byte_per_s") / scale,
    )


def clean_words(report: Report) -> str:
    """Which seconds a reader sees, and where the profiler's share and the rest have gone."""
    step = clean_step(report.totals)
    if step is None:
        return ""
    words = [
        "All seconds are those of a clean step, without instruments"
        f" ({format_seconds(step.clean_s)}). What is in it was timed with the profiler on,"
        f" in steps of {format_seconds(step.timed_s)}"
    ]
    if step.profiler_s > 0:
        words.append(f"; the profiler's own {format_seconds(step.profiler_s)} are left out")
    return "".join(words) + _difference_words(step, report.notes)


def _difference_words(step: CleanStep, notes: tuple[str, ...]) -> str:
    if abs(step.scale - 1) < ALIKE:
        return ", and the rest is as long as a clean step."
    how = "more" if step.difference_s > 0 else "less"
    other_s, apart_s = step.timed_s - step.profiler_s, abs(step.difference_s)
    noted = any(note.startswith("residual") for note in notes)
    name = " (see the note on the residual)" if noted else ", the residual,"
    return (
        f". The other {format_seconds(other_s)} are {format_seconds(apart_s)} {how} than a clean"
        f" step: this difference{name} is shared out, every part times {step.scale:.3g}."
    )
