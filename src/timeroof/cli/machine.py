"""`timeroof machine NAME`: show one machine with every ceiling and its source."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def machine(
    name: Annotated[
        str,
        typer.Argument(
            help="A catalogue name (h100-sxm), a device name as profilers print it"
            " ('NVIDIA H100 80GB HBM3'), or the path of a TOML file."
        ),
    ],
    json: Annotated[
        str | None, typer.Option(help="Write the machine as JSON to a file, or to stdout with '-'.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(help="Write the machine as a TOML file, to edit and to use with --machine."),
    ] = None,
) -> None:
    """Show a machine of the catalogue: its ceilings, memory and the source of each figure.

    Example: `timeroof machine h100-sxm`
    """
    import msgspec

    from timeroof.api import machine as find
    from timeroof.cli.outputs import write_json
    from timeroof.core.machine_file import write_machine
    from timeroof.core.report_json import machine_document
    from timeroof.errors import UsageError
    from timeroof.views.terminal import print_machine

    if save is not None and save.suffix != ".toml":
        raise UsageError(f"{str(save)!r} is no machine file", advice="end its name in .toml")
    found = find(name)
    if save is not None:
        write_machine(found, save)
    if json is not None:
        write_json(msgspec.json.encode(machine_document(found)), json)
    if json is None:
        print_machine(found)
