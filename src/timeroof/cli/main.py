"""The command `timeroof`: how words are taken, commands found, errors told, and a process ended.

Streams may be closed or full, Ctrl-C may come at any time, progress is for terminals only.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, runtime_checkable

import typer
from typer.core import TyperCommand, TyperGroup

from timeroof.core import VERSION
from timeroof.core.errors import EXIT_INPUT, EXIT_INTERRUPT, TimeroofError, UsageError, reason_of
from timeroof.views.style import plain_text

if TYPE_CHECKING:
    from rich.progress import Progress


def prepare_streams() -> None:
    """Make stdout and stderr usable: characters they cannot print become question marks."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        reconfigure = getattr(getattr(sys, name), "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def stdout_goes_nowhere() -> bool:
    """Whether stdout was closed when we started, so that `prepare_streams` put another there."""
    return sys.stdout is None or getattr(sys.stdout, "name", None) == os.devnull


def abandon_stdout() -> None:
    """Send what is left of stdout nowhere, so that the interpreter does not stumble over it."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return


def flush_streams() -> None:
    """Write out what is held, before an end that does not; a stream that is gone is let be."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def say(message: str) -> None:
    """One line on stderr, without characters that could steer a terminal."""
    try:
        sys.stderr.write(f"timeroof: {plain_text(message)}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


# Ctrl-C that is never lost: an exception may be swallowed in a callback, a flag is not. SIGTERM and
# SIGHUP (a terminal that closed) end a command in the same way.

_pressed: list[int] = []


def _remember(number: int, frame: FrameType | None) -> None:
    _pressed.append(number)
    raise KeyboardInterrupt


def _told(unraisable: sys.UnraisableHookArgs) -> None:
    """A signal that came within a callback of Python's own (an import's lock) is remembered: no
    traceback tells of it."""
    if not (_pressed and issubclass(unraisable.exc_type, KeyboardInterrupt)):
        sys.__unraisablehook__(unraisable)


def listen() -> None:
    """Remember signals that end a command from now on; those that the process was started to
    ignore (`nohup`) stay ignored."""
    _pressed.clear()
    if threading.current_thread() is not threading.main_thread():
        return
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _told
    signal.signal(signal.SIGINT, _remember)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _remember)


def stop_if_pressed() -> None:
    """Raise the interrupt that a callback swallowed; call it between pieces of long work."""
    if _pressed:
        raise KeyboardInterrupt


def was_interrupted() -> bool:
    """Whether a signal asked the command to end."""
    return bool(_pressed)


def interrupt_code() -> int:
    """What a command that a signal ended exits with: 130 after Ctrl-C, 143 after SIGTERM."""
    return 128 + (_pressed[0] if _pressed else signal.SIGINT)


_FOUND: list[object] = []


def take_over() -> None:
    """Set the process up for a command of ours; its answer to Ctrl-C is remembered."""
    _FOUND[:] = [signal.getsignal(signal.SIGINT)]
    prepare_streams()
    listen()


def ignored_before() -> list[int]:
    """Signals that this process was started to ignore (`nohup`): a program of ours is, too."""
    ignored = [signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2]
    found = [int(n) for n in ignored if signal.getsignal(n) is signal.SIG_IGN]
    if signal.SIG_IGN in _FOUND:
        found.append(int(signal.SIGINT))
    return found


def without_reader(action: Callable[[], None]) -> None:
    """Print something; a reader that has left (`| head`) must not cost more than that."""
    try:
        action()
        sys.stderr.flush()
    # A console may end the program over a broken pipe.
    except (OSError, ValueError, SystemExit):
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


# Progress on stderr, for work that takes longer than a blink.

# Reading a small file needs no bar.
PATIENCE_S = 2.0


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[str], None]]:
    """A bar that the yielded function moves by one step and labels; silent in pipes."""
    with share_bar(what) as tell:
        done = 0

        def advance(label: str) -> None:
            nonlocal done
            done += 1
            tell(f"{label} ({done}/{total})", done / total)

        yield advance


@contextmanager
def share_bar(what: str, *, after_s: float = 0.0) -> Iterator[Callable[[str, float], None]]:
    """A bar for work that tells its own share done, from 0 to 1; silent in pipes.

    It shows itself once the work has taken `after_s`, and raises a Ctrl-C that was swallowed.
    """
    start_s = time.monotonic()
    bar: Progress | None = None

    def tell(label: str, share: float) -> None:
        nonlocal bar
        stop_if_pressed()
        if bar is None and time.monotonic() - start_s >= after_s:
            bar = _started(what)
        if bar is not None:
            text = f"{what}: {plain_text(label)}"[:48]
            bar.update(bar.task_ids[0], completed=min(share, 1.0), description=text)

    if not after_s:
        bar = _started(what)
    try:
        yield tell
    finally:
        if bar is not None:
            bar.stop()


def _started(what: str) -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from timeroof.views.terminal import console

    out = console(stderr=True)
    # File names are no markup.
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=out, transient=True, disable=not out.is_terminal)
    bar.add_task(what, total=1.0)
    bar.start()
    return bar


# A signal at any time of a study: one line that says what is kept and how to go on.


# Of click, or of typer's own copy of it: each version has its own classes.
Context = Any
Parameter = Any

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
