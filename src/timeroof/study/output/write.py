"""The folder that a study leaves: a page to open, the interactive report, rows and JSON."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from timeroof.api.reports import save
from timeroof.core.writing import write_atomically
from timeroof.study.factors import conclusions
from timeroof.study.output.build import (
    Advance,
    conclusion_parts,
    failure_lines,
    kernel_parts,
    roof_table,
)
from timeroof.study.output.overlay import overlay_of
from timeroof.study.output.page import StudyPage, study_page
from timeroof.study.report import busy_sentence
from timeroof.views.page.text import plain_line
from timeroof.views.pictures import save_figure
from timeroof.views.tables import csv_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from timeroof.core.report import Report
    from timeroof.study.report import Study

LINKS = [
    ("report.html", "interactive report"),
    ("rows.csv", "rows (CSV)"),
    ("study.json", "report with conclusions (JSON)"),
    ("study.troof", "saved run"),
]


def silent(_: str) -> None:
    """Progress that nobody watches."""


def write_study(
    study: Study,
    folder: Path,
    *,
    overlay: Report | None = None,
    pictures: str | None = None,
    advance: Advance = silent,
) -> Path:
    """Write a study's folder and return its page.

    `overlay` is a report of another machine, such as the paper's, to lay beside; `pictures` is
    a suffix (svg, png or pdf) to write every chart as a file too; `advance` hears what was drawn.
    """
    beside = overlay_of(overlay) if overlay else None
    drawn: list[tuple[str, Figure]] = []

    def keep(name: str, figure: Figure) -> None:
        if pictures:
            drawn.append((name, figure))

    found = conclusions(study.rows, study.machine)
    report = study.report
    if not report.findings:
        report = replace(report, findings=tuple(c.finding() for c in found))
    # Data first: a folder that cannot be written says so before anything is drawn.
    _write_data(folder, report)
    heads, roofs = roof_table(study.rows, study.machine, beside)
    warning = busy_sentence(study.rows)
    page = StudyPage(
        title=_title(study),
        subtitle=_subtitle(study),
        conclusions=conclusion_parts(found, keep, advance),
        kernels=kernel_parts(study.rows, study.machine, beside, keep, advance),
        roofs=roofs,
        roof_heads=heads,
        failures=failure_lines(study.failures),
        notes=[*(n for n in report.notes if n != warning), *_overlay_notes(overlay)],
        links=LINKS,
        warning=f"{warning[:1].upper()}{warning[1:]}." if warning else "",
    )
    for name, figure in drawn:
        save_figure(figure, folder / "pictures" / f"{_file_name(name)}.{pictures}")
    path = folder / "index.html"
    write_atomically(path, study_page(page).encode())
    return path


def _write_data(folder: Path, report: Report) -> None:
    """What the page links to."""
    write_atomically(folder / "rows.csv", csv_bytes(report.rows))
    save(report, folder / "study.json")
    save(report, folder / "study.troof")
    save(report, folder / "report.html")


def _file_name(name: str) -> str:
    """A name that is one on every system.

    >>> _file_name("conv2d_forward_2_../batch")
    'conv2d_forward_2_---batch'
    """
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in name)


def _title(study: Study) -> str:
    names = ", ".join(study.kernels[:4]) + ("…" if len(study.kernels) > 4 else "")
    where = study.machine.device if study.machine else "no machine"
    return plain_line(f"Study of {names or 'no kernel'} on {where}")


def _subtitle(study: Study) -> str:
    report = study.report
    missed = f", {len(study.failures)} not measured" if study.failures else ""
    return (
        f"{study.rows.height} cases{missed}; made by timeroof {report.version}, {report.created}."
        " Times are medians; spread is the middle half of the samples over the median."
    )


def _overlay_notes(overlay: Report | None) -> list[str]:
    if overlay is None or overlay.machine is None:
        return []
    return [
        f"Rows in italics and thin black symbols are {overlay.machine.device}: other hardware,"
        " other software, another year. Their bounds and shares are those of their own roofs.",
        *overlay.notes,
    ]
