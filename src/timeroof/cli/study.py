"""`timeroof study KERNEL…`: the paper's experiments, on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from timeroof.cli.counters import CounterTool
from timeroof.cli.options import JsonTarget, JudgingMachine, PageTarget, RunTarget, folder_option
from timeroof.cli.process import Stage, say, stoppable
from timeroof.cli.study_cases import Choices, StudyCommand, parameter_lines
from timeroof.core.errors import InputError, UsageError

if TYPE_CHECKING:
    from timeroof.core.machine import Machine
    from timeroof.study.case import Case
    from timeroof.study.report import Study
    from timeroof.study.run import Done, Place
    from timeroof.study.store import Store

DATABASE = "timeroof-study.sqlite"
FOLDER = "timeroof-study"
OVERLAYS = ("paper",)
COMMAND_SETTINGS = {"cls": StudyCommand}


def study(
    kernels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KERNEL...",
            help="conv2d, lstm, gru, rnn, gemm, attention, layernorm, softmax, elementwise, pool,"
            " embedding, adam.",
        ),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=V,V",
            help="Values of a parameter, for the kernels that have it: batch=1,8,64; may be"
            " repeated. 'list' prints all parameters.",
        ),
    ] = None,
    framework: Annotated[str, typer.Option(help="The framework that runs the cases.")] = "torch",
    device: Annotated[str, typer.Option(help="The torch device that runs them.")] = "cpu",
    precision: Annotated[
        str,
        typer.Option(
            help="fp64, fp32, tf32, bf16, fp16, bf16-autocast, fp16-autocast, int8; several with"
            " commas."
        ),
    ] = "fp32",
    passes: Annotated[
        str | None,
        typer.Option(
            "--pass",
            help="calibrate, forward, backward (all gradients), backward-input, backward-weight,"
            " optimizer. [default: forward,backward, or what the kernel has]",
        ),
    ] = None,
    cache: Annotated[
        str, typer.Option(help="warm, cold (flushed before every execution), or both.")
    ] = "warm",
    threads: Annotated[str, typer.Option(help="Threads: numbers, or all.")] = "all",
    variant: Annotated[
        str,
        typer.Option(
            help="Ways of running: eager, no-onednn, compile, max-autotune, cudnn-benchmark;"
            " lstm, gru, rnn: cell-loop, cell-loop-compile, graph; adam: foreach, fused."
        ),
    ] = "eager",
    factor: Annotated[
        list[str] | None,
        typer.Option(
            help="Add the experiment on a factor: intensity, locality, autotune, launch,"
            " precision, or all; may be repeated."
        ),
    ] = None,
    db: Annotated[
        Path | None,
        typer.Option(
            help=f"The store of finished cases (SQLite). [default: {DATABASE} in --out, else here]"
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Use the cases that the store has, measure the rest.")
    ] = False,
    retry: Annotated[
        bool, typer.Option("--retry", help="With --resume: measure failed cases once more.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Keep an old store under another name, and measure all.")
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Fewer values and less care: under a minute on two quiet cores."
        ),
    ] = False,
    overlay: Annotated[
        str | None, typer.Option(help="'paper' lays the paper's V100 rows beside the charts.")
    ] = None,
    machine: JudgingMachine = None,
    counters: Annotated[
        CounterTool | None,
        typer.Option(help="Count FLOPs and bytes of every case with this profiler."),
    ] = None,
    html: PageTarget = None,
    json: JsonTarget = None,
    save: RunTarget = None,
    out: Annotated[Path | None, folder_option(FOLDER)] = None,
) -> None:
    """Measure kernels over a grid of cases on this machine, as the paper did.

    Every kernel has a base case and sweeps one parameter at a time around it. `--set` changes
    parameters: several values are a sweep, one value moves the base case. Cases run in a process
    of their own: a crash, a hang or running out of memory costs one case. Finished cases are
    kept in a store, and `--resume` goes on after any interruption.

    Example: `timeroof study conv2d lstm --pass forward,backward --quick`,
    `timeroof study conv2d --set batch=1,8,64 --set layout=channels_last`
    """
    from timeroof.cli.outputs import check_outputs, keep_inputs
    from timeroof.cli.study_cases import checked_sweeps, designed_cases, own_cases
    from timeroof.study.grid import unique
    from timeroof.study.run import check_store
    from timeroof.study.store import Store, set_aside

    names = list(dict.fromkeys(kernels or []))
    if sets == ["list"]:
        typer.echo("\n".join(parameter_lines(names)))
        return
    if out is None and html is None and json is None and save is None:
        out = Path(FOLDER)
    check_outputs(json=json, html=html, save=save, out=out)
    if overlay is not None and overlay not in OVERLAYS:
        raise UsageError(f"no overlay is called {overlay!r}", advice="use paper")
    if retry and not resume:
        raise UsageError("--retry is for going on in a store", advice="add --resume")
    if resume and fresh:
        raise UsageError("--resume and --fresh exclude each other", advice="use one of them")
    choices = Choices.typed(
        framework, device, quick, passes, threads, precision=precision, cache=cache, variant=variant
    )
    target = db or (out or Path()) / DATABASE
    keep_inputs((machine,), (target, json, html, save))
    stage = Stage(fresh=fresh)
    with stoppable(stage):
        plain = own_cases(checked_sweeps(names, sets or [], choices, factor or []), choices)
        counting_tool = _tool(counters)
        other = _other_machine(machine)
        place, notes = _place(device, framework, other)
        cases = unique([*plain, *designed_cases(names, choices, factor or [], place.machine)])
        kept = set_aside(target) if fresh else None
        if kept is not None:
            say(f"the old store is kept as {kept}")
        stage.store, stage.keys = target, [place.key(case) for case in cases]
        with Store(target) as store:
            check_store(store, stage.keys, resume=resume)
            done = _run(cases, store, place, retry=retry, quick=quick, counters=counting_tool)
        found = _judge(done, other or place.machine, notes)
        _write(found, out, html, save, json, overlay)
        _tell(found, done, target)


def _tool(counters: CounterTool | None) -> str | None:
    """The profiler's name, once it is known to be there and to count something."""
    if counters is None:
        return None
    from timeroof.counters.tools import find_tool

    find_tool(counters.value)
    from timeroof.study.counters import counts_nothing

    if counts_nothing(counters.value):
        say(
            f"{counters.value} counts neither FLOPs nor bytes on this machine (a virtual machine,"
            " or a kernel without counters): the study goes on without counters"
        )
        return None
    return counters.value


def _place(device: str, framework: str, other: Machine | None) -> tuple[Place, list[str]]:
    """This machine, measured once if it never was, unless another one judges the cases.

    What was measured before serves all the same: the caches are those that the cases run on.
    """
    from timeroof.study.run import Place

    if other is not None:
        from timeroof.probe.measure import cached_machine

        found = cached_machine() if device == "cpu" else None
        return Place.here(found or other, framework), []
    if device == "cpu":
        from timeroof.api.live import machine_for

        here, notes = machine_for(None, say)
        return Place.here(here, framework), notes
    from timeroof.probe.measure import load_or_measure

    try:
        measured = load_or_measure(quick=True, device=device).machine
    except UsageError as error:
        raise UsageError(error.what, advice="use --device cpu, or leave --device out") from error
    return Place.here(measured, framework), []


def _other_machine(name: str | None) -> Machine | None:
    """The machine to judge on, where it is not this one."""
    if name in (None, "here"):
        return None
    from timeroof.api.reports import machine as find_machine

    return find_machine(str(name))


def _run(
    cases: list[Case], store: Store, place: Place, *, retry: bool, quick: bool, counters: str | None
) -> Done:
    from timeroof.cli.progress import progress_bar
    from timeroof.study.case import FULL, QUICK
    from timeroof.study.run import run_cases

    plan = QUICK if quick else FULL
    counting = None
    if counters is not None:
        from timeroof.study.counters import counting_with

        counting = counting_with(counters, plan, place.machine)
    with progress_bar("studying", len(cases)) as advance:
        return run_cases(cases, store, place, plan, advance, retry=retry, counting=counting)


def _judge(done: Done, machine: Machine | None, notes: list[str]) -> Study:
    from timeroof.study.report import judged_study

    command = "timeroof " + " ".join(sys.argv[1:])
    found = judged_study(done.results, machine, command=command, notes=notes)
    if not found.rows:
        first = found.failures[0].error if found.failures else "there was nothing to measure"
        raise InputError(f"no case could be measured: {first}")
    return found


def _write(
    found: Study,
    out: Path | None,
    html: Path | None,
    save: Path | None,
    json: str | None,
    overlay: str | None,
) -> None:
    from timeroof.cli.outputs import write_json, write_outputs

    write_outputs(found.report, html=html, save=save)
    if json is not None:
        write_json(found.report.to_json(), json)
    if out is not None:
        from timeroof.study.output import write_study

        beside = None
        if overlay == "paper":
            from timeroof.paper.build import build_paper

            beside = build_paper()
        page = write_study(found, out, overlay=beside)
        say(f"the report is {page}")


def _tell(found: Study, done: Done, store: Path) -> None:
    from timeroof.study.report import busy_sentence
    from timeroof.study.table import case_name
    from timeroof.views.terminal import print_findings, print_summary

    print_summary(found.report)
    print_findings(found.report.findings)
    disturbed = busy_sentence(found.rows)
    if disturbed:
        say(f"{disturbed}; run it again with --fresh while nothing else runs")
    for result in found.failures:
        say(f"{result.status}: {case_name(result.case)}: {result.error}")
    before = f", {done.found} of them from before" if done.found else ""
    say(f"{len(done.results)} cases in {store}{before}")
