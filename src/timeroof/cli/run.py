"""`timeroof run SCRIPT`: run an unchanged program and report on it."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from timeroof.cli import counters as c
from timeroof.cli.main import Context, PlainCommand, ignored_before, say, without_reader
from timeroof.cli.options import (
    FolderTarget,
    JsonTarget,
    JudgingMachine,
    PageTarget,
    RunOutputs,
    RunTarget,
    StepKindName,
    Verbose,
    rank_here,
    said,
)
from timeroof.core.errors import EXIT_INPUT

if TYPE_CHECKING:
    from timeroof.core.machine import Machine
    from timeroof.core.report import Report
    from timeroof.live.running import Ended


class StepMarker(StrEnum):
    """What ends a step."""

    AUTO = "auto"
    OPTIMIZER = "optimizer"
    FORWARD = "forward"
    MANUAL = "manual"


class RunCommand(PlainCommand):
    """Options end at the script, or at the module that follows `-m`: the rest is the program's."""

    refuses_empty_names = False

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Keep the arguments of a module away from our own options."""
        options = {
            name: None if getattr(p, "is_flag", False) else str(p.name).upper()
            for p in self.params for name in getattr(p, "opts", ()) if name.startswith("-")
        }  # fmt: skip
        given = list(args)
        rest = super().parse_args(ctx, after_module(args, {n for n, v in options.items() if v}))
        words: list[str] = ctx.params.get("program") or []
        # Before the program, which may change what it was given.
        ctx.obj = CommandLine.of(given, words if ctx.params.get("module") else words[1:], options)
        return rest


# Options of the program behind its name are its own.
COMMAND_SETTINGS = {"cls": RunCommand, "context_settings": {"allow_interspersed_args": False}}


def after_module(args: list[str], takers: set[str]) -> list[str]:
    """Put `--` behind `-m MOD`, where that comes before any script, and before `-c CODE`.

    >>> after_module(["--steps", "3", "-m", "pkg.train", "--steps", "9"], {"--steps", "-m"})
    ['--steps', '3', '-m', 'pkg.train', '--', '--steps', '9']
    >>> after_module(["--source", "-c", "import train", "--steps", "9"], {"--steps", "-m"})
    ['--source', '--', '-c', 'import train', '--steps', '9']
    """
    place = 0
    while place < len(args) and args[place].startswith("-") and args[place] != "--":
        if args[place] == "-m" and place + 1 < len(args):
            return [*args[: place + 2], "--", *args[place + 2 :]]
        if args[place] == "-c" and place + 1 < len(args):
            return [*args[:place], "--", *args[place:]]
        place += 2 if args[place] in takers else 1
    return args


def run(
    context: typer.Context,
    program: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SCRIPT [ARGS]...",
            help="The program and its own arguments; `-c CODE` as for `python`.",
        ),
    ] = None,
    module: Annotated[
        str | None, typer.Option("-m", metavar="MOD", help="Run a module, as `python -m` does.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps to look at after the warm-up.")] = 20,
    warmup: Annotated[int, typer.Option(min=1, help="Steps to let pass first.")] = 2,
    step_marker: Annotated[
        StepMarker,
        typer.Option(
            metavar="MARK",
            help="What ends a step: optimizer (its step), forward (a call of the outermost"
            " module), manual (timeroof.step() in the program), or auto.",
        ),
    ] = StepMarker.AUTO,
    source: Annotated[bool, typer.Option("--source", help="Split ops by source line.")] = False,
    step_kind: StepKindName = None,
    verbose: Verbose = False,
    machine: JudgingMachine = None,
    out: FolderTarget = None,
    json: JsonTarget = None,
    save: RunTarget = None,
    html: PageTarget = None,
    counters: c.Counters = None,
    counter_metrics_per_run: c.MetricsPerRun = None,
    counter_whole_machine: c.WholeMachine = False,
    counter_chip: c.Chip = None,
    counter_folder: c.Folder = None,
) -> int:
    """Run an unchanged PyTorch, JAX or TensorFlow program and report where its time goes.

    After a few warm-up steps, some steps run unprofiled (the step time), some with the
    framework's profiler, and one records shapes and modules. The program keeps its output,
    arguments and exit code; the summary goes to stderr.

    Options of timeroof come before the script, the script's own after it.

    Example: `timeroof run --html report.html train.py --epochs 1`
    """
    from timeroof.core.errors import UsageError
    from timeroof.core.files import watch
    from timeroof.live import running

    words = program or []
    if module is None and not words:
        raise UsageError("no program is named", advice="timeroof run SCRIPT, or -m MODULE")
    judged_on: Machine | str | None = machine
    if machine is not None and machine != "here":
        # Not by way of the API, whose libraries are not to be loaded before the program.
        from timeroof.machines.catalogue import find_machine

        judged_on = find_machine(machine)  # refused before any work is done
    outputs = RunOutputs.of(out, json, save, html, rank_here(), (_script(module, words), machine))
    line: CommandLine = context.obj
    running.refuse_absent(module, words)
    counting = c.plan_counting(
        counters,
        (module, words),
        (warmup, steps, step_marker.value),
        machine,
        chip=counter_chip,
        metrics_per_run=counter_metrics_per_run,
        whole_machine=counter_whole_machine,
        folder=counter_folder,
    )
    plan = {
        "warmup": warmup,
        "steps": steps,
        "marker": step_marker.value,
        "source": source,
        "tells": sys.stderr.isatty(),
        "listens": bool(line.behind()),
        "calibrated": running.known_calibrations(),
        "namesake": running.has_namesake(module, words),
    }
    with ExitStack() as stack:
        folder = _record_folder(stack, plan)
        began_s = time.monotonic()
        command = running.program_command(module, words)
        ended = running.run_recorded(command, folder, ignored_before())
        # A terminal that closes tells everybody, more than once: the program's end is reported on.
        if ended.signal == signal.SIGHUP:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        watch()
        clean_s, code, steps_seen = time.monotonic() - began_s, ended.code, 0
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
        if folder is not None:
            try:
                from timeroof.api.live import ended_of, report_of_run

                ended = ended_of(folder, ended)
                told = " ".join(["timeroof run", *([module] if module else []), *words])
                report, recording = report_of_run(
                    folder, judged_on, told, say, ended=ended, step_kind=step_kind,
                    all_kinds=save is not None or out is not None,
                )  # fmt: skip
                steps_seen = recording.steps_seen
                # Kept whatever becomes of the summary or of a counted run.
                outputs.write(report, stdout=counting is None)
                _print_whole(report, verbose=verbose, page=html or (out and out / "report.html"))
                if counting is not None:
                    counting = replace(counting, marker=recording.marker or counting.marker)
                    report, code = c.run_counted(counting, report, recording, code, clean_s)
                    outputs.write(report)
            except Exception as error:
                if os.environ.get("TIMEROOF_DEBUG"):
                    raise
                say(f"no report: {said(error)}; TIMEROOF_DEBUG=1 shows where")
    say_misplaced(line, ended, _script(module, words), ran_steps=steps_seen > 0)
    if ended.signal is not None and code == ended.code:
        running.end_by_signal(ended.signal)
    return code


def _record_folder(stack: ExitStack, plan: dict[str, object]) -> Path | None:
    """Where this run is recorded; where nothing can be written, the program runs all the same."""
    from timeroof.live.running import record_folder

    try:
        return stack.enter_context(record_folder(plan))
    except OSError as error:
        say(f"no report: nothing can be recorded ({said(error)}); the program runs as under Python")
        return None


def _script(module: str | None, words: list[str]) -> Path | None:
    """The file that is run, which no output may overwrite; where a module lies is not asked."""
    if module is not None or words[0] in ("-", "-c"):
        return None
    script = Path(words[0])
    return script / "__main__.py" if script.is_dir() else script


def _print_whole(report: Report, *, verbose: bool, page: Path | None) -> None:
    from timeroof.views.run_summary import print_run

    if rank_here():
        say(f"rank {rank_here()} is recorded too; the summary is that of rank 0")
    else:
        without_reader(lambda: print_run(report, verbose=verbose, page=page))


# How parsers (argparse, click, getopt, absl, fire and those that people write) call what they
# do not know. A bad value of an option that they do know is told in other words.
_UNKNOWN = re.compile(
    r"unrecogni[sz]ed|not recogni[sz]ed|no such|unknown|unexpected|unsupported|undefined"
    r"|not understood|could not consume|(?:invalid|illegal|bad) (?:option|argument|flag)",
    re.IGNORECASE,
)

# What a program has in its text that looks at its arguments, itself or by a library.
_READS = re.compile(
    r"argv|arg_?parse|parse_?arg|getopt|docopt|click|typer|fire|absl|tap\b|hydra|cyclopts|cli\b|main\(",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class CommandLine:
    """A command as it was given: our options, the program, its arguments."""

    ours: tuple[str, ...]
    program: tuple[str, ...]
    words: tuple[str, ...]
    # Our long options, each with a word that stands for its value; None for a flag.
    options: Mapping[str, str | None]

    @classmethod
    def of(
        cls, args: Sequence[str], words: Sequence[str], options: Mapping[str, str | None]
    ) -> CommandLine:
        """What followed `timeroof run`, and those of it that are arguments of the program.

        >>> line = CommandLine.of(["--steps", "3", "--", "a.py", "-x"], ["-x"], {})
        >>> line.ours, line.program, line.words
        (('--steps', '3'), ('--', 'a.py'), ('-x',))
        """
        before = tuple(args[: len(args) - len(words)])
        place = len(before) - (2 if before[-2:-1] in (("-m",), ("--",)) else 1)
        long = {name: value for name, value in options.items() if name.startswith("--")}
        return cls(before[:place], before[place:], tuple(words), long)

    def behind(self) -> list[str]:
        """Options of ours among the program's arguments."""
        listed = self.words[: self.words.index("--")] if "--" in self.words else self.words
        found = (word.partition("=")[0] for word in listed)
        return [name for name in dict.fromkeys(found) if name in self.options]

    def mended(self, wrong: Iterable[str]) -> str:
        """The command with these options before the script, quoted for a shell.

        >>> words = ("--html", "a b.html", "-x")
        >>> line = CommandLine((), ("-m", "pkg"), words, {"--html": "HTML"})
        >>> line.mended(["--html"])
        "timeroof run --html 'a b.html' -m pkg -x"
        """
        moved, kept = _parted(self.words, {name: self.options[name] for name in wrong})
        return shlex.join(["timeroof", "run", *self.ours, *moved, *self.program, *kept])


def _parted(words: Sequence[str], wrong: Mapping[str, str | None]) -> tuple[list[str], list[str]]:
    """The words that belong to some options, and the others."""
    moved: list[str] = []
    kept: list[str] = []
    place = 0
    while place < len(words) and words[place] != "--":
        name, equals, _ = words[place].partition("=")
        stands_for = wrong.get(name)
        taken = 2 if stands_for and not equals else 1
        (moved if name in wrong else kept).extend(words[place : place + taken])
        if name in wrong and place + taken > len(words) and stands_for:
            moved.append(stands_for)  # the value was forgotten: without one the script would be it
        place += taken
    return moved, [*kept, *words[place:]]


def say_misplaced(
    line: CommandLine, ended: Ended, script: Path | None, *, ran_steps: bool = False
) -> None:
    """One line for a user whose program refused options of ours; none where it did not.

    The ranks of a launcher have command lines that nobody typed: the first says where options
    go, the others nothing.
    """
    rank = rank_here()
    wrong = [] if rank else unread(line.behind(), ended, script)
    if not wrong and not ran_steps and not rank:
        wrong = refused(line.behind(), ended, script)
    if not wrong:
        return
    what = "is an option of timeroof and goes" if len(wrong) == 1 else "are timeroof's and go"
    said = f"{', '.join(wrong)} {what} before the script"
    say(f"{said}: {line.mended(wrong)}" if rank is None else said)


def unread(options: Sequence[str], ended: Ended, script: Path | None) -> list[str]:
    """Those of the options that came to a program which looks at none of its arguments."""
    if not options or ended.code or script is None or not script.is_file():
        return []
    return [] if _READS.search(script.read_text("utf-8", "replace")) else list(options)


def refused(options: Sequence[str], ended: Ended, script: Path | None = None) -> list[str]:
    """Those of the options that made the program end with a usage error."""
    complaint = ended.complaint
    if not options or complaint is None or not ended.code:
        return []
    if complaint or ended.code != EXIT_INPUT:
        return [name for name in options if is_refused_in(complaint, name)]
    # No word of why (click): what the script names is known to it.
    is_there = script is not None and script.is_file()
    known = script.read_text("utf-8", "replace") if script is not None and is_there else ""
    return [name for name in options if name.lstrip("-") not in known]


def is_refused_in(complaint: str, option: str) -> bool:
    """Whether a parser's words say that it does not know an option.

    >>> is_refused_in("unrecognized arguments: --html report.html", "--html")
    True
    >>> is_refused_in("argument --steps: invalid int value: 'x'", "--steps")
    False
    """
    name = re.escape(option.lstrip("-"))
    named = re.compile(rf"(?<![\w-])-{{1,2}}{name}(?![\w-])|flag '{name}'")
    return any(_UNKNOWN.search(line) and named.search(line) for line in complaint.splitlines())
