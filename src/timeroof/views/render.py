"""A report as a file of any kind: the suffix of its name says which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from timeroof.core.errors import UsageError
from timeroof.core.writing import atomic_path, write_atomically

if TYPE_CHECKING:
    from timeroof.core.report import Report

PICTURES = ("png", "svg", "pdf")
SUFFIXES = ("html", *PICTURES, "md", "csv", "parquet", "json")


def render(
    report: Report, path: Path, *, title: str | None = None, runs: Sequence[Report] | None = None
) -> None:
    """Write a report, or several runs beside one another, whole or not at all.

    html is the page; png and svg the combined chart, pdf all four; md is for a pull
    request; csv and parquet are the judged rows; json is `timeroof.report/2`.
    """
    kind = check_suffix(path)
    reports = [report, *(r for r in runs or () if r is not report)]
    if kind in PICTURES:
        _write_pictures(reports, path, kind, title or "")
        return
    write_atomically(path, _WRITERS[kind](reports, title))


def check_suffix(path: Path) -> str:
    """The kind of file that a name asks for; an unknown one is refused before any work."""
    kind = path.suffix.lstrip(".").lower()
    if kind not in SUFFIXES:
        raise UsageError(
            f"{path.name!r} has no known suffix", advice=f"end the name in .{', .'.join(SUFFIXES)}"
        )
    return kind


def _html(reports: Sequence[Report], title: str | None) -> bytes:
    from timeroof.views.page.page import html_bytes

    return html_bytes(reports[0], title=title, runs=reports)


def _markdown(reports: Sequence[Report], title: str | None) -> bytes:
    from timeroof.views.page.page import page_title, run_names
    from timeroof.views.tables import report_markdown

    names = run_names(reports)
    return report_markdown(reports, names, title=title or page_title(reports, names)).encode()


def _csv(reports: Sequence[Report], title: str | None) -> bytes:
    from timeroof.views.page.page import run_names
    from timeroof.views.tables import runs_table, table_csv

    return table_csv(runs_table(reports, run_names(reports)))


def _parquet(reports: Sequence[Report], title: str | None) -> bytes:
    from timeroof.views.page.page import run_names
    from timeroof.views.tables import runs_table, table_parquet

    return table_parquet(runs_table(reports, run_names(reports)))


def _json(reports: Sequence[Report], title: str | None) -> bytes:
    if len(reports) > 1:
        raise UsageError("a JSON report holds one run", advice="write one file per run")
    return reports[0].to_json() + b"\n"


_WRITERS: dict[str, Callable[[Sequence[Report], str | None], bytes]] = {
    "html": _html,
    "md": _markdown,
    "csv": _csv,
    "parquet": _parquet,
    "json": _json,
}


def _write_pictures(reports: Sequence[Report], path: Path, kind: str, title: str) -> None:
    from timeroof.views.page.page import run_names
    from timeroof.views.pictures import save_figure
    from timeroof.views.pictures.of_report import CHARTS, report_figure

    names = run_names(reports)
    if kind != "pdf":
        save_figure(report_figure(reports, names=names, title=title), path)
        return
    from matplotlib.backends.backend_pdf import PdfPages

    from timeroof.views.pictures.frame import styled

    figures = [report_figure(reports, chart, names=names, title=title) for chart in CHARTS]
    # No date, so that the same numbers give the same file.
    with (
        atomic_path(path) as part,
        styled(),
        PdfPages(part, metadata={"CreationDate": None}) as pages,
    ):
        for figure in figures:
            pages.savefig(figure)
