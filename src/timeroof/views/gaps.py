"""Where seconds could come back, in the terminal: the largest gaps and the first findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from rich.table import Table
from rich.text import Text

from timeroof.units import format_percent, format_seconds
from timeroof.views.clean import clean_table
from timeroof.views.terminal import console, plain_text

if TYPE_CHECKING:
    from rich.console import Console

    from timeroof.core.report import Report

ROWS = 5
FINDINGS = 3
BAR = 20


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
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("largest gaps", "time", "gap", "limiter"):
        table.add_column(column, no_wrap=True, overflow="ellipsis", max_width=34)
    table.add_column("bound in time", no_wrap=True)
    for row in named.iter_rows(named=True):
        full = max(1, round(BAR * row["elapsed_s"] / longest))
        solid = min(full, round(full * row["bound_s"] / row["elapsed_s"]))
        table.add_row(
            Text(plain_text(_title(row))),
            format_seconds(row["elapsed_s"]),
            format_seconds(row["gap_s"]),
            row["limiter"],
            "█" * solid + "░" * (full - solid),
        )
    out.print(table)
    _print_findings(report, out)


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
