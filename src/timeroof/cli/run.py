"""`timeroof run SCRIPT`: run an unchanged program and report on it."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from timeroof.cli import counters as c
from timeroof.cli.misplaced import CommandLine, say_misplaced
from timeroof.cli.options import (
    Context,
    FolderTarget,
    JsonTarget,
    JudgingMachine,
    PageTarget,
    PlainCommand,
    RunTarget,
    StepKindName,
    Verbose,
)
from timeroof.cli.outputs import RunOutputs, rank_here, said
from timeroof.cli.process import ignored_before, say, without_reader

if TYPE_CHECKING:
    from timeroof.core.machine import Machine
    from timeroof.core.report import Report


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
    from timeroof.core import ending
    from timeroof.core.errors import UsageError
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
        ending.watch()
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
