"""`timeroof whatif RUN`: the same work on other machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def whatif(
    run: Annotated[Path, typer.Argument(help="A saved run (.troof) or a profiler's file.")],
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MACHINE]…", help="Further machines.", show_default=False),
    ] = None,
    machine: Annotated[
        list[str] | None,
        typer.Option(
            help="A machine to predict for; more may follow. [default: the one it ran on]"
        ),
    ] = None,
    ran_on: Annotated[
        str | None,
        typer.Option("--from", help="The machine it ran on, where RUN does not say."),
    ] = None,
    scale: Annotated[
        list[str] | None,
        typer.Option(help="More or less work: batch=4, launches=0.5 or work=2; may be repeated."),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(help="Leave out launch, idle, fault or link; may be repeated."),
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="Contractions in another precision: bf16, fp16, fp8, tf32.")
    ] = None,
    json: Annotated[
        str | None,
        typer.Option(help="Write timeroof.whatif/1 to a file, or to stdout with '-'."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with the charts and all kernels.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write by suffix: the machines as bars (png, svg; pdf has all charts), html, md,"
            " json.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write page, charts, Markdown and JSON to this folder.")
    ] = None,
) -> None:
    """Predict the run on other machines, at another batch size or precision.

    Bounds are exact for the counted work. The predicted time is a model: every kernel keeps
    today's efficiency, rows that launching limits follow the cost of a launch; the interval says
    how far that may be off.

    Example: `timeroof whatif run.troof --machine h100-sxm a100-sxm4-80gb --html whatif.html`
    """
    import msgspec

    from timeroof.api import load, scope_for
    from timeroof.api import machine as find
    from timeroof.cli.outputs import check_folder, write_json
    from timeroof.model.project import Change
    from timeroof.model.project_document import what_if
    from timeroof.views.compare_files import check_suffix, write_folder, write_output
    from timeroof.views.compare_outputs import whatif_outputs
    from timeroof.views.whatif import print_whatif

    files = [
        *([check_suffix(html, ("html",))] if html is not None else []),
        *([check_suffix(output)] if output is not None else []),
    ]
    if out is not None:
        check_folder(out)

    change = Change(
        scale=dict(parse_scale(text) for text in scale or []),
        without=frozenset(without or []),
        precision=precision,
    )
    there = [find(name) for name in [*(machine or []), *(more or [])]]
    here = None if ran_on is None else find(ran_on)
    report = load(run, machine=here)
    threads = report.profile.threads
    result = what_if(report, there, change, here, lambda m: scope_for(threads, m))
    outputs = whatif_outputs(result)
    if json is not None:
        write_json(msgspec.json.encode(outputs.document), json)
    for path in files:
        write_output(outputs, path)
    if out is not None:
        write_folder(outputs, out)
    print_whatif(outputs.document, stderr=True)


def parse_scale(text: str) -> tuple[str, float]:
    """A factor as a person types it.

    >>> parse_scale("batch=4")
    ('batch', 4.0)
    """
    from timeroof.errors import UsageError

    name, _, number = text.partition("=")
    try:
        return name.strip(), float(number)
    except ValueError:
        raise UsageError(f"{text!r} is no scale", advice="write for example batch=4") from None
