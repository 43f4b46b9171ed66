"""A run in the terminal: the first screen of its page, in the same order and numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from rich.text import Text

from timeroof.core.units import format_amount, format_seconds
from timeroof.views.overview import Action, KernelLine, Overview, overview
from timeroof.views.palette import TERMINAL_COLOURS
from timeroof.views.parts import Part
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
    from rich.console import Console

    from timeroof.core.notes import Note
    from timeroof.core.report import Report

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
