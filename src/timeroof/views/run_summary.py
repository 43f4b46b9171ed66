"""What is seen at the end of a run: step time, where it went, top ops, what can come back."""

from __future__ import annotations

import polars as pl
from rich.console import Console
from rich.text import Text

from timeroof.core.columns import Row
from timeroof.core.profile import Steps
from timeroof.core.report import Report, Totals
from timeroof.core.resources import limiter_kind
from timeroof.core.units import format_percent, format_seconds
from timeroof.views.palette import TERMINAL_COLOURS
from timeroof.views.terminal import console, plain_text, print_notes, print_summary
from timeroof.views.terminal_table import Bar, Cell, Column, fitted_table

TOP = 8
CHUNKS = 3
OP_COLUMNS = (
    Column("", "name", most=60),
    Column("", "whole", leaves=1),
    Column("", "bar", least=8, most=24, leaves=2),
    Column("", "figure"),
    Column("", "figure"),
)
LINE_COLUMNS = (Column("", "figure"), Column("", "figure"), Column("", "path"))
CHUNK_COLUMNS = (Column("", "figure"), Column("", "prose"))


def print_run(report: Report) -> None:
    """The whole summary, on stderr."""
    out = console(stderr=True)
    _print_step(report, out)
    if len(report.profile):
        print_summary(report)
        _print_account(report, out)
        _print_top(report, out)
        _print_lines(report, out)
        _print_chunks(report, out)
    print_notes(report.notes)


def _print_step(report: Report, out: Console) -> None:
    steps = report.profile.steps
    if steps is None:
        return
    out.print(Text(f"\n{whole_run(steps)}", style="bold"))
    step_s, profiled_s = steps.unprofiled_s, steps.profiled_s
    step = f"a step takes {format_seconds(step_s)}" if step_s else "no unprofiled step"
    profiled = f", {format_seconds(profiled_s)} when profiled" if profiled_s else ""
    seen = "1 step" if steps.count == 1 else f"{steps.count} steps"
    out.print(Text(f"\n{step}{profiled}; {seen} seen", style="bold"))


def whole_run(steps: Steps) -> str:
    """What marks a step, and whose the time of all of them was.

    >>> kinds = [StepKind(name="training", count=56, total_s=0.06),
    ...          StepKind(name="training with evaluation", count=8, total_s=51.7)]
    >>> whole_run(Steps(count=64, mark="SGD.step", kinds=kinds))
    '64 steps (SGD.step) took 51.8 s: 56 training 60.0 ms, 8 training with evaluation 51.7 s'
    """
    seen = "1 step" if steps.count == 1 else f"{steps.count} steps"
    mark = f" ({plain_text(steps.mark)})" if steps.mark else ""
    known = [kind for kind in steps.kinds if kind.total_s is not None]
    if not known:
        return f"{seen}{mark}"
    took = f"{seen}{mark} took {format_seconds(sum(kind.total_s or 0.0 for kind in known))}"
    if len(known) < 2:
        return took
    parts = [f"{k.count} {plain_text(k.name)} {format_seconds(k.total_s)}" for k in known]
    return f"{took}: {', '.join(parts)}"


def _print_account(report: Report, out: Console) -> None:
    """Parts of the step; they sum to it."""
    totals = report.totals
    whole = totals.wall_s or 1.0
    parts = {"ops": totals.kernel_s, **totals.idle_by_cause, "unexplained": totals.unexplained_s}
    texts = [f"{n} {format_percent(s / whole)}" for n, s in parts.items() if s is not None]
    out.print(Text(f"step = {' + '.join(texts)}"))


def _print_top(report: Report, out: Console) -> None:
    """The largest ops by name and phase: a bar of time, its bound in colour."""
    rows = report.rows.with_columns(pl.col("bound_s").fill_null(0.0).alias("known_bound_s"))
    groups = (
        rows.group_by("name", "phase")
        .agg(
            pl.col("time_s").sum(),
            pl.col("known_bound_s").sum(),
            pl.col("calls").sum(),
            pl.col("limiter").sort_by("time_s").last(),
            pl.col("gap_s").is_null().any().alias("is_unknown"),
        )
        .sort("time_s", descending=True)
        .head(TOP)
    )
    longest = float(groups["time_s"].max() or 0.0) or 1.0  # type: ignore[arg-type]
    out.print(Text("\nlargest ops (█ bound, ░ gap)", style="bold"))
    lines = [_line(row, longest) for row in groups.iter_rows(named=True)]
    out.print(fitted_table(OP_COLUMNS, lines, out.width, indent=2))


def _print_lines(report: Report, out: Console) -> None:
    """The lines of the program that take longest, where they were asked for."""
    rows = report.rows
    if "label.source" not in rows.columns:
        return
    groups = (
        rows.filter(pl.col("label.source").is_not_null())
        .group_by("label.source")
        .agg(pl.col("time_s").sum(), pl.col("gap_s").sum())
        .sort("time_s", descending=True)
        .head(TOP)
    )
    if not groups.height:
        out.print(Text(f"\nno op bears a line of the program: {_why_no_line(rows)}"))
        return
    out.print(Text("\nlargest lines (time, of it above the bound)", style="bold"))
    lines = [
        (format_seconds(time_s), format_seconds(gap_s), plain_text(source))
        for source, time_s, gap_s in groups.iter_rows()
    ]
    out.print(fitted_table(LINE_COLUMNS, lines, out.width, indent=2))


def _why_no_line(rows: pl.DataFrame) -> str:
    """What is known of why there are no lines: kernels are compiled ones, shapes are described."""
    if "kind" in rows.columns and (rows["kind"] == "kernel").any():
        return "in programs with compiled code only that code has lines"
    if "shape" not in rows.columns or rows["shape"].is_null().all():
        return "lines are found in the described step, and no step was described"
    return "no call of the described step came from a file of the program"


def _line(row: Row, longest: float) -> list[Cell]:
    time_s, bound_s = row["time_s"] or 0.0, row["known_bound_s"]
    # A bound that is known only in part says nothing about the whole.
    share = bound_s / time_s if time_s and not row["is_unknown"] else None
    colour = TERMINAL_COLOURS[limiter_kind(str(row["limiter"]))]
    solid = min(bound_s, time_s) / longest
    bar = Bar([(solid, "█", colour), (time_s / longest - solid, "░", colour)])
    names = [plain_text(row["name"]), row["phase"] or ""]
    return [*names, bar, format_seconds(row["time_s"]), format_percent(share)]


def _print_chunks(report: Report, out: Console) -> None:
    """The three largest recoverable chunks: findings, gaps that none of them names, host time."""
    chunks = [(f.gain_s, f.title) for f in report.findings if f.gain_s] + _gaps(report)
    chunks = sorted(chunks, key=lambda chunk: -chunk[0])[:CHUNKS]
    shown = sorted(chunks + _idle(report)[: CHUNKS - len(chunks)], key=lambda chunk: -chunk[0])
    words = _overlapping(sum(gain_s for gain_s, _ in shown), report.totals)
    out.print(Text(f"\nlargest recoverable chunks{words}", style="bold"))
    lines = [(format_seconds(gain_s), plain_text(title)) for gain_s, title in shown]
    out.print(fitted_table(CHUNK_COLUMNS, lines, out.width, indent=2))


def _overlapping(gains_s: float, totals: Totals) -> str:
    """Why chunks may be more than the step: findings share seconds."""
    measured_s = totals.ladder.measured_s
    return " (they overlap)" if measured_s is not None and gains_s > measured_s else ""


def _gaps(report: Report) -> list[tuple[float, str]]:
    """Seconds above the bound of ops that no finding names."""
    named = [row for finding in report.findings if finding.gain_s for row in finding.kernels]
    rows = report.rows.filter(pl.col("gap_s") > 0, ~pl.col("id").is_in(named))
    groups = rows.group_by("name", "phase").agg(pl.col("gap_s").sum())
    return [
        (float(g["gap_s"]), f"{g['name']} ({g['phase']}) above its bound")
        for g in groups.iter_rows(named=True)
    ]


def _idle(report: Report) -> list[tuple[float, str]]:
    causes = report.totals.idle_by_cause
    found = [(s, f"host time: {cause}") for cause, s in causes.items()]
    return sorted(found, reverse=True)
