"""A run in the terminal: the first screen of its page, in the same order and numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from rich.console import Console
from rich.text import Text

from timeroof.core.shapes import SHOWN_TENSORS, shape_text
from timeroof.core.units import format_amount, format_percent, format_seconds
from timeroof.views.overview import Action, KernelLine, Overview, is_untrusted, overview
from timeroof.views.parts import Part, ladder
from timeroof.views.style import TERMINAL_COLOURS
from timeroof.views.terminal import (
    GAP,
    Bar,
    Cell,
    Column,
    console,
    fitted_table,
    plain_text,
    print_notes,
    wrapped,
)

if TYPE_CHECKING:
    from timeroof.core.columns import Number
    from timeroof.core.errors import Note
    from timeroof.core.report import Finding, Report, Why, WhyLine


LINES = 8
# A shorter bar is less than one character.
SLIVER = 0.02
# Warnings beyond these are counted with the notes.
DOUBTS = 3
PART_COLOURS = TERMINAL_COLOURS | {
    "communication": "green",
    "copy": "dark_cyan",
    "idle": "white",
    "unexplained": "bright_black",
}
PART_COLUMNS = (
    Column("", "whole"),
    Column("", "bar", least=16, most=40, leaves=1),
    Column("", "figure"),
    Column("", "figure"),
    Column("", "name", least=20, most=120, leaves=2),
)
ACTION_COLUMNS = (
    Column("Do first", "prose", least=24, most=110),
    Column("gain up to", "figure"),
    Column("", "figure"),
)
KERNEL_COLUMNS = (
    Column("time", "figure"),
    Column("share", "figure", leaves=3),
    Column("limit", "whole", leaves=1),
    Column("of its limit", "figure", leaves=2),
    Column("FLOP/s", "figure", leaves=5),
    Column("DRAM B/s", "figure", leaves=5),
    Column("", "bar", least=10, most=20, leaves=4),
)
LINE_COLUMNS = (
    Column("Largest lines", "path", least=16),
    Column("time", "figure"),
    Column("above its limit", "figure"),
)


def print_run(
    report: Report, *, verbose: bool = False, page: Path | None = None, stderr: bool = True
) -> None:
    """The whole summary; `page` is where the page was written, `verbose` adds every note."""
    seen, out = overview(report), console(stderr=stderr)
    out.print()
    _print_doubts(seen, out, verbose=verbose)
    _print_head(seen, out)
    _print_sentence(seen, out)
    if seen.is_empty:
        print_notes([n for n in report.notes if n.level == "info"], stderr=stderr)
        return
    print_parts(seen, out)
    _print_actions(seen, out)
    _print_kernels(seen, out)
    _print_lines(report, out)
    _print_end(report, seen, out, verbose=verbose, page=page)


def print_summary(report: Report, *, stderr: bool = True) -> None:
    """What ran where, how long it took and where the time goes: the first lines of a run."""
    seen, out = overview(report), console(stderr=stderr)
    _print_doubts(seen, out, verbose=False)
    _print_head(seen, out)
    _print_sentence(seen, out)
    print_parts(seen, out)


def print_head(report: Report, out: Console) -> None:
    """What ran where and how long it took."""
    _print_head(overview(report), out)


def _print_doubts(seen: Overview, out: Console, *, verbose: bool) -> None:
    """Why not to trust what follows."""
    shown = seen.doubts if verbose else seen.doubts[:DOUBTS]
    for doubt in shown:
        words = plain_text(f"Warning: {doubt.text} {doubt.advice}".strip())
        text = Text("\n".join(wrapped(words, out.width)))
        text.stylize("bold yellow", 0, len("Warning:"))
        out.print(text)
    if shown:
        out.print()


def _print_head(seen: Overview, out: Console) -> None:
    out.print(Text(plain_text(seen.title), style="bold"))
    if seen.account:
        out.print(Text("\n".join(wrapped(plain_text(seen.account), out.width))))
    facts = [f"{seen.time_label.lower()}{seen.of_kind}", *filter(None, (seen.potential,))]
    out.print(Text.assemble((seen.time, "bold"), " ", " · ".join(facts)))


def _print_sentence(seen: Overview, out: Console) -> None:
    out.print()
    out.print(Text("\n".join(wrapped(plain_text(seen.sentence), out.width))))


def print_parts(seen: Overview, out: Console) -> None:
    """Where the time goes: one bar a part; they sum to the run time."""
    parts = [part for part in seen.parts if part.seconds]
    if parts:
        out.print()
        longest = max(part.share for part in parts) or 1.0
        rows = [_part_cells(part, longest) for part in parts]
        out.print(fitted_table(PART_COLUMNS, rows, out.width, indent=2))


def _part_cells(part: Part, longest: float) -> list[Cell]:
    share = max(part.share, 0.0) / longest
    bar = Bar([(share, "█" if share > SLIVER else "▏", PART_COLOURS[part.key])])
    return [plain_text(part.label), bar, part.text, part.percent, plain_text(part.detail)]


def _print_actions(seen: Overview, out: Console) -> None:
    if not seen.actions:
        return
    out.print()
    beside = [max(len(a.gain) for a in seen.actions), max(len(a.percent) for a in seen.actions)]
    room = out.width - max(beside[0], len(ACTION_COLUMNS[1].head)) - beside[1] - 2 * GAP
    rows = [_action_cells(action, min(room, ACTION_COLUMNS[0].most)) for action in seen.actions]
    out.print(fitted_table(ACTION_COLUMNS, rows, out.width))


def _action_cells(action: Action, room: int) -> list[Cell]:
    """What was found, and in the lines below what to do about it."""
    title = wrapped(f"{action.place}. {plain_text(action.title)}", room)
    how = wrapped(plain_text(action.how).replace("`", ""), max(room - 3, 20))
    words = Text("\n".join([title[0], *(f"   {line}" for line in title[1:])]))
    if action.how:
        words.append("".join(f"\n   {line}" for line in how), style="green")
    return [words, action.gain, action.percent]


def _print_kernels(seen: Overview, out: Console) -> None:
    if not seen.kernels:
        return
    out.print()
    longest = max(line.time_s for line in seen.kernels) or 1.0
    rows = [_kernel_cells(line, longest) for line in seen.kernels]
    columns, rows = _told(_kernel_columns(seen.things), rows)
    out.print(fitted_table(columns, rows, out.width))
    if seen.overlap:
        out.print(Text(seen.overlap))


def _kernel_columns(things: str) -> list[Column]:
    return [Column(f"Largest {things}", "name", least=16, most=70), *KERNEL_COLUMNS]


def _kernel_cells(line: KernelLine, longest_s: float) -> list[Cell]:
    solid = min(line.of_limit_share or 0.0, 1.0) * line.time_s / longest_s
    colour = TERMINAL_COLOURS[line.limit]
    bar = Bar([(solid, "█", colour), (line.time_s / longest_s - solid, "░", colour)])
    return [
        plain_text(line.title),
        line.time,
        line.percent,
        line.limit_word,
        _figure(line.of_limit_share, lambda _: line.of_limit),
        _figure(line.flop_per_s, lambda rate: format_amount(rate, "FLOP/s")),
        _figure(line.byte_per_s, lambda rate: format_amount(rate, "B/s")),
        bar,
    ]


def _figure(value: float | None, written: Callable[[float], str]) -> str:
    """A figure, or a dash where it is unknown."""
    return "-" if value is None else written(value)


def _told(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]]
) -> tuple[list[Column], list[list[Cell]]]:
    """The columns in which a row has something."""
    kept = [k for k in range(len(columns)) if any(row[k] != "-" for row in rows)]
    return [columns[k] for k in kept], [[row[k] for k in kept] for row in rows]


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
        .head(LINES)
    )
    out.print()
    if not groups.height:
        out.print(Text(f"No op has a source line: {_why_no_line(rows)}."))
        return
    lines = [
        (plain_text(source), format_seconds(time_s), format_seconds(gap_s))
        for source, time_s, gap_s in groups.iter_rows()
    ]
    out.print(fitted_table(LINE_COLUMNS, lines, out.width))


def _why_no_line(rows: pl.DataFrame) -> str:
    """What is known of why there are no lines: kernels are compiled ones, shapes are described."""
    if "kind" in rows.columns and (rows["kind"] == "kernel").any():
        return "in programs with compiled code only that code has lines"
    if "shape" not in rows.columns or rows["shape"].is_null().all():
        return "lines come from a step with shapes recorded, and none was"
    return "no call came from a file of the program"


def _print_end(
    report: Report, seen: Overview, out: Console, *, verbose: bool, page: Path | None
) -> None:
    """Notes where they were asked for, else how many there are, and where to go from here."""
    notes = _quiet_notes(report, seen, verbose=verbose)
    if verbose and notes:
        out.print()
        for note in notes:
            out.print(Text(f"Note: {plain_text(note)}"))
    many = "1 note" if len(notes) == 1 else f"{len(notes)} notes"
    parts = [
        "Why and how: timeroof explain FILE" if report.findings else "",
        f"Page: {plain_text(str(page))}" if page else "Page: --html FILE",
        f"{many}: -v" if notes and not verbose else "",
    ]
    out.print()
    out.print(Text("   ".join(part for part in parts if part), style="dim"))


def _quiet_notes(report: Report, seen: Overview, *, verbose: bool) -> list[Note]:
    """The notes that the warnings above do not say."""
    said = {doubt.text for doubt in (seen.doubts if verbose else seen.doubts[:DOUBTS])}
    return [note for note in report.notes if str(note) not in said]


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
