"""`timeroof compare A B`: what got faster or slower, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def compare(
    a: Annotated[Path, typer.Argument(help="The run before: .troof or a profiler's file.")],
    b: Annotated[Path, typer.Argument(help="The run after.")],
    machine: Annotated[
        str | None,
        typer.Option(help="Judge both on this machine: a catalogue name or a TOML file."),
    ] = None,
    json: Annotated[
        str | None,
        typer.Option(help="Write timeroof.compare/1 to a file, or to stdout with '-'."),
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write the comparison as Markdown to this file.")
    ] = None,
) -> None:
    """Compare two runs kernel by kernel and split the difference by cause.

    Work, launches, efficiency, machine, other: the parts sum to the difference. Changes within
    the noise of the samples are not called changes.

    Example: `timeroof compare before.troof after.troof`
    """
    import msgspec

    from timeroof.api import load
    from timeroof.cli.outputs import write_json
    from timeroof.core.writing import write_atomically
    from timeroof.model.compare import compare as compare_reports
    from timeroof.views.compare import markdown_comparison, print_comparison

    first, second = load(a, machine=machine), load(b, machine=machine)
    document = compare_reports(first, second, (str(a), str(b))).document()
    if json is not None:
        write_json(msgspec.json.encode(document), json)
    if markdown is not None:
        write_atomically(markdown, markdown_comparison(document).encode())
    print_comparison(document, stderr=True)
