"""`timeroof compare A B`: what got faster or slower, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from timeroof.cli import options
from timeroof.cli.options import FolderTarget, JsonTarget, JudgingMachine, PageTarget, StepKindName


def compare(
    a: Annotated[Path, typer.Argument(help="The run before: .troof or a profiler's file.")],
    b: Annotated[Path, typer.Argument(help="The run after.")],
    machine: JudgingMachine = None,
    step_kind: StepKindName = None,
    json: JsonTarget = None,
    markdown: options.MarkdownTarget = None,
    html: PageTarget = None,
    output: Annotated[
        Path | None, options.picture_option("the combined chart with arrows (png, svg, pdf)")
    ] = None,
    out: FolderTarget = None,
) -> None:
    """Compare two runs kernel by kernel and split the difference by cause.

    The causes (work, launches, efficiency, machine, other) sum to the difference. Differences
    within the run-to-run noise do not count as changes. The chart draws changed kernels as arrows.

    Example: `timeroof compare before.troof after.troof --html compare.html`
    """
    from timeroof.api.reports import load
    from timeroof.cli.options import check_views, keep_inputs, write_views
    from timeroof.model.compare.compare import compare as compare_reports
    from timeroof.views.compare import print_comparison
    from timeroof.views.compare_page import comparison_outputs, folder_files, write_output

    files = check_views(html, output, out)
    keep_inputs((a, b, machine), (json, markdown, *files), out, folder_files("compare"))
    first, second = (load(run, machine=machine, step_kind=step_kind) for run in (a, b))
    result = compare_reports(first, second, (str(a), str(b)))
    outputs = comparison_outputs(result, first, second)
    write_views(outputs, files, json, out)
    if markdown is not None:
        write_output(outputs, markdown, kind="md")
    print_comparison(outputs.document, stderr=True)
