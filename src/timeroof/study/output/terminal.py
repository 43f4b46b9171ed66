"""The lines that a study ends with in the terminal: the page's own."""

from __future__ import annotations

from timeroof.study.output.utilisation import print_utilisation, utilisation_table
from timeroof.study.report import Study
from timeroof.study.standing import summary_lines
from timeroof.views.terminal import console


def print_study(study: Study, page: str | None) -> None:
    """One line each: the machine, the paper's kernels, the factors, what to trust, the page."""
    from rich.text import Text

    report = study.report
    table = utilisation_table(study.rows)
    if table is not None:
        print_utilisation(table)
    lines = summary_lines(study.rows, report.machine, report.findings, page)
    width = 2 + max(len(name) for name, _ in lines)
    out = console(stderr=True)
    for name, words in lines:
        out.print(Text(f"{name:{width}}", style="bold") + Text(words), soft_wrap=True)
