"""`timeroof report`: saved runs and profiler files as pages, pictures and tables."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from timeroof.cli.options import JudgingMachine, StepKindName


class PictureWidth(StrEnum):
    """Columns of a paper."""

    SINGLE = "single"
    DOUBLE = "double"


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
    step_kind: StepKindName = None,
    title: Annotated[str | None, typer.Option(help="Title of the page or picture.")] = None,
    width: Annotated[
        PictureWidth | None,
        typer.Option(help="Width of a picture: one or two columns of a paper. [default: double]"),
    ] = None,
    annotate: Annotated[
        bool, typer.Option("--annotate", help="Explain a picture on its slowest kernel.")
    ] = False,
) -> None:
    """Write one or several runs as a page, a picture or a table.

    Several runs come side by side, each in its own colour.

    Example: `timeroof report before.troof after.troof -o both.html`,
    `timeroof report run.troof -o figure.pdf --annotate --width single`
    """
    from timeroof.api.reports import load
    from timeroof.cli.options import keep_inputs
    from timeroof.core.errors import UsageError
    from timeroof.views.render import PICTURES, check_suffix, render
    from timeroof.views.terminal import console

    if check_suffix(output) not in PICTURES and (annotate or width):
        raise UsageError(
            "--annotate and --width are for pictures",
            advice=f"end the output's name in .{', .'.join(PICTURES)}",
        )
    keep_inputs((*runs, machine), (output,))
    reports = [load(run, machine, step_kind=step_kind) for run in runs]
    render(
        reports[0], output, title=title, runs=reports,
        width=(width or PictureWidth.DOUBLE).value, annotate=annotate,
    )  # fmt: skip
    console(stderr=True).print(f"wrote {output}", soft_wrap=True, markup=False)
