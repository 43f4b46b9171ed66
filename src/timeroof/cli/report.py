"""`timeroof report`: saved runs and profiler files as pages, pictures and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from timeroof.cli.options import JudgingMachine


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN…", help="Saved runs (.troof) or files that `read` takes."),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="What to write; the suffix says how: html, png, svg, pdf, md, csv, parquet, json.",
        ),
    ],
    machine: JudgingMachine = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
) -> None:
    """Write one or several runs as a page, a picture or a table.

    Several runs come side by side, told apart by colour.

    Example: `timeroof report before.troof after.troof -o both.html`
    """
    from timeroof.api.reports import load
    from timeroof.cli.outputs import keep_inputs
    from timeroof.views.render import check_suffix, render
    from timeroof.views.terminal import console

    check_suffix(output)
    keep_inputs((*runs, machine), (output,))
    reports = [load(run, machine) for run in runs]
    render(reports[0], output, title=title, runs=reports)
    console(stderr=True).print(f"wrote {output}", soft_wrap=True, markup=False)
