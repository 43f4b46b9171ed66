"""The command `timeroof`: one place that finds the commands and turns errors into messages."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Protocol, runtime_checkable

import typer

from timeroof.cli.options import PlainCommand, PlainGroup
from timeroof.cli.process import abandon_stdout, interrupt_code, say, stop_if_pressed, take_over
from timeroof.core.errors import EXIT_INPUT, EXIT_INTERRUPT, TimeroofError, reason_of
from timeroof.core.version import VERSION

EXIT_INTERNAL = 70


@runtime_checkable
class UsageMistake(Protocol):
    """What click's usage errors have in common; typer brings its own copy of click or not."""

    def format_message(self) -> str:
        """The error in words."""
        ...


app = typer.Typer(
    name="timeroof",
    cls=PlainGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"timeroof {VERSION}")
        raise typer.Exit


@app.callback()
def timeroof(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Where the time of a deep-learning program goes, what bounds each kernel, how much faster
    it could be, and what to change.

    Start with `timeroof run train.py` on a program of yours, or with
    `timeroof read FILE` on a profiler's file.
    """


# Commands in the order of the help. Each is the function of its name in the file of its name,
# and its docstring is the help text; a file is imported when its command is asked for.
COMMANDS = (
    "run", "read", "report", "explain", "compare", "check", "whatif", "machine", "machines",
    "paper", "study", "cache",
)  # fmt: skip


def _add_commands(names: Sequence[str] = COMMANDS) -> None:
    for name in names:
        module = import_module(f"timeroof.cli.{name}")
        settings = {"cls": PlainCommand} | getattr(module, "COMMAND_SETTINGS", {})
        app.command(name, **settings)(getattr(module, name))


def _add_wanted(arguments: Sequence[str]) -> None:
    """Add the command that is asked for, or all where the answer may be a list of them."""
    named = arguments[0] if arguments else ""
    if named not in COMMANDS:
        _add_commands_once()
    elif named not in _added():
        _add_commands([named])


def _add_commands_once() -> None:
    if not _added().issuperset(COMMANDS):
        app.registered_commands.clear()
        _add_commands()


def _added() -> set[str | None]:
    return {command.name for command in app.registered_commands}


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code; bad input is one line on stderr."""
    take_over()
    _add_wanted(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(arguments, standalone_mode=False, prog_name="timeroof")
        sys.stdout.flush()
        stop_if_pressed()
    except TimeroofError as error:
        code = interrupt_code() if error.exit_code == EXIT_INTERRUPT else error.exit_code
        return _fail(error.message, code)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted; run the same command again", interrupt_code())
    except BrokenPipeError:
        # The reader of our output left; nobody is there to be told.
        abandon_stdout()
        return 0
    except OSError as error:
        abandon_stdout()
        return _fail(f"{error.filename or 'output'}: {error.strerror or error}", EXIT_INPUT)
    except Exception as error:
        return _refuse_usage(error) if isinstance(error, UsageMistake) else _confess(error)
    return code if isinstance(code, int) else 0


def _confess(error: Exception) -> int:
    if os.environ.get("TIMEROOF_DEBUG"):
        raise error
    return _fail(
        f"internal error, {type(error).__name__}: {reason_of(error)}; this is a bug: please report"
        " it with the output of TIMEROOF_DEBUG=1",
        EXIT_INTERNAL,
    )


def _refuse_usage(error: UsageMistake) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        # The help is printed already.
        return EXIT_INPUT
    path = getattr(getattr(error, "ctx", None), "command_path", None)
    hint = f"; see `{path} --help`" if path else ""
    return _fail(" ".join(error.format_message().split()).rstrip(".") + hint, EXIT_INPUT)


def _fail(message: str, code: int) -> int:
    say(message)
    return code
