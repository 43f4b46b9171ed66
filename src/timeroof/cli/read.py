"""`timeroof read FILE…`: import what any profiler wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from timeroof.cli.options import (
    FolderTarget,
    JsonTarget,
    JudgingMachine,
    PageTarget,
    RunTarget,
    Scheduler,
    Slurm,
    Verbose,
)


def read(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE…",
            help="Files, folders or archives of one run; several ranks or metrics too.",
            show_default=False,
        ),
    ] = None,
    machine: JudgingMachine = None,
    roof: Annotated[
        str | None,
        typer.Option(
            help="Compute ceiling of the charts' time axes, such as `flop/fp32`."
            " [default: the highest that the run uses]"
        ),
    ] = None,
    format: Annotated[  # noqa: A002
        str | None,
        typer.Option(help="Force an input format instead of detecting it; 'list' prints all."),
    ] = None,
    max_size: Annotated[
        str, typer.Option(help="Refuse files that unpack to more text than this.")
    ] = "64GB",
    rank: Annotated[
        str | None,
        typer.Option(metavar="N", help="Show this rank of several instead of a mean one."),
    ] = None,
    scheduler: Scheduler = None,
    slurm: Slurm = None,
    verbose: Verbose = False,
    html: PageTarget = None,
    json: JsonTarget = None,
    save: RunTarget = None,
    out: FolderTarget = None,
) -> None:
    """Read a profiler's file and report where the time goes.

    Detects the format: Kineto and Chrome traces, Nsight Compute and Systems, nvprof, rocprof,
    Omniperf, XLA, oneDNN logs, tidy tables (docs/reading.md). Files may be compressed or in
    archives.

    Several files are parts or ranks of one run. Thousands are read by several processes, or by a
    cluster (docs/fleets.md).

    Example: `timeroof read rank*.json.gz --machine h100-sxm --html report.html`
    """
    from timeroof.api.reports import load, machine as find_machine
    from timeroof.cli import options as to
    from timeroof.cli.main import PATIENCE_S, share_bar
    from timeroof.core.units import parse_size
    from timeroof.views.run_summary import print_run

    if format == "list":
        from timeroof.read.formats import LISTED

        for known in LISTED:
            typer.echo(f"{known.name:16} {known.title}")
        return
    to.check_outputs(json=json, html=html, save=save, out=out)
    fleet = None
    if scheduler is not None or slurm is not None or rank is not None:
        from timeroof.read.fleet import Fleet

        fleet = Fleet.of(scheduler, slurm, rank)
    chosen = None if machine is None else find_machine(machine)
    to.keep_inputs((*(files or []), machine), (json, html, save), out, to.REPORT_FILES)
    with share_bar("reading", after_s=PATIENCE_S) as tell:
        report = load(
            files or [], chosen, format=format, max_bytes=int(parse_size(max_size)), roof=roof,
            fleet=fleet,
            progress=lambda what, share: tell(Path(what).name, share),
        )  # fmt: skip
    if json is not None:
        to.write_json(report.to_json(), json)
    to.write_outputs(report, html=html, save=save, out=out)
    print_run(report, verbose=verbose, page=html)
