"""Where seconds could come back, in the terminal: the largest gaps and the first findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
from rich.text import Text

from timeroof.core.units import format_percent, format_seconds
from timeroof.views.clean import clean_table
from timeroof.views.terminal import console, plain_text
from timeroof.views.terminal_table import Bar, Cell, Column, fitted_table

if TYPE_CHECKING:
    from rich.console import Console

    from timeroof.core.report import Report

ROWS = 5
FINDINGS = 3
COLUMNS = (
    Column("largest gaps", "name"),
    Column("time", "figure"),
    Column("gap", "figure"),
    Column("limiter", "whole", leaves=1),
    Column("bound in time", "bar", least=13, most=20, leaves=2),
)


def print_gaps(report: Report, *, stderr: bool = True) -> None:
    """The kernels with the largest gaps, time against bound, then the first findings."""
    rows = clean_table(report).filter(pl.col("gap_s") > 0)
    if not rows.height:
        return
    out = console(stderr=stderr)
    named = (
        rows.group_by("short_name", "op", maintain_order=True)
        .agg(pl.col("elapsed_s", "bound_s", "gap_s").sum(), pl.col("limiter").first())
        .sort("gap_s", descending=True)
        .head(ROWS)
    )
    longest = float(named["elapsed_s"].max() or 1.0)  # type: ignore[arg-type]
    lines = [_cells(row, longest) for row in named.iter_rows(named=True)]
    out.print(fitted_table(COLUMNS, lines, out.width))
    _print_findings(report, out)


def _cells(row: dict[str, Any], longest_s: float) -> list[Cell]:
    bound = min(row["bound_s"], row["elapsed_s"]) / longest_s
    bar = Bar([(bound, "█", ""), (row["elapsed_s"] / longest_s - bound, "░", "")])
    seconds = [format_seconds(row[c]) for c in ("elapsed_s", "gap_s")]
    return [plain_text(_title(row)), *seconds, row["limiter"], bar]


def _title(row: dict[str, str | None]) -> str:
    op = (row["op"] or "").removeprefix("aten::")
    name = row["short_name"] or ""
    return name if not op or op in name else f"{name} ({op})"


def _print_findings(report: Report, out: Console) -> None:
    gains = [f for f in report.findings if f.gain_s]
    measured = report.totals.ladder.measured_s
    for finding in gains[:FINDINGS]:
        share = format_percent(finding.gain_s / measured) if finding.gain_s and measured else ""
        text = (
            f"{finding.code} {plain_text(finding.title)}: at most {format_seconds(finding.gain_s)}"
        )
        out.print(Text(f"{text} ({share})"))
    if gains:
        out.print(Text("`timeroof explain` says why and what to do."))
