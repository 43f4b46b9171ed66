"""The terminal: tables and summaries that fit 80 columns, plain where nobody looks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from timeroof.core import units
from timeroof.core.columns import Row
from timeroof.core.units import format_percent, format_rate, format_seconds
from timeroof.model.groups import kernel_groups
from timeroof.views.palette import LIMITER_WORDS, TERMINAL_COLOURS
from timeroof.views.plain import plain_text
from timeroof.views.terminal_table import Bar, Cell, Column, fitted_table

if TYPE_CHECKING:
    from timeroof.core.machine import Ceiling, Machine
    from timeroof.core.report import Finding, Report

__all__ = [
    "console", "plain_text", "print_findings", "print_gaps", "print_machine", "print_machines",
    "print_notes", "print_summary",
]  # fmt: skip

# Below this share of time with known amounts, sums say more about ignorance than about the run.
ENOUGH_KNOWN = 0.5
PIPE_WIDTH = 160
LIMITER_COLUMNS = (
    Column("", "whole"),
    Column("", "bar", least=8, most=30, leaves=1),
    Column("", "figure"),
    Column("", "figure"),
)
# A catalogue's names are what one types: they stay whole, titles give way.
CATALOGUE_COLUMNS = (
    Column("name", "whole"),
    Column("device", "name", least=12, leaves=3),
    Column("FP32", "figure", leaves=1),
    Column("16-bit matrix", "figure", leaves=2),
    Column("DRAM", "figure"),
)
CEILING_COLUMNS = (
    Column("resource", "name", least=16),
    Column("ceiling", "whole"),
    Column("origin", "whole", leaves=1),
    Column("source", "prose", least=16, most=10_000, leaves=2),
)


class _Console(Console):
    """Leaves it to the program what a reader who has gone means; rich would end it with 1."""

    def on_broken_pipe(self) -> None:
        """Nobody reads any more."""
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    """A console for stdout or stderr; rich leaves colour out by itself for pipes and NO_COLOR."""
    out = _Console(stderr=stderr, highlight=False, soft_wrap=False)
    if not out.is_terminal and "COLUMNS" not in os.environ:
        # A pipe has no edge: nothing need be cut.
        return _Console(stderr=stderr, highlight=False, width=PIPE_WIDTH)
    return out


def print_machines(machines: Sequence[Machine]) -> None:
    """One line per machine: best vector and matrix rate, bandwidth, launch."""
    out = console()
    rows = []
    for m in machines:
        half = m.rate("flop/fp16-tensor") or m.rate("flop/bf16-tensor")
        rates_of = [_rate(m.rate("flop/fp32"), "FLOP/s"), _rate(half, "FLOP/s")]
        names = [plain_text(m.name), plain_text(m.device)]
        rows.append([*names, *rates_of, _rate(m.rate("byte/dram"), "B/s")])
    out.print(fitted_table(CATALOGUE_COLUMNS, rows, out.width))
    many = f"{len(machines)} machines"
    out.print(f"\n{many}. `timeroof machine NAME` shows one with all its sources.")


def _rate(value: float | None, unit: str) -> str:
    return "-" if value is None else units.format_amount(value, unit)


def print_machine(machine: Machine) -> None:
    """Every ceiling of a machine with origin and source, and its memory."""
    out = console()
    out.print(Text(plain_text(f"{machine.name}: {machine.device}"), style="bold"))
    facts = [machine.vendor, machine.architecture, machine.compute_capability or "", machine.kind]
    queue = f"{machine.launching} launching"
    out.print(Text(plain_text(", ".join([*(f for f in facts if f), queue]))))
    rows = [cells for ceiling in _said_once(machine.ceilings) for cells in _ceiling(ceiling)]
    for level in machine.memory:
        size = units.format_bytes_binary(level.size_bytes)
        rows.append((f"{level.level} size", size, "", plain_text(level.source)))
        if level.latency_s is not None:
            latency = format_seconds(level.latency_s)
            rows.append((f"{level.level} latency", latency, "measured", ""))
    out.print(fitted_table(CEILING_COLUMNS, rows, out.width))
    if machine.device_names:
        names = ", ".join(plain_text(n) for n in machine.device_names)
        out.print(Text(f"Profilers print it as: {names}"))
    for note in machine.notes:
        out.print(Text(f"Note: {plain_text(note)}"))


def _ceiling(ceiling: Ceiling) -> list[tuple[str, str, str, str]]:
    """A ceiling's line, and one for each of its variants."""
    scope = "" if ceiling.scope == "all" else f" ({ceiling.scope})"
    source = plain_text(ceiling.source)
    rate = format_rate(ceiling.resource, ceiling.rate)
    variants = [
        (f"  {plain_text(name)}", format_rate(ceiling.resource, variant), "", "")
        for name, variant in ceiling.variants.items()
    ]
    return [(ceiling.resource + scope, rate, ceiling.origin, source), *variants]


def _said_once(ceilings: Sequence[Ceiling]) -> list[Ceiling]:
    """Ceilings without those of a socket that is the whole machine."""
    whole = {(c.resource, c.origin, c.rate, c.threads) for c in ceilings if c.scope == "all"}
    return [
        c for c in ceilings
        if c.scope != "socket" or (c.resource, c.origin, c.rate, c.threads) not in whole
    ]  # fmt: skip


def print_summary(report: Report, *, stderr: bool = True) -> None:
    """Time by limiter, efficiency, coverage: the report in a few lines.

    All seconds are those of a step without instruments, where there was one.
    """
    out = console(stderr=stderr)
    totals = report.totals
    if totals.ladder.measured_s is None:
        out.print("Nothing was timed: there are no seconds to account for.")
        return
    known = totals.known_time_share
    told = (
        f"bound {format_seconds(totals.bound_s)}, at most"
        f" {format_seconds(totals.recoverable_s)} recoverable; efficiency"
        f" {format_percent(totals.efficiency)}"
    )
    if known is None or known < ENOUGH_KNOWN:
        told = "too little is known for a bound of the whole"
    measured = (format_seconds(totals.ladder.measured_s), "bold")
    share = f"amounts known for {format_percent(known)} of the time"
    out.print(Text.assemble(measured, f" measured, {told}, {share}"))
    idle_s, by_cause = totals.idle_s, totals.idle_by_cause
    if idle_s is not None and idle_s > 0:
        causes = sorted(by_cause.items(), key=lambda item: -item[1])
        words = ", ".join(f"{plain_text(c)} {format_seconds(s)}" for c, s in causes if s > 0)
        out.print(Text(f"  idle     {format_seconds(idle_s)}" + (f": {words}" if words else "")))
    whole = sum(totals.by_limiter.values()) or 1.0
    bars = [
        (LIMITER_WORDS[k], Bar([(s / whole, "█", TERMINAL_COLOURS[k])]), format_seconds(s),
         format_percent(s / whole))
        for k, s in totals.by_limiter.items() if s > 0
    ]  # fmt: skip
    if bars:
        out.print(fitted_table(LIMITER_COLUMNS, bars, out.width, indent=2))
    _print_above_roof(out, report)


def _print_above_roof(out: Console, report: Report) -> None:
    """Rows that beat a roof: a bound of the whole that contains them is no bound."""
    verdicts = report.verdicts.table
    above = verdicts.filter(verdicts["above_roof"].is_not_null())
    if not above.height:
        return
    worst = above.sort("kernel_efficiency", descending=True, nulls_last=True).row(0, named=True)
    names = dict(report.profile.kernels.select("id", "short_name").iter_rows())
    share = worst["kernel_efficiency"]
    at = "" if share is None else f" at {format_percent(share)} of it"
    rows = "1 row is" if above.height == 1 else f"{above.height} rows are"
    out.print(
        Text.assemble(
            (f"{rows} above the roof", "yellow"),
            f", most {plain_text(names[worst['id']])[:60]}{at} ({worst['above_roof']});"
            " `timeroof explain` says more",
        )
    )


def print_findings(findings: Iterable[Finding], *, stderr: bool = True) -> None:
    """Findings in words."""
    out = console(stderr=stderr)
    for finding in findings:
        out.print(f"\n[bold]{escape(plain_text(finding.title))}[/bold]")
        out.print(Text(plain_text(finding.why)))
        if finding.action:
            out.print(Text(f"Do: {plain_text(finding.action)}"))


def print_notes(notes: Iterable[str], *, stderr: bool = True) -> None:
    """Notes, one a line."""
    out = console(stderr=stderr)
    for note in notes:
        out.print(Text(f"Note: {plain_text(note)}"))


# The largest kernels, whatever is known of them, and the first findings.

ROWS = 5
FINDINGS = 3
COLUMNS = (
    Column("largest kernels", "name"),
    Column("time", "figure"),
    Column("idle before", "figure", leaves=4),
    Column("FLOP/s", "figure", leaves=2),
    Column("DRAM B/s", "figure", leaves=2),
    Column("bound by", "whole", leaves=1),
    Column("of its bound", "figure", leaves=3),
    Column("gap", "figure", leaves=1),
    Column("bound in time", "bar", least=13, most=20, leaves=5),
)


def print_gaps(report: Report, *, stderr: bool = True) -> None:
    """The largest kernels with what they achieve and what bounds them, then the first findings."""
    groups = kernel_groups(report.rows).head(ROWS)
    out = console(stderr=stderr)
    if groups.height:
        longest = float(groups["time_s"].max() or 0.0) or 1.0  # type: ignore[arg-type]
        lines = [_cells(row, longest) for row in groups.iter_rows(named=True)]
        out.print(fitted_table(_told(COLUMNS, lines), _told_cells(lines), out.width))
    _print_findings(report, out)


def _cells(row: Row, longest_s: float) -> list[Cell]:
    bound = min(row["bound_s"] or 0.0, row["time_s"]) / longest_s if row["gap_s"] else 0.0
    bar = Bar([(bound, "█", ""), (row["time_s"] / longest_s - bound, "░", "")])
    return [
        plain_text(_title(row)),
        format_seconds(row["time_s"]),
        _figure(row["idle_before_s"], format_seconds),
        _figure(row["achieved_flop_per_s"], lambda rate: units.format_amount(rate, "FLOP/s")),
        _figure(row["achieved_byte_per_s"], lambda rate: units.format_amount(rate, "B/s")),
        LIMITER_WORDS[row["limit"]],
        _figure(row["kernel_efficiency"], format_percent),
        _figure(row["gap_s"], format_seconds),
        bar,
    ]


def _figure(value: float | None, written: Callable[[float], str]) -> str:
    """A figure, or a dash where it is unknown."""
    return "-" if value is None else written(value)


def _is_told(cells: Sequence[Cell]) -> bool:
    return any(cell != "-" for cell in cells)


def _told(columns: Sequence[Column], lines: Sequence[Sequence[Cell]]) -> list[Column]:
    """The columns in which a line has something."""
    cells = list(zip(*lines, strict=True))
    return [c for c, of_column in zip(columns, cells, strict=True) if _is_told(of_column)]


def _told_cells(lines: Sequence[Sequence[Cell]]) -> list[list[Cell]]:
    cells = [of_column for of_column in zip(*lines, strict=True) if _is_told(of_column)]
    return [list(line) for line in zip(*cells, strict=True)]


def _title(row: Row) -> str:
    op = (row["op"] or "").removeprefix("aten::")
    name = row["short_name"] or ""
    return name if not op or op in name else f"{name} ({op})"


def _print_findings(report: Report, out: Console) -> None:
    gains = [f for f in report.findings if f.gain_s]
    measured = report.totals.ladder.measured_s
    for finding in gains[:FINDINGS]:
        share = format_percent(finding.gain_s / measured) if finding.gain_s and measured else ""
        title, gain = plain_text(finding.title), format_seconds(finding.gain_s)
        out.print(Text(f"{finding.code} {title}: at most {gain} ({share})"))
    if gains:
        out.print(Text("`timeroof explain` says why and what to do."))
