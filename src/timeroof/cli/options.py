"""Options that several commands have, each said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

STDOUT = "-"

JsonTarget = Annotated[
    str | None, typer.Option(help="Write the result as JSON to a file, or to stdout with '-'.")
]
RunTarget = Annotated[Path | None, typer.Option(help="Save the run to this file (.troof).")]
PageTarget = Annotated[
    Path | None, typer.Option(help="Write the result as one interactive HTML page.")
]
MarkdownTarget = Annotated[
    Path | None, typer.Option(help="Write the result as Markdown to this file.")
]
JudgingMachine = Annotated[
    str | None,
    typer.Option(
        help="Compare with the ceilings of this machine: a catalogue name, a TOML file or 'here'."
        " [default: the machine that it ran on]"
    ),
]


def folder_option(default: str | None = None) -> Any:
    """`--out`; `default` is the folder that takes the result where no other output is named."""
    text = "Write every form of the result to this folder."
    if default is not None:
        text += f" [default: {default}, unless another output is named]"
    return typer.Option(help=text)


FolderTarget = Annotated[Path | None, folder_option()]


def picture_option(pictures: str) -> Any:
    """`-o FILE` of a command that has pictures of its own."""
    return typer.Option("--output", "-o", help=f"Write by suffix: {pictures}, html, md, json.")
