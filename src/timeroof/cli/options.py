"""Options that several commands have, each said once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from timeroof.core.errors import UsageError

STDOUT = "-"
# Of click, or of typer's own copy of it: each version has its own classes.
Context = Any
Parameter = Any
# What stands behind an annotated parameter: typer gives its options no type of their own.
Option = Any

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
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print every note.")]
JudgingMachine = Annotated[
    str | None,
    typer.Option(
        help="Compare with the ceilings of this machine: a catalogue name, a TOML file or 'here'."
        " [default: the one it ran on]"
    ),
]

StepKindName = Annotated[
    str | None,
    typer.Option(
        "--step-kind",
        metavar="NAME",
        help="Report on steps of this kind, as the summary names them."
        " [default: the kind with the most time]",
    ),
]

Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Work on this Dask cluster, such as tcp://host:8786.",
        rich_help_panel="Many machines",
    ),
]  # fmt: skip
Slurm = Annotated[
    str | None,
    typer.Option(
        metavar="SETTINGS",
        help="Work on Slurm jobs, such as 'nodes=2,time=00:10:00,partition=debug'.",
        rich_help_panel="Many machines",
    ),
]


def folder_option(default: str | None = None) -> Option:
    """`--out`; `default` is the folder that takes the result where no other output is named."""
    text = "Write every form of the result to this folder."
    if default is not None:
        text += f" [default: {default}, unless another output is named]"
    return typer.Option(help=text)


FolderTarget = Annotated[Path | None, folder_option()]


def picture_option(pictures: str) -> Option:
    """`-o FILE` of a command that has pictures of its own."""
    return typer.Option("--output", "-o", help=f"Write by suffix: {pictures}, html, md, json.")


# Words, paths and flags of a command line as they are, without a validation library.
#
# Newer versions of typer import pydantic to turn each word into a str or a Path, which takes
# longer than reading a small file. Of such parameters there is nothing to validate; numbers and
# choices stay with typer, and so does everything in versions that work otherwise.

_PLAIN: dict[object, Callable[[Any], object]] = {
    str: str, Path: Path, list[str]: str, list[Path]: Path, bool: bool,
}  # fmt: skip
# What a parameter may ask of a path or word beyond being one.
_CHECKS = ("exists", "resolve_path", "writable", "parser", "click_type", "path_type", "envvar")


class PlainWords(NamedTuple):
    """In the place of typer's conversion: the same results for words that are there or not."""

    convert: Callable[[Any], object]

    def coerce(self, value: Any, param: Parameter, ctx: Context) -> object:
        """A value of the command line, or what stands for none."""
        many = param.multiple or param.nargs == -1
        if value is None:
            return () if many else None
        if value == "" and (self.convert is Path or param.name == "json"):
            raise UsageError(f"{param.opts[0]} has an empty name", advice="name a file or folder")
        return [self.convert(word) for word in value] if many else self.convert(value)


class DefaultAsItIs(NamedTuple):
    """A number or a choice: typer checks one that is given; a default is right as it stands."""

    kind: type

    def coerce(self, value: object, param: Parameter, ctx: Context) -> object:
        """The default, or what typer makes of a word."""
        if value is None and not param.multiple and param.nargs == 1:
            return None
        if value is param.default and type(value) is self.kind:
            return value
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


class PlainCommand(TyperCommand):
    """A command whose words, paths and flags are taken as they are."""

    # A shell variable that is not set gives an empty name: as a path it would be the whole folder.
    refuses_empty_names = True

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Refuse an empty name; an option may have an empty value."""
        before = ["", *args]
        if self.refuses_empty_names and any(
            not word and not before[place].startswith("-") for place, word in enumerate(args)
        ):
            raise UsageError("an empty name is given", advice="name a file, or . for this folder")
        return list(super().parse_args(ctx, args))

    def get_params(self, ctx: Context) -> list[Parameter]:
        """All parameters, `--help` included."""
        return _taken_plainly(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """The command above the commands, in the same way."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        """All parameters, `--help` included."""
        return _taken_plainly(super().get_params(ctx))


# What stands behind an option in the help, where it does not say so itself: a flag has nothing.
_PLACEHOLDERS: dict[object, str] = {
    bool: "",
    int: "N",
    str: "TEXT",
    list[str]: "TEXT",
    Path: "FILE",
}
_FOLDERS = ("out", "counter_folder")


def _placeholder(param: Parameter, kind: object) -> str | None:
    if param.metavar is not None or getattr(param, "param_type_name", "") != "option":
        return None if param.metavar is None else str(param.metavar)
    return {"json": "FILE|-", "machine": "NAME"}.get(
        param.name, "DIR" if param.name in _FOLDERS else _PLACEHOLDERS.get(kind)
    )


def _taken_plainly(params: list[Parameter]) -> list[Parameter]:
    for param in params:
        descriptor: object = getattr(param, "type_descriptor", None)
        kind = getattr(descriptor, "annotation", None)
        param.metavar = _placeholder(param, kind)
        convert = _PLAIN.get(kind)
        if getattr(param, "_runtime_param", param) is not None:
            continue
        if convert is None:
            if isinstance(kind, type):
                param._runtime_param = DefaultAsItIs(kind)
            continue
        asked = getattr(descriptor, "parameter_info", None)
        if not any(getattr(asked, check, None) for check in _CHECKS):
            param._runtime_param = PlainWords(convert)
    return params
