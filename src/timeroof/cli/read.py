"""`timeroof read FILE…`: import what any profiler wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from timeroof.cli.options import JsonTarget, PageTarget, RunTarget

if TYPE_CHECKING:
    from rich.progress import Progress

# Work that is over sooner needs no bar.
PATIENCE_S = 2.0


def read(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE…",
            help="Files, folders or archives of one run; several ranks or metrics too.",
            show_default=False,
        ),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            help="Judge on this machine: a catalogue name, a TOML file or 'here'."
            " [default: the device that the files name]"
        ),
    ] = None,
    roof: Annotated[
        str | None,
        typer.Option(
            help="Compute ceiling of the time coordinates, such as flop/fp32."
            " [default: the highest that the run uses]"
        ),
    ] = None,
    format: Annotated[  # noqa: A002
        str | None,
        typer.Option(help="Read as this format instead of asking the content; 'list' prints all."),
    ] = None,
    max_size: Annotated[
        str, typer.Option(help="Refuse files that unpack to more text than this.")
    ] = "64GB",
    html: PageTarget = None,
    json: JsonTarget = None,
    save: RunTarget = None,
    out: Annotated[
        Path | None, typer.Option(help="Write page, JSON, CSV and run to this folder.")
    ] = None,
) -> None:
    """Import profiler files of any vendor and judge them.

    The format is told by the content: Kineto and Chrome traces, Nsight Compute and Systems,
    nvprof, rocprof, Omniperf, XLA, oneDNN logs, tidy tables (docs/reading.md). Files may be
    compressed or in archives. Several files are parts or ranks of one run.

    Example: `timeroof read rank*.json.gz --machine h100-sxm --html report.html`
    """
    from timeroof.api.reports import load
    from timeroof.api.reports import machine as find_machine
    from timeroof.cli.outputs import (
        REPORT_FILES,
        check_outputs,
        keep_inputs,
        write_json,
        write_outputs,
    )
    from timeroof.core.units import parse_size
    from timeroof.views.terminal import print_gaps, print_notes, print_summary

    if format == "list":
        _list_formats()
        return
    check_outputs(json=json, html=html, save=save, out=out)
    chosen = None if machine is None else find_machine(machine)
    keep_inputs((*(files or []), machine), (json, html, save), out, REPORT_FILES)
    with _late_bar() as progress:
        report = load(
            files or [],
            chosen,
            format=format,
            max_bytes=int(parse_size(max_size)),
            progress=progress,
            roof=roof,
        )
    if json is not None:
        write_json(report.to_json(), json)
    write_outputs(report, html=html, save=save, out=out)
    print_summary(report)
    print_gaps(report)
    print_notes(report.notes)


def _list_formats() -> None:
    from timeroof.read.formats import all_formats

    for known in all_formats():
        typer.echo(f"{known.name:16} {known.title}")


@contextmanager
def _late_bar() -> Iterator[Callable[[str, float], None]]:
    """A progress bar on stderr that shows itself only when the work takes a while."""
    import time

    from timeroof.views.terminal import plain_text

    start_s = time.monotonic()
    bar: Progress | None = None

    def progress(what: str, share: float) -> None:
        nonlocal bar
        if bar is None and time.monotonic() - start_s >= PATIENCE_S:
            bar = _started_bar()
        if bar is not None:
            name = plain_text(Path(what).name or what)[:40]
            bar.update(bar.task_ids[0], completed=share, description=name)

    try:
        yield progress
    finally:
        if bar is not None:
            bar.stop()


def _started_bar() -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from timeroof.views.terminal import console

    out = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=out, transient=True, disable=not out.is_terminal)
    bar.add_task("reading", total=1.0)
    bar.start()
    return bar
