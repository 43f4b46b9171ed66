"""`timeroof whatif RUN`: the same work on other machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from timeroof.cli.options import FolderTarget, JsonTarget, PageTarget, picture_option

if TYPE_CHECKING:
    from timeroof.core.machine import Machine


def whatif(
    run: Annotated[Path, typer.Argument(help="A saved run (.troof) or a profiler's file.")],
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MACHINE]…", help="Further machines.", show_default=False),
    ] = None,
    machine: Annotated[
        list[str] | None,
        typer.Option(
            help="A machine to predict for: a catalogue name, a TOML file or 'here'; more may"
            " follow. [default: the one it ran on]"
        ),
    ] = None,
    ran_on: Annotated[
        str | None,
        typer.Option(
            "--from", help="The machine it ran on, where RUN does not say; overrides what RUN says."
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(help="Matrix products in another precision: bf16, fp16, fp8, tf32."),
    ] = None,
    json: JsonTarget = None,
    html: PageTarget = None,
    output: Annotated[Path | None, picture_option("the machines as bars (png, svg, pdf)")] = None,
    out: FolderTarget = None,
) -> None:
    """Predict the run on other machines, or in another precision.

    Bounds are exact for the counted work. The predicted time is an estimate: each kernel keeps
    today's efficiency, and launch-bound kernels follow the launch overhead. The range shows how
    far that may be off.

    Example: `timeroof whatif run.troof --machine h100-sxm a100-sxm4-80gb --html whatif.html`
    """
    from timeroof.api.reports import load, machine as find, scope_for
    from timeroof.cli.options import check_views, keep_inputs, write_views
    from timeroof.model.whatif.project import what_if
    from timeroof.views.compare_page import folder_files, whatif_outputs
    from timeroof.views.whatif import print_whatif

    files = check_views(html, output, out)
    machines = [*(machine or []), *(more or [])]
    keep_inputs((run, ran_on, *machines), (json, *files), out, folder_files("whatif"))

    there = [find(name) for name in machines]
    here = None if ran_on is None else find(ran_on)
    report = load(run, machine=here)
    threads = report.profile.threads
    notes = [] if here is None else overridden(run, report.profile.device, here)
    result = what_if(report, there, precision, here, lambda m: scope_for(threads, m), notes)
    outputs = whatif_outputs(result)
    write_views(outputs, files, json, out)
    print_whatif(outputs.document, stderr=True)


def overridden(run: Path, device: str | None, here: Machine) -> list[str]:
    """A note where `--from` names another machine than the run itself does."""
    from timeroof.machines.catalogue import machine_of_device

    own = _saved_machine(run) or (None if device is None else machine_of_device(device))
    if own is not None:
        if (own.name, own.device) == (here.name, here.device):
            return []
        said = f"{own.name} ({own.device})" if own.device else own.name
    elif device is not None:
        said = device
    else:
        return []
    return [
        f"--from {here.name} overrides the machine that the run names, {said}: its times are taken"
        f" as measured on {here.name}."
    ]


def _saved_machine(run: Path) -> Machine | None:
    """The machine of a saved run, None for other files."""
    import zipfile

    from timeroof.core.errors import TimeroofError
    from timeroof.core.run_file import load_run

    try:
        return load_run(run).machine if zipfile.is_zipfile(run) else None
    except TimeroofError:
        # Some other tool's archive, which has been read as what it is.
        return None
