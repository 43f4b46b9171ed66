"""Two runs side by side: the difference, its causes, the kernels that moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from timeroof.units import format_percent, format_seconds
from timeroof.views.explain import markdown_text
from timeroof.views.terminal import console, plain_text

MOST_ROWS = 15
CAUSE_WORDS = {
    "work": "amount of work",
    "launches": "number of launches",
    "efficiency": "efficiency of the kernels",
    "machine": "other machine",
    "other": "other or unknown",
}


def print_comparison(document: Mapping[str, Any], *, stderr: bool = False) -> None:
    """A `timeroof.compare/1` document as tables."""
    out = console(stderr=stderr)
    out.print(Text(headline(document), style="bold"))
    causes = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for cause, seconds in main_causes(document).items():
        causes.add_row(f"  {CAUSE_WORDS[cause]}", signed_seconds(seconds))
    out.print(causes)
    moved = [row for row in document["rows"] if row["significant"]]
    if moved:
        out.print(_rows(moved))
    else:
        out.print("No kernel changed by more than the noise.")
    for note in document["notes"]:
        out.print(Text(f"Note: {plain_text(note)}"))


def headline(document: Mapping[str, Any]) -> str:
    """The result in one line."""
    total = document["total"]
    share = total["delta_s"] / total["a_s"] if total["a_s"] else None
    word = "slower" if total["delta_s"] > 0 else "faster"
    head = f"{format_seconds(total['a_s'])} → {format_seconds(total['b_s'])}"
    if not total["significant"]:
        return f"{head}: no significant change ({signed_seconds(total['delta_s'])})"
    size = format_percent(abs(share)) if share is not None else "?"
    return f"{head}: {size} {word} ({signed_seconds(total['delta_s'])})"


def signed_seconds(value: float) -> str:
    """Seconds with their sign.

    >>> signed_seconds(0.002), signed_seconds(-0.5), signed_seconds(0.0)
    ('+2.00 ms', '-500 ms', '0 s')
    """
    return f"+{format_seconds(value)}" if value > 0 else format_seconds(value)


def main_causes(document: Mapping[str, Any]) -> dict[str, float]:
    """The causes that are worth a line: at least a thousandth of the longer run."""
    least_s = 1e-3 * max(document["total"]["a_s"], document["total"]["b_s"])
    return {c: seconds for c, seconds in document["causes"].items() if abs(seconds) > least_s}


def main_cause(row: Mapping[str, Any]) -> str:
    """The cause that holds most of a row's difference, in its direction."""
    sign = 1 if row["delta_s"] > 0 else -1
    causes: Mapping[str, float] = row["causes"]
    return max(causes, key=lambda cause: sign * causes[cause])


def _rows(rows: list[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("kernel", no_wrap=True, overflow="ellipsis", max_width=36)
    for column in ("before", "after", "change"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("mainly", no_wrap=True)
    names = told_apart(rows)
    for name, row in list(zip(names, rows, strict=True))[:MOST_ROWS]:
        table.add_row(
            Text(plain_text(name)),
            format_seconds(row["a_s"]),
            format_seconds(row["b_s"]),
            signed_seconds(row["delta_s"]),
            CAUSE_WORDS[main_cause(row)],
        )
    if len(rows) > MOST_ROWS:
        table.add_row(Text(f"({len(rows) - MOST_ROWS} more rows)"), "", "", "", "")
    return table


def told_apart(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of rows; those that several rows have are followed by module or shape."""
    counts = Counter(row["name"] for row in rows)
    return [
        f"{row['name']} {row['where']}"
        if counts[row["name"]] > 1 and row.get("where")
        else row["name"]
        for row in rows
    ]


def markdown_comparison(document: Mapping[str, Any]) -> str:
    """A comparison as Markdown, for pull requests."""
    lines = [f"**{headline(document)}**"]
    causes = [(CAUSE_WORDS[c], seconds) for c, seconds in main_causes(document).items()]
    if causes:
        lines += ["", "| cause | seconds |", "|---|---:|"]
        lines += [f"| {words} | {signed_seconds(seconds)} |" for words, seconds in causes]
    moved = [row for row in document["rows"] if row["significant"]][:MOST_ROWS]
    if moved:
        lines += ["", "| kernel | before | after | change | mainly |", "|---|---:|---:|---:|---|"]
        lines += [
            f"| {markdown_text(name)} | {format_seconds(row['a_s'])} |"
            f" {format_seconds(row['b_s'])} | {signed_seconds(row['delta_s'])} |"
            f" {CAUSE_WORDS[main_cause(row)]} |"
            for name, row in zip(told_apart(moved), moved, strict=True)
        ]
    lines += ["", *(markdown_text(note) for note in document["notes"])]
    return "\n".join(lines).rstrip() + "\n"
