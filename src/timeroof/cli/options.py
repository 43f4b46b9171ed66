"""Options that several commands have, each said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

JsonTarget = Annotated[
    str | None, typer.Option(help="Write the report as JSON to a file, or to stdout with '-'.")
]
RunTarget = Annotated[Path | None, typer.Option(help="Save the judged run to this file (.troof).")]
PageTarget = Annotated[
    Path | None, typer.Option(help="Write the report as one interactive HTML page.")
]
JudgingMachine = Annotated[
    str | None,
    typer.Option(help="Judge on this machine: a catalogue name, a TOML file or 'here'."),
]
