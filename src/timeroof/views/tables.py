"""Tables for other programs: the judged rows as CSV and Parquet."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from timeroof.core.resources import limiter_kind
from timeroof.core.units import format_percent, format_seconds
from timeroof.views.clean import clean_table, clean_words
from timeroof.views.page.headline import (
    LIMITER_WORDS,
    cards,
    ladder,
    limiter_parts,
    verdict_sentence,
)
from timeroof.views.page.text import clip, plain_line

if TYPE_CHECKING:
    from timeroof.core.report import Report


def runs_table(reports: Sequence[Report], names: Sequence[str]) -> pl.DataFrame:
    """The judged rows of one run, or of several under one another with the run's name first."""
    tables = [report.rows.drop("samples") for report in reports]
    if len(tables) == 1:
        return tables[0]
    named = [
        table.select(pl.lit(name).alias("run"), pl.all())
        for table, name in zip(tables, names, strict=True)
    ]
    return pl.concat(named, how="diagonal")


def csv_bytes(rows: pl.DataFrame) -> bytes:
    """A report's rows as CSV, lists left out; columns that say nothing are left out."""
    return table_csv(rows.drop("samples"))


def table_csv(table: pl.DataFrame) -> bytes:
    """A table as CSV; columns that say nothing are left out."""
    said = [c for c in table.columns if table[c].null_count() < table.height]
    buffer = io.BytesIO()
    table.select(said or table.columns).write_csv(buffer)
    return buffer.getvalue()


def table_parquet(table: pl.DataFrame) -> bytes:
    """A table as Parquet, with every column and its type."""
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    return buffer.getvalue()


# A report as Markdown for a pull request: the headline, the largest gaps, the findings.


TOP = 10
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|!~$])")


def report_markdown(
    reports: Sequence[Report], names: Sequence[str], *, title: str = "timeroof"
) -> str:
    """The reports one after another; short enough to read in a comment."""
    lines = [f"# {prose(title)}", ""]
    for report, name in zip(reports, names, strict=True):
        if len(reports) > 1:
            lines += [f"## {prose(name)}", ""]
        lines += _headline(report) + _limits(report) + _gaps(report) + _findings(report)
        lines += _notes(report)
    return "\n".join(lines).rstrip() + "\n"


def prose(text: str, limit: int = 2_000) -> str:
    """Text from a file that stays text: no markup, no mention of anybody.

    >>> prose("<b>*x* @someone")
    '\\\\<b\\\\>\\\\*x\\\\* @<!-- -->someone'
    """
    escaped = _MARKUP.sub(r"\\\1", plain_line(clip(text, limit)))
    return escaped.replace("@", "@<!-- -->")


def code(text: str, limit: int = 80) -> str:
    """A name as a code span that no name can leave, also inside a table.

    >>> code("f<T>|x"), code("a`b")
    ('`f<T>\\\\|x`', '``a`b``')
    """
    name = plain_line(clip(text, limit)).strip().replace("|", "\\|") or " "
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", name)), default=0))
    pad = " " if name.startswith("`") or name.endswith("`") else ""
    return f"{fence}{pad}{name}{pad}{fence}"


def _headline(report: Report) -> list[str]:
    machine = f" on {prose(report.machine.device)}" if report.machine else ""
    facts = " · ".join(f"{card.label} **{card.text}**" for card in cards(report))
    return [f"{facts}{machine}", "", verdict_sentence(report), ""]


def _limits(report: Report) -> list[str]:
    parts = [
        f"| {part.label} | {part.text} | {part.percent} | {'█' * round(20 * part.share)} |"
        for part in limiter_parts(report.totals)
    ]
    lines = ["| bound by | time | share | |", "|---|---:|---:|---|", *parts, ""] if parts else []
    rungs = [f"{r.label.lower()} {r.text}" for r in ladder(report) if r.seconds is not None]
    words = clean_words(report)
    lines += [words, ""] if words else []
    return [*lines, f"Ladder: {' → '.join(rungs)}", ""] if rungs else lines


def _gaps(report: Report) -> list[str]:
    rows = clean_table(report).filter(pl.col("gap_s") > 0).sort("gap_s", descending=True).head(TOP)
    if not rows.height:
        return []
    lines = [
        "| largest gaps | time | bound | limiter | gap | efficiency |",
        "|---|---:|---:|---|---:|---:|",
    ]
    for row in rows.iter_rows(named=True):
        kind = limiter_kind(row["limiter"])
        lines.append(
            f"| {code(row['short_name'])} | {format_seconds(row['time_s'])}"
            f" | {format_seconds(row['bound_s'])} | {LIMITER_WORDS[kind]}"
            f" | {format_seconds(row['gap_s'])} | {format_percent(row['efficiency'])} |"
        )
    return [*lines, ""]


def _findings(report: Report) -> list[str]:
    lines: list[str] = []
    for finding in report.findings:
        gain = "" if finding.gain_s is None else f" (up to {format_seconds(finding.gain_s)})"
        lines.append(f"- **{prose(finding.title, 300)}**{gain}: {prose(finding.why)}")
        if finding.action:
            lines.append(f"  *Do:* {prose(finding.action)}")
    return [*lines, ""] if lines else []


def _notes(report: Report) -> list[str]:
    if not report.notes:
        return []
    notes = [f"- {prose(note)}" for note in report.notes]
    return ["<details><summary>Notes</summary>", "", *notes, "", "</details>", ""]
