"""`timeroof machines`: list the catalogue."""

from __future__ import annotations

from typing import Annotated

import typer

from timeroof.cli.options import JsonTarget


def machines(
    words: Annotated[
        list[str] | None, typer.Argument(help="Show only machines that have these words.")
    ] = None,
    json: JsonTarget = None,
) -> None:
    """List the machines of the catalogue with their main ceilings.

    Example: `timeroof machines hopper`
    """
    import msgspec

    from timeroof.api.reports import machine, machine_names
    from timeroof.cli.options import write_json
    from timeroof.core.errors import UsageError
    from timeroof.core.report import machine_document
    from timeroof.machines.catalogue import nearest_machines
    from timeroof.views.terminal import print_machines

    found = [machine(name) for name in machine_names()]
    fields = ("name", "device", "vendor", "architecture", "kind")
    for word in words or []:
        found = [
            m for m in found if word.lower() in " ".join(getattr(m, f) for f in fields).lower()
        ]
    if not found:
        asked = " ".join(words or [])
        near = ", ".join(nearest_machines(asked))
        raise UsageError(
            f"no machine has the words {asked!r}",
            advice=(f"the nearest are {near}; " if near else "") + "`timeroof machines` lists all",
        )
    if json is not None:
        write_json(msgspec.json.encode([machine_document(m) for m in found]), json)
    else:
        print_machines(found)
