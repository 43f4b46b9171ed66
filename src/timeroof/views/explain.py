"""`explain`: how fast a run could be, what to do, and how one row came about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from timeroof.core.shapes import SHOWN_TENSORS, shape_text
from timeroof.core.units import format_amount, format_percent, format_seconds
from timeroof.views.ladder import ladder
from timeroof.views.overview import is_untrusted
from timeroof.views.run_summary import print_head
from timeroof.views.terminal import Bar, Cell, Column, console, fitted_table, plain_text, wrapped

if TYPE_CHECKING:
    from timeroof.core.columns import Number
    from timeroof.core.report import Finding, Report, Why, WhyLine


LADDER_COLUMNS = (
    Column("", "whole"),
    Column("", "figure"),
    Column("", "bar", least=16, most=24, leaves=1),
    Column("", "prose", least=16, leaves=2),
)
CUMULATIVE, OWN = "cumulative_gain_s", "own_gain_s"
# A finding says what it gains by itself where those above claim more than this part of it.
SHARED = 0.05
INDENT = 3


def print_explanation(report: Report, findings: Sequence[Finding], *, stderr: bool = False) -> None:
    """What ran where, how fast it could be, and the findings of a run."""
    out = console(stderr=stderr)
    print_head(report, out)
    _print_ladder(out, report)
    if not findings:
        out.print(f"\n{_nothing(report)}")
    for place, finding in enumerate(findings, 1):
        _print_finding(out, place, finding, report.totals.ladder.measured_s)
    claimed = [f for f in findings if f.gain_s is not None]
    if len(claimed) > 1:
        together = format_seconds(claimed[-1].evidence.get(CUMULATIVE, 0.0))
        of = f"{together} of {format_seconds(report.totals.ladder.measured_s)}"
        out.print(Text(f"\nTogether at most {of}; gains that overlap count once."))
    for note in report.notes:
        _print_wrapped(out, f"Note: {note}", 0)


def _nothing(report: Report) -> str:
    """Why there is no finding."""
    if report.totals.ladder.measured_s is None:
        return "No finding: nothing was timed in this run."
    if is_untrusted(report):
        again = "Measure again while nothing else runs."
        return f"No finding: gains need times that can be trusted. {again}"
    if report.machine is None:
        return "No finding: the machine is unknown. Name it with --machine."
    return "No finding: no rule found 1 % of the run to gain."


def _print_ladder(out: Console, report: Report) -> None:
    rungs = [
        (rung.label, rung.text, Bar([(rung.share or 0.0, "█", "blue")]), rung.hint)
        for rung in ladder(report)
    ]
    if not rungs:
        return
    out.print(Text("\nHow fast could it be?", style="bold"))
    out.print(fitted_table(LADDER_COLUMNS, rungs, out.width))
    totals = report.totals
    bounded_s = sum(s for kind, s in totals.by_limiter.items() if kind != "unknown")
    if totals.ladder.roof_s is None and bounded_s:
        words = "Unknown: less than half of the kernel time has FLOP and byte counts."
        out.print(words)


def _print_finding(out: Console, place: int, finding: Finding, whole_s: float | None) -> None:
    title = wrapped(plain_text(f"{place}. {finding.code} {finding.title}"), out.width)
    out.print(Text("\n" + "\n".join(title), style="bold"))
    _print_wrapped(out, _gain(finding, whole_s), INDENT)
    _print_wrapped(out, finding.why, INDENT)
    if finding.action:
        _print_wrapped(out, f"Do: {finding.action}", INDENT)


def _gain(finding: Finding, whole_s: float | None) -> str:
    if finding.gain_s is None:
        return "For information."
    share = format_percent(finding.gain_s / whole_s) if whole_s else "?"
    words = f"Gains at most {format_seconds(finding.gain_s)} ({share})"
    own_s = float(finding.evidence.get(OWN) or 0.0)
    if finding.gain_s >= (1 - SHARED) * own_s:
        return f"{words}."
    return f"{words} beyond those above, {format_seconds(own_s)} by itself."


def _print_wrapped(out: Console, text: str, indent: int) -> None:
    """A text that never parts a number from its unit."""
    lines = wrapped(plain_text(text), max(out.width - indent, 20))
    out.print(Text("\n".join(" " * indent + line for line in lines)))


# One row: how its numbers came about.


COLUMNS = (Column("", "name", least=12), Column("", "figure"), Column("", "prose", least=24))
_WORD = re.compile(r"\w+")
# Numbers that are shares.
SHARES = ("kernel_efficiency", "efficiency", "time_spread")


def print_why(why: Why, *, stderr: bool = False) -> None:
    """Every number of a row with its formula, sizes and source."""
    _print_why(why, console(stderr=stderr))


def why_text(why: Why) -> str:
    """The same as plain text, as wide as the terminal."""
    width = console().width
    out = Console(file=StringIO(), width=width, highlight=False, color_system=None)
    with out.capture() as captured:
        _print_why(why, out)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _print_why(why: Why, out: Console) -> None:
    op = f" ({why.op})" if why.op else ""
    out.print(Text(plain_text(f"Row {why.id}: {why.short_name}{op}"), style="bold"))
    facts = {
        "module": why.module,
        "shape": shape_text(why.shape, SHOWN_TENSORS),
        "kernel": why.name,
    }
    for name, text in facts.items():
        if text and text != why.short_name:
            out.print(Text(f"{name}: {plain_text(text)}"))
    out.print()
    lines = [_cells(line) for line in why.lines if not _is_nothing(line)]
    out.print(fitted_table(COLUMNS, lines, out.width))
    out.print()
    for sentence in why.change:
        out.print(Text(plain_text(sentence)))


def _is_nothing(line: WhyLine) -> bool:
    """Whether a line says that the row does none of something."""
    return line.value == 0 and ("/" in line.name or line.name.endswith("_flops"))


def _cells(line: WhyLine) -> list[Cell]:
    return [plain_text(line.title), why_value(line), plain_text(why_words(line))]


def why_value(line: WhyLine) -> str:
    """A number as a person reads it; `?` where nobody knows it."""
    value = line.value
    if value is None or isinstance(value, str):
        return "?" if value is None else plain_text(value)
    if line.name in SHARES:
        return format_percent(value)
    if line.name in ("calls", "launches"):
        return f"{value:,.6g}"
    return format_seconds(value) if line.unit == "s" else format_amount(value, line.unit or "")


def why_words(line: WhyLine) -> str:
    """The formula with its sizes filled in, and where they are from; or why it is unknown."""
    if line.unknown is not None and line.value is None:
        return f"unknown because {line.unknown}"
    told = [f"= {line.formula} = {filled_in(line.formula, line.sizes)}"] if line.formula else []
    return "; ".join([*told, *([line.source] if line.source else [])])


def filled_in(formula: str, sizes: dict[str, Number]) -> str:
    """A formula with its sizes in place of their names.

    >>> filled_in("2·M·N·calls", {"M": 512, "N": 4864, "calls": 48.0})
    '2·512·4864·48'
    """
    return _WORD.sub(lambda m: _digits(sizes[m[0]]) if m[0] in sizes else m[0], formula)


def _digits(value: Number) -> str:
    whole = float(value).is_integer() and abs(value) < 1e15
    return f"{int(value)}" if whole else f"{value:.6g}"
