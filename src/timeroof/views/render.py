"""A report as a file of any kind: the suffix of its name says which."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from timeroof.core.errors import UsageError
from timeroof.core.files import atomic_path, write_atomically
from timeroof.core.shapes import shape_texts
from timeroof.core.units import format_seconds
from timeroof.views.overview import Overview, overview
from timeroof.views.page.payload import ordered_findings
from timeroof.views.parts import ladder, seconds_words
from timeroof.views.style import clip, markdown_text, plain_line

if TYPE_CHECKING:
    from timeroof.core.report import Report

# Tables for other programs: the judged rows as CSV and Parquet.

# What a spreadsheet takes for a formula, and what our mark would be taken for; `read.tidy` takes
# one mark off.
FORMULA = r"^'*[=+\-@\t\r]"


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
    if "shape" in table.columns:
        table = table.with_columns(shape_texts(table["shape"]))
    # A spreadsheet would run a name such as `=cmd|…`: it gets the mark that makes it a text.
    text = pl.col(pl.String)
    table = table.with_columns(
        pl.when(text.str.contains(FORMULA)).then("'" + text).otherwise(text).name.keep()
    )
    said = [c for c in table.columns if table[c].null_count() < table.height]
    buffer = io.BytesIO()
    table.select(said or table.columns).write_csv(buffer)
    return buffer.getvalue()


def table_parquet(table: pl.DataFrame) -> bytes:
    """A table as Parquet, with every column and its type."""
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    return buffer.getvalue()


# A report as Markdown for a pull request: the first screen of its page, then all findings.

BAR = 20


def report_markdown(
    reports: Sequence[Report], names: Sequence[str], *, title: str = "timeroof"
) -> str:
    """The reports one after another; short enough to read in a comment."""
    lines = [f"# {markdown_text(title)}", ""]
    for report, name in zip(reports, names, strict=True):
        if len(reports) > 1:
            lines += [f"## {markdown_text(name)}", ""]
        seen = overview(report)
        lines += [*_doubts(seen), *_head(seen, report), *_parts(seen), *_actions(seen)]
        lines += [*_kernels(seen), *_findings(report), *_notes(report)]
    return "\n".join(lines).rstrip() + "\n"


def code(text: str, limit: int = 80) -> str:
    """A name as a code span that no name can leave, also inside a table.

    >>> code("f<T>|x"), code("a`b")
    ('`f<T>\\\\|x`', '``a`b``')
    """
    name = plain_line(clip(text, limit)).strip().replace("|", "\\|") or " "
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", name)), default=0))
    pad = " " if name.startswith("`") or name.endswith("`") else ""
    return f"{fence}{pad}{name}{pad}{fence}"


def _doubts(seen: Overview) -> list[str]:
    lines = [f"> **Warning:** {markdown_text(f'{d.text} {d.advice}'.strip())}" for d in seen.doubts]
    return ["\n>\n".join(lines), ""] if lines else []


def _head(seen: Overview, report: Report) -> list[str]:
    facts = [f"**{seen.time}** {seen.time_label.lower()}", *filter(None, [seen.potential])]
    lines = [f"**{markdown_text(seen.sentence)}**", "", " · ".join(facts), ""]
    lines += [markdown_text(seen.account), ""] if seen.account else []
    rungs = [f"{rung.label.lower()} {rung.text}" for rung in ladder(report)]
    words = seconds_words(report)
    lines += [f"How fast could it be? {' → '.join(rungs)}.", ""] if len(rungs) > 2 else []
    return [*lines, words, ""] if words else lines


def _parts(seen: Overview) -> list[str]:
    if not seen.parts:
        return []
    lines = ["| where the time goes | time | share | | |", "|---|---:|---:|---|---|"]
    lines += [
        f"| {part.label} | {part.text} | {part.percent} | {'█' * round(BAR * part.share)}"
        f" | {markdown_text(part.detail)} |"
        for part in seen.parts
    ]
    return [*lines, ""]


def _actions(seen: Overview) -> list[str]:
    lines = [
        f"{action.place}. **{markdown_text(action.title, 300)}**: up to {action.gain}"
        f" ({action.percent}). {markdown_text(action.how, 300)}".rstrip()
        for action in seen.actions
    ]
    return ["**Do first**", "", *lines, ""] if lines else []


def _kernels(seen: Overview) -> list[str]:
    if not seen.kernels:
        return []
    lines = [
        f"| largest {seen.things} | time | share | limit | of its limit |",
        "|---|---:|---:|---|---:|",
    ]
    lines += [
        f"| {code(line.title)} | {line.time} | {line.percent} | {line.limit_word}"
        f" | {line.of_limit} |"
        for line in seen.kernels
    ]
    return [*lines, "", *([seen.overlap, ""] if seen.overlap else [])]


def _findings(report: Report) -> list[str]:
    lines: list[str] = []
    for finding in ordered_findings(report):
        gain = "" if not finding.gain_s else f" (up to {format_seconds(finding.gain_s)})"
        title, why = markdown_text(finding.title, 300), markdown_text(finding.why)
        lines.append(f"- **{title}**{gain}: {why}")
        if finding.action:
            lines.append(f"  *Do:* {markdown_text(finding.action)}")
    if not lines:
        return []
    return ["<details><summary>Why and how</summary>", "", *lines, "", "</details>", ""]


def _notes(report: Report) -> list[str]:
    if not report.notes:
        return []
    notes = [f"- {markdown_text(note)}" for note in report.notes]
    return ["<details><summary>Notes</summary>", "", *notes, "", "</details>", ""]


PICTURES = ("png", "svg", "pdf")
SUFFIXES = ("html", *PICTURES, "md", "csv", "parquet", "json")


def render(
    report: Report, path: Path, *, title: str | None = None, runs: Sequence[Report] | None = None,
    width: str = "double", annotate: bool = False,
) -> None:  # fmt: skip
    """Write a report, or several runs beside one another, whole or not at all.

    html is the page; png and svg the combined chart, pdf all four; md is for a pull
    request; csv and parquet are the judged rows; json is `timeroof.report/2`. `width` (single or
    double column) and `annotate` are for pictures.
    """
    kind = check_suffix(path)
    reports = [report, *(r for r in runs or () if r is not report)]
    if kind in PICTURES:
        _write_pictures(reports, path, kind, title=title or "", width=width, annotate=annotate)
        return
    write_atomically(path, _text(reports, kind, title))


def check_suffix(path: Path, allowed: Sequence[str] = SUFFIXES) -> str:
    """The kind of file that a name asks for; an unknown one is refused before any work."""
    kind = path.suffix.lstrip(".").lower()
    if kind not in allowed:
        raise UsageError(
            f"{path.name!r} has no known suffix", advice=f"end the name in .{', .'.join(allowed)}"
        )
    return kind


def _text(reports: Sequence[Report], kind: str, title: str | None) -> bytes:
    from timeroof.views.page.page import html_bytes, page_title, run_names

    if kind == "html":
        return html_bytes(reports[0], title=title, runs=reports)
    if kind == "json":
        if len(reports) > 1:
            raise UsageError("a JSON report holds one run", advice="write one file per run")
        return reports[0].to_json() + b"\n"
    names = run_names(reports)
    if kind == "md":
        return report_markdown(reports, names, title=title or page_title(reports, names)).encode()
    table = runs_table(reports, names)
    return table_csv(table) if kind == "csv" else table_parquet(table)


def _write_pictures(
    reports: Sequence[Report], path: Path, kind: str, *, title: str, width: str, annotate: bool
) -> None:
    from timeroof.views.page.page import run_names
    from timeroof.views.pictures.frame import save_figure, styled
    from timeroof.views.pictures.of_report import CHARTS, report_figure

    names = run_names(reports)
    if kind != "pdf":
        figure = report_figure(reports, names=names, title=title, width=width, annotate=annotate)
        save_figure(figure, path)
        return
    from matplotlib.backends.backend_pdf import PdfPages

    figures = [
        report_figure(reports, chart, names=names, title=title, width=width, annotate=annotate)
        for chart in CHARTS
    ]
    # No date, so that the same numbers give the same file.
    undated = {"CreationDate": None}
    with atomic_path(path) as part, styled(), PdfPages(part, metadata=undated) as pages:
        for figure in figures:
            pages.savefig(figure)
