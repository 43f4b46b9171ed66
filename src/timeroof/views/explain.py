"""Findings in words: the ladder of limits, then what to do, in seconds order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from timeroof.core.units import format_percent, format_seconds
from timeroof.views.terminal import console, plain_text
from timeroof.views.terminal_table import Bar, Column, fitted_table

if TYPE_CHECKING:
    from rich.console import Console

    from timeroof.core.report import Finding, Report, Totals

LADDER_COLUMNS = (
    Column("", "whole"),
    Column("", "figure"),
    Column("", "bar", least=16, most=24, leaves=1),
    Column("", "prose", least=16),
)
CUMULATIVE = "cumulative_gain_s"


def ladder_rungs(totals: Totals) -> list[tuple[str, float | None, str]]:
    """The rungs with their seconds and what would lead there."""
    ladder = totals.ladder
    return [
        ("measured", ladder.measured_s, "as it ran, idle included"),
        ("roof", ladder.roof_s, "better kernels: every one at its bound"),
        ("fused", ladder.fused_s, "fusion: each phase one kernel, no intermediate results"),
        ("ideal", ladder.ideal_s, "the whole step one ideal kernel"),
    ]


def print_explanation(report: Report, findings: Sequence[Finding], *, stderr: bool = False) -> None:
    """The ladder and the findings of a run."""
    out = console(stderr=stderr)
    _print_ladder(out, report.totals)
    if not findings:
        out.print(f"\n{_nothing(report)}")
    for place, finding in enumerate(findings, 1):
        _print_finding(out, place, finding, report.totals.ladder.measured_s)
    claimed = [f for f in findings if f.gain_s is not None]
    if claimed:
        together = format_seconds(claimed[-1].evidence.get(CUMULATIVE, 0.0))
        of = f"{together} of {format_seconds(report.totals.ladder.measured_s)}"
        words = "seconds that several findings claim count once."
        out.print(Text(f"\nTogether at most {of}: {words}"))
    for note in report.notes:
        out.print(Text(f"Note: {plain_text(note)}"))


def _nothing(report: Report) -> str:
    """Why there is no finding."""
    if report.totals.ladder.measured_s is None:
        return "No finding: nothing was timed in this run."
    if report.machine is None:
        return "No finding: the machine is not known, so nothing is judged; name it with --machine."
    return "No finding: nothing that the rules look for holds 1 % of the run."


def _print_ladder(out: Console, totals: Totals) -> None:
    whole = totals.ladder.measured_s or 1.0
    rungs = [
        (name, format_seconds(seconds), Bar([(seconds / whole, "█", "blue")]), words)
        for name, seconds, words in ladder_rungs(totals)
        if seconds is not None
    ]
    out.print(Text("The ladder of limits", style="bold"))
    out.print(fitted_table(LADDER_COLUMNS, rungs, out.width))
    missing = [name for name, seconds, _ in ladder_rungs(totals) if seconds is None]
    if missing:
        out.print(f"Not known from this source: {', '.join(missing)}.")
    bounded_s = sum(s for kind, s in totals.by_limiter.items() if kind != "unknown")
    if totals.ladder.roof_s is None and bounded_s:
        out.print("Less than half of the time has a known bound, too little for a roof of the run.")


def _print_finding(out: Console, place: int, finding: Finding, whole_s: float | None) -> None:
    gain = "for information"
    if finding.gain_s is not None:
        share = format_percent(finding.gain_s / whole_s) if whole_s else "?"
        together = finding.evidence.get(CUMULATIVE)
        gain = f"at most {format_seconds(finding.gain_s)} ({share})"
        gain += f", together with those above {format_seconds(together)}" if place > 1 else ""
    title = (f"{place}. {finding.code} {plain_text(finding.title)}", "bold")
    out.print(Text.assemble("\n", title, f": {gain}"))
    out.print(Text(plain_text(finding.why)))
    if finding.action:
        out.print(Text(f"Do: {plain_text(finding.action)}"))
