"""`timeroof cache`: what is kept between runs, and where."""

from __future__ import annotations

from typing import Annotated

import typer

from timeroof.cli.options import JsonTarget


def cache(
    clear: Annotated[
        bool, typer.Option("--clear", help="Delete what can be made again; machines stay.")
    ] = False,
    json: JsonTarget = None,
) -> None:
    """Show what timeroof keeps between runs: measured machines, calibrations, reduced files.

    Everything but a measured machine is made again when it is needed. `timeroof machine --fresh`
    measures the machine anew.

    Example: `timeroof cache --clear`
    """
    import msgspec

    from timeroof.api.kept import clear_cache, kept_things
    from timeroof.cli.outputs import write_json
    from timeroof.views.terminal import print_kept

    if clear:
        clear_cache()
    things = kept_things()
    if json is not None:
        write_json(msgspec.json.encode(things), json)
    else:
        print_kept([(t.what, t.folder, t.files, t.size_bytes) for t in things])
