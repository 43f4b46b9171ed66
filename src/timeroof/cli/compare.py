"""`timeroof compare A B`: what got faster or slower, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from timeroof.cli.options import (
    FolderTarget,
    JsonTarget,
    JudgingMachine,
    MarkdownTarget,
    PageTarget,
    picture_option,
)


def compare(
    a: Annotated[Path, typer.Argument(help="The run before: .troof or a profiler's file.")],
    b: Annotated[Path, typer.Argument(help="The run after.")],
    machine: JudgingMachine = None,
    json: JsonTarget = None,
    markdown: MarkdownTarget = None,
    html: PageTarget = None,
    output: Annotated[
        Path | None, picture_option("the combined chart with arrows (png, svg, pdf)")
    ] = None,
    out: FolderTarget = None,
) -> None:
    """Compare two runs kernel by kernel and split the difference by cause.

    Work, launches, efficiency, machine, other: the parts sum to the difference. Changes within
    the noise of the samples are not called changes. The chart shows the kernels that changed as
    arrows in the combined chart.

    Example: `timeroof compare before.troof after.troof --html compare.html`
    """
    import msgspec

    from timeroof.api.reports import load
    from timeroof.cli.outputs import check_folder, keep_inputs, write_json
    from timeroof.model.compare.compare import compare as compare_reports
    from timeroof.views.compare import print_comparison
    from timeroof.views.compare_page import (
        check_suffix,
        comparison_outputs,
        folder_files,
        write_folder,
        write_output,
    )

    files = [
        *([check_suffix(html, ("html",))] if html is not None else []),
        *([check_suffix(output)] if output is not None else []),
        *([markdown] if markdown is not None else []),
    ]
    if out is not None:
        check_folder(out)
    keep_inputs((a, b, machine), (json, *files), out, folder_files("compare"))
    first, second = load(a, machine=machine), load(b, machine=machine)
    result = compare_reports(first, second, (str(a), str(b)))
    outputs = comparison_outputs(result, first, second)
    if json is not None:
        write_json(msgspec.json.encode(outputs.document), json)
    for path in files:
        write_output(outputs, path, kind="md" if path is markdown else None)
    if out is not None:
        write_folder(outputs, out)
    print_comparison(outputs.document, stderr=True)
