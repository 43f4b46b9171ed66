"""Two runs side by side: the difference, its causes, the kernels that moved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from timeroof.core.columns import Row
from timeroof.core.errors import InputError
from timeroof.core.units import format_percent, format_seconds
from timeroof.views.pictures.charts import Move, arrow_chart
from timeroof.views.pictures.frame import Unit
from timeroof.views.pictures.of_report import chart_roofs
from timeroof.views.style import clip, markdown_text, plain_line
from timeroof.views.terminal import Column, console, fitted_table, plain_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from timeroof.core.report import Report
    from timeroof.model.compare.compare import Comparison

MOST_ROWS = 15
# Kernels that may explain a run that changed where none of them did by itself.
MOST_CANDIDATES = 5
NOTHING_MOVED = "No kernel changed by more than the noise."
UNLIKE = ", but they look like two different programs"
CANDIDATES = (
    "No single kernel changed by more than the noise. The largest differences, none of which the"
    " samples confirm by itself:"
)
# Columns of words, how narrow and how wide they may be on a terminal.
TEXTS = {"kernel": (16, 36), "where": (10, 28), "mainly": (10, 26), "differs": (8, 24)}
# Columns that a narrow terminal does without, the last of them first.
LEAVES = {"where": 1, "mainly": 2, "noise": 3, "differs": 4}
CAUSE_COLUMNS = (Column("", "prose"), Column("", "figure"))
WORK_WORDS = {"flops": "FLOPs", "bytes": "bytes", "launches": "launches"}
# From this ratio on a difference is told as one, below it as a percentage.
LEAST_RATIO = 1.1
# What a cause does to a run: faster, slower.
CHANGE_WORDS = {
    "work": ("less work", "more work"),
    "launches": ("fewer launches", "more launches"),
    "efficiency": ("more efficient kernels", "less efficient kernels"),
    "machine": ("a faster machine", "a slower machine"),
}
CAUSE_WORDS = {
    "work": "amount of work",
    "launches": "number of launches",
    "efficiency": "kernel efficiency",
    "machine": "other machine or cores",
    "other": "other or unknown",
}


def print_comparison(document: Row, *, stderr: bool = False) -> None:
    """A `timeroof.compare/1` document as tables."""
    out = console(stderr=stderr)
    out.print(Text(plain_text(f"{document['a']} → {document['b']}"), style="bold"))
    out.print(Text(headline(document), style="bold"))
    causes = [(CAUSE_WORDS[c], signed_seconds(s)) for c, s in main_causes(document).items()]
    out.print(fitted_table(CAUSE_COLUMNS, causes, out.width, indent=2))
    lead, rows = told_rows(document)
    if lead:
        out.print(lead)
    if rows:
        heads, lines = cells(rows[:MOST_ROWS], noise=bool(lead))
        plain = [[plain_text(text) for text in line] for line in lines]
        out.print(fitted_table([_column(head) for head in heads], plain, out.width))
    if len(rows) > MOST_ROWS:
        out.print(f"({len(rows) - MOST_ROWS} more rows)")
    for note in document["notes"]:
        out.print(Text(f"Note: {plain_text(note)}"))


def headline(document: Row) -> str:
    """The result in one line."""
    total, common = document["total"], document["in_common"]
    head = f"{format_seconds(total['a_s'])} → {format_seconds(total['b_s'])}"
    if total["delta_s"] is None:
        return f"{head}: inconclusive, {total['reason']}"
    is_same = common is None or common["same_program"]
    if not total["significant"]:
        why = f": {total['reason']}" if total.get("reason") else ""
        said = f"no significant change ({signed_seconds(total['delta_s'])}{why})"
        return f"{head}: {said}{'' if is_same else UNLIKE}"
    mostly = _mostly(document) if is_same else UNLIKE
    return f"{head}: {speed_words(total['a_s'], total['b_s'])}{mostly}"


def speed_words(a_s: float, b_s: float) -> str:
    """How much faster or slower the second run is; ratios from 10 % on.

    >>> speed_words(1.8, 1.0), speed_words(1.0, 61.2), speed_words(1.0, 1.04)
    ('1.8× faster', '61× slower', '4 % slower')
    """
    word = "slower" if b_s > a_s else "faster"
    short, long = sorted((a_s, b_s))
    if short <= 0:
        return word
    if long / short < LEAST_RATIO:
        return f"{format_percent(abs(b_s - a_s) / a_s)} {word}"
    ratio = long / short
    digits = f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2f}".rstrip("0").rstrip(".")
    return f"{digits}× {word}"


def _mostly(document: Row) -> str:
    """The cause that holds most of the difference."""
    delta_s = document["total"]["delta_s"]
    causes = main_causes(document)
    cause = max(causes, key=lambda c: causes[c] * (1 if delta_s > 0 else -1), default="other")
    if cause == "other" or causes[cause] * delta_s <= 0:
        return ""
    share = causes[cause] / delta_s
    word = "mostly" if share > 0.5 else "partly"
    return f", {word} {CHANGE_WORDS[cause][delta_s > 0]}"


def signed_seconds(value: float) -> str:
    """Seconds with their sign.

    >>> signed_seconds(0.002), signed_seconds(-0.5), signed_seconds(0.0)
    ('+2.00 ms', '-500 ms', '0 s')
    """
    return f"+{format_seconds(value)}" if value > 0 else format_seconds(value)


def main_causes(document: Row) -> dict[str, float]:
    """The causes that are worth a line: at least a thousandth of the longer run."""
    if document["total"]["delta_s"] is None:
        return {}
    least_s = 1e-3 * max(document["total"]["a_s"], document["total"]["b_s"])
    return {c: seconds for c, seconds in document["causes"].items() if abs(seconds) > least_s}


def main_cause(row: Row) -> str:
    """The cause that holds most of a row's difference, in its direction."""
    sign = 1 if row["delta_s"] > 0 else -1
    causes: Mapping[str, float] = row["causes"]
    return max(causes, key=lambda cause: sign * causes[cause])


def told_rows(document: Row) -> tuple[str, list[Row]]:
    """The rows that changed; without any a word, and the candidates where the run changed."""
    rows: list[Row] = document["rows"]
    moved = [row for row in rows if row["significant"]]
    if moved:
        return "", moved
    total = document["total"]
    if total["delta_s"] is None:
        return "", []
    same_way = [row for row in rows if row["delta_s"] * total["delta_s"] > 0]
    if not total["significant"] or not same_way:
        return NOTHING_MOVED, []
    return CANDIDATES, same_way[:MOST_CANDIDATES]


def cells(rows: Sequence[Row], *, noise: bool = False) -> tuple[list[str], list[list[str]]]:
    """Heads and texts of rows; what no row has (a layer, other work) is no column."""
    columns: dict[str, list[str]] = {
        "kernel": [row["name"] for row in rows],
        "where": [row.get("where") or "" for row in rows],
        "before": [format_seconds(row["a_s"]) for row in rows],
        "after": [format_seconds(row["b_s"]) for row in rows],
        "change": [signed_seconds(row["delta_s"]) for row in rows],
        "noise": [
            format_seconds(row["noise_s"]) if noise and row["spread_known"] else "" for row in rows
        ],
        "mainly": [CAUSE_WORDS[main_cause(row)] if row["delta_s"] else "" for row in rows],
        "differs": [", ".join(WORK_WORDS[k] for k in row.get("differs_in", ())) for row in rows],
    }
    shown = {head: texts for head, texts in columns.items() if head == "kernel" or any(texts)}
    return list(shown), [list(texts) for texts in zip(*shown.values(), strict=True)]


def _column(head: str) -> Column:
    """A column on a terminal; names go on in the next line, as the layer tells two rows apart."""
    leaves = LEAVES.get(head, 0)
    if head in TEXTS:
        return Column(head, "prose", *TEXTS[head], leaves=leaves)
    return Column(head, "figure", leaves=leaves)


def markdown_comparison(document: Row) -> str:
    """A comparison as Markdown, for pull requests."""
    lines = [f"**{headline(document)}**"]
    causes = [(CAUSE_WORDS[c], seconds) for c, seconds in main_causes(document).items()]
    if causes:
        lines += ["", "| cause | seconds |", "|---|---:|"]
        lines += [f"| {words} | {signed_seconds(seconds)} |" for words, seconds in causes]
    lead, rows = told_rows(document)
    if rows:
        lines += ["", lead] if lead else []
        lines += ["", *_markdown_table(*cells(rows[:MOST_ROWS], noise=bool(lead)))]
    lines += ["", *(markdown_text(note) for note in document["notes"])]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    marks = ["---" if head in TEXTS else "---:" for head in heads]
    return [
        f"| {' | '.join(heads)} |",
        f"|{'|'.join(marks)}|",
        *(f"| {' | '.join(markdown_text(text) for text in row)} |" for row in rows),
    ]


# The combined chart of two runs: matched kernels before and after, joined by arrows.


def comparison_figure(comparison: Comparison, a: Report, b: Report, *, title: str = "") -> Figure:
    """Arrows from A to B in the combined chart, on the first run's roofs.

    Kernels that changed significantly get arrows and numbers, the largest first; without any,
    the chart shows where the kernels are.
    """
    if comparison.delta_s is None:
        raise InputError(
            f"{comparison.reason}, so there is nothing to draw", advice="write html, md or json"
        )
    roofs = chart_roofs(a) or chart_roofs(b)
    if roofs is None:
        raise InputError(
            "neither run has a compute and a memory ceiling for a chart",
            advice="name a machine with --machine",
        )
    moves = [_move(row, roofs.level) for row in comparison.rows.iter_rows(named=True)]
    moves.sort(key=lambda m: (not m.arrow, -abs(m.after.time_s - m.before.time_s)))
    names = f"{Path(comparison.a).name} → {Path(comparison.b).name}"
    heading = clip(plain_line(title or names), 90)
    notes = [] if any(m.arrow for m in moves) else ["no kernel changed by more than the noise"]
    return arrow_chart(moves, roofs, title=heading, notes=notes)


def _move(row: Row, level: str) -> Move:
    text = f"{_named(row)}  {format_seconds(row['a_s'])} → {format_seconds(row['b_s'])}"
    before, after = (_unit(row, side, level) for side in "ab")
    return Move(before, after, text, arrow=bool(row["significant"]))


def _named(row: Row) -> str:
    """A kernel and its layer, which tells rows of one name apart, in the room of the key."""
    if not row["where"]:
        return clip(plain_line(row["name"]), 34)
    return f"{clip(plain_line(row['name']), 18)} {clip(plain_line(row['where']), 15)}"


def _unit(row: Row, side: str, level: str) -> Unit:
    """One side of a pair; what is not known is NaN and not drawn."""
    flops, moved, time_s = (row[f"{side}.{c}"] for c in ("flops", f"byte/{level}", "time_s"))
    known = math.nan if flops is None or moved is None else moved
    return Unit(row["name"], flops or 0.0, {level: known}, time_s or 0.0)
