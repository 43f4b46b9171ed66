"""`timeroof study KERNEL…`: the paper's experiments, on this machine."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from timeroof.cli import study_cases as asked
from timeroof.cli.counters import CounterTool
from timeroof.cli.main import say
from timeroof.cli.options import (
    JsonTarget,
    JudgingMachine,
    PageTarget,
    RunTarget,
    Scheduler,
    Slurm,
    folder_option,
)
from timeroof.cli.study_cases import Choices, Stage, StudyCommand, stoppable, thread_counts, words
from timeroof.core.errors import InputError, UsageError

if TYPE_CHECKING:
    from timeroof.core.engines import DaskCluster
    from timeroof.core.machine import Machine
    from timeroof.study.case import Case, OwnFunction, Result
    from timeroof.study.cluster import Ran
    from timeroof.study.report import Study
    from timeroof.study.run import Done, Place, Worker
    from timeroof.study.store import Store

DATABASE = "timeroof-study.sqlite"
FOLDER = "timeroof-study"
PRECISIONS = "fp64, fp32, tf32, bf16, fp16, bf16-autocast, fp16-autocast, int8"
PASSES = (
    "calibrate, forward, backward (all gradients), backward-input, backward-weight, optimizer."
    " [default: forward,backward, or what the kernel has]"
)
VARIANTS = (
    "eager, no-onednn, compiled (torch.compile, jax.jit, XLA), max-autotune; conv2d: im2col,"
    " blocked, winograd, cudnn-benchmark; lstm, gru, rnn: cell-loop, cell-loop-compile, graph;"
    " adam: foreach, fused; tensorflow: eager, graph (tf.function), xla (jit_compile), session"
    " (TensorFlow 1)"
)
FACTORS = "intensity, locality, autotune, launch, precision, or all"
STORE = f"The store of finished cases (SQLite). [default: {DATABASE} in --out, else here]"
COMMAND_SETTINGS = {"cls": StudyCommand}


Kernels = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KERNEL...",
        help="conv2d, lstm, gru, rnn, gemm, linear, attention, layernorm, softmax, elementwise,"
        " pool, embedding, adam; or FILE.py:FUNCTION, a function of your own.",
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=V,V",
        help="Values of a parameter, for the kernels that have it: batch=1,8,64; may be"
        " repeated. 'list' prints all parameters.",
    ),
]
Frameworks = Annotated[
    str | None,
    typer.Option(
        help="The frameworks that run the cases: torch, jax, tensorflow; with commas. Several"
        " are compared on one page, each in a process and in variants of its own. [default:"
        " torch; of FILE.py:FUNCTION the one that the file imports]"
    ),
]
Precisions = Annotated[
    str | None, typer.Option(help=f"{PRECISIONS}; several with commas. [default: fp32]")
]
Variants = Annotated[
    str | None,
    typer.Option(
        help=f"Ways of running: {VARIANTS}. [default: eager; jax and tensorflow: all of theirs]"
    ),
]
Factors = Annotated[
    list[str] | None,
    typer.Option(help=f"Add the experiment on a factor: {FACTORS}; may be repeated."),
]
Preset = Annotated[
    str | None,
    typer.Option(
        help="A whole study. paper: conv2d and lstm, all factors, the paper's rows beside them."
        " czaja: nine kernels of Czaja et al. (2020), cold and warm, on one core, one socket"
        " and all, with the share of the compute roof that each uses and could use."
    ),
]


def study(
    kernels: Kernels = None,
    sets: Sets = None,
    framework: Frameworks = None,
    device: Annotated[str, typer.Option(help="The torch device that runs them.")] = "cpu",
    precision: Precisions = None,
    passes: Annotated[str | None, typer.Option("--pass", help=PASSES)] = None,
    cache: Annotated[
        str, typer.Option(help="warm, cold (flushed before every execution), or both.")
    ] = "warm",
    threads: Annotated[str, typer.Option(help="Threads: numbers, or all.")] = "all",
    variant: Variants = None,
    factor: Factors = None,
    db: Annotated[Path | None, typer.Option(help=STORE)] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Use the cases that the store has, measure the rest.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Keep an old store under another name, and measure all.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer values and less care: about a minute.")
    ] = False,
    preset: Preset = None,
    overlay: Annotated[
        str | None, typer.Option(help="'paper' lays the paper's V100 rows beside the charts.")
    ] = None,
    machine: JudgingMachine = None,
    counters: Annotated[
        CounterTool | None,
        typer.Option(help="Count FLOPs and bytes of every case with this profiler."),
    ] = None,
    scheduler: Scheduler = None,
    slurm: Slurm = None,
    html: PageTarget = None,
    json: JsonTarget = None,
    save: RunTarget = None,
    out: Annotated[Path | None, folder_option(FOLDER)] = None,
) -> None:
    """Measure kernels over a grid of cases on this machine, as the paper did.

    Each kernel has a base case and sweeps one parameter at a time around it. `--set` changes
    parameters: several values make a sweep, one value moves the base case. Finished cases are
    kept, and `--resume` continues after an interruption.

    Example: `timeroof study conv2d lstm --pass forward,backward --quick`,
    `timeroof study conv2d --set batch=1,8,64 --set layout=channels_last`,
    `timeroof study my.py:make --set batch=1,8,64`,
    `timeroof study --preset czaja --quick`
    """
    from timeroof.api.reports import machine as find_machine
    from timeroof.cli.options import check_outputs, keep_inputs
    from timeroof.study.cluster import Ran, where_cases_ran
    from timeroof.study.grid import unique
    from timeroof.study.run import check_store
    from timeroof.study.store import Store

    names = list(dict.fromkeys(kernels or []))
    if sets == ["list"]:
        typer.echo("\n".join(asked.parameter_lines(names)))
        return
    if out is None and html is None and json is None and save is None:
        out = Path(FOLDER)
    check_outputs(json=json, html=html, save=save, out=out)
    _check_words(overlay, resume=resume, fresh=fresh)
    decided = {
        "KERNEL": names, "--set": sets, "--framework": framework, "--precision": precision,
        "--pass": passes, "--variant": variant, "--factor": factor, "--cache": cache != "warm",
        "--threads": threads != "all", "--device": device != "cpu", "--scheduler": scheduler,
        "--slurm": slurm,
    }  # fmt: skip
    whole = asked.preset_cases(preset, [n for n, v in decided.items() if v], quick=quick)
    if preset == "paper":
        names, factor, passes, overlay = ["conv2d", "lstm"], ["all"], "forward", "paper"
    asked_for = None if framework is None else words(framework, "--framework")
    kernel_names, functions = asked.split_names(names, asked_for)
    nodes = _nodes(scheduler, slurm, "--counters" if counters else "own" if functions else None)
    frameworks = _installed(asked_for or ["torch"]) if kernel_names or not functions else ()
    choices = Choices(
        framework=frameworks[0] if frameworks else "torch",
        frameworks=frameworks,
        device=device,
        precisions=words("fp32" if precision is None else precision, "--precision"),
        passes=None if passes is None else words(passes, "--pass"),
        caches=words(cache, "--cache"),
        threads=thread_counts(threads),
        variants=[] if variant is None else words(variant, "--variant"),
        quick=quick,
    )
    target = db or (out or Path()) / DATABASE
    keep_inputs((machine, *(one.path for one in functions)), (target, json, html, save))
    stage = Stage(fresh=fresh)
    study_of = _Asked(
        kernel_names, functions, sets or [], factor or [], choices, whole, precision is None
    )
    with stoppable(stage), ExitStack() as stack:
        plain = study_of.plain()
        met = asked.met_functions(functions, choices, precision, stack)
        theirs = asked.function_cases(met, sets or [], choices, kernel_names)
        counting_tool = _tool(counters) if counters or not whole else _perf_if_it_counts()
        other = None if machine in (None, "here") else find_machine(str(machine))
        ran = dict.fromkeys([*frameworks, *(case.framework for case in theirs)])
        place, notes = _place(device, list(ran), other, elsewhere=nodes is not None)
        place = replace(place, own={one.name: one for one in functions})
        for one in met:
            one.worker.judge_on(place.machine)
        cases = unique([*plain, *theirs, *study_of.designed(place.machine)])
        if fresh:
            _set_aside(target)
        stage.store, stage.keys = target, [place.key(case) for case in cases]
        with Store(target) as store:
            check_store(store, stage.keys, resume=resume)
            done = _run(
                # Threads that are asked for stay; otherwise cases run on one beside others.
                cases, store, place, quick=quick, counters=counting_tool,
                may_reduce=threads == "all", bound=bool(whole),
                own={one.function.name: one.worker for one in met}, nodes=nodes,
            )  # fmt: skip
            on = Ran(other) if other else where_cases_ran(store, done.results, place.machine)
        found = _judged(done.results, on, notes)
        _tell(found, done, target, _write(found, out, html, save, json, overlay))


class _Asked(NamedTuple):
    """What is to be measured, in the words of the command line."""

    kernels: list[str]
    functions: Sequence[OwnFunction]
    sets: list[str]
    factors: list[str]
    choices: Choices
    # A preset's cases, which stand for the grid of the kernels.
    whole: Sequence[Case]
    one_precision: bool

    def plain(self) -> Sequence[Case]:
        """Cases of the kernels' own grids, or of the preset."""
        if self.whole:
            return self.whole
        swept = asked.sets_for(self.kernels, self.sets, self.functions)
        sweeps = asked.checked_sweeps(
            self.kernels, swept, self.choices, self.factors, self.functions
        )
        return asked.own_cases(sweeps, self.choices)

    def designed(self, machine: Machine | None) -> Sequence[Case]:
        """Cases of the experiments on factors."""
        return asked.designed_cases(
            self.kernels, self.choices, self.factors, machine, one_precision=self.one_precision
        )


def _judged(results: list[Result], on: Ran, notes: list[str]) -> Study:
    from timeroof.study.report import judged_study

    command = "timeroof " + " ".join(sys.argv[1:])
    found = judged_study(
        results, on.machine, command=command, notes=[*notes, *on.notes], by_node=on.by_node
    )
    if not found.rows:
        first = found.failures[0].error if found.failures else "there was nothing to measure"
        raise InputError(f"no case could be measured: {first}")
    return found


def _check_words(overlay: str | None, *, resume: bool, fresh: bool) -> None:
    if overlay is not None and overlay != "paper":
        raise UsageError(f"no overlay is called {overlay!r}", advice="use paper")
    if resume and fresh:
        raise UsageError("--resume and --fresh exclude each other", advice="use one of them")


def _set_aside(store: Path) -> None:
    from timeroof.study.store import set_aside

    if (kept := set_aside(store)) is not None:
        say(f"the old store is kept as {kept}")


def _nodes(scheduler: str | None, slurm: str | None, bound: str | None) -> DaskCluster | None:
    """The cluster that measures, if any; `bound` is what only this computer does."""
    if scheduler is None and slurm is None:
        return None
    from timeroof.core.engines import DaskCluster

    if scheduler is not None and slurm is not None:
        raise UsageError("--scheduler and --slurm are both given", advice="choose one")
    if bound is not None:
        what = "a function of your own" if bound == "own" else bound
        advice = "leave --scheduler and --slurm out"
        raise UsageError(f"{what} is measured on this computer only", advice=advice)
    nodes = DaskCluster(scheduler, slurm)
    nodes.check()
    return nodes


def _tool(counters: CounterTool | None) -> str | None:
    """The profiler's name, once it is known to be there and to count something."""
    if counters is None:
        return None
    from timeroof.counters.tools import find_tool
    from timeroof.study.counters import counts_nothing

    find_tool(counters.value)
    if counts_nothing(counters.value):
        say(
            f"{counters.value} counts neither FLOPs nor bytes on this machine (a virtual machine,"
            " or a kernel without counters): the study goes on without counters"
        )
        return None
    return counters.value


def _perf_if_it_counts() -> str | None:
    """perf, where it is there, may count, and counts something; the model serves without it."""
    from timeroof.study.counters import counts_nothing

    try:
        return None if counts_nothing("perf") else "perf"
    except (UsageError, InputError) as error:
        say(f"FLOPs and bytes are modelled: {error.what}")
        return None


def _installed(frameworks: list[str]) -> tuple[str, ...]:
    """The frameworks that are here; each that is not is one line, and the others go on."""
    from timeroof.study.grid import FRAMEWORKS, check_choice
    from timeroof.study.run import PACKAGES, version_of

    check_choice("framework", frameworks, FRAMEWORKS)
    found = [name for name in dict.fromkeys(frameworks) if version_of(name) is not None]
    missing = [name for name in dict.fromkeys(frameworks) if name not in found]
    if not found:
        ways = " or ".join(f"pip install {PACKAGES.get(name, name)}" for name in missing)
        raise UsageError(f"{' and '.join(missing)} cannot be imported", advice=f"install: {ways}")
    for name in missing:
        how = f"pip install {PACKAGES.get(name, name)}"
        say(f"{name} is not installed: the study goes on without it ({how})")
    return tuple(found)


def _place(
    device: str, frameworks: Sequence[str], other: Machine | None, *, elsewhere: bool
) -> tuple[Place, list[str]]:
    """This machine, measured once if it never was, unless another one judges the cases.

    What was measured before serves all the same: the caches are those that the cases run on.
    Where nodes `elsewhere` run them, this computer need not have the device.
    """
    from timeroof.api.live import machine_for
    from timeroof.probe.measure import cached_machine, load_or_measure
    from timeroof.study.cluster import on_any_node
    from timeroof.study.run import Place

    here, notes = other, list[str]()
    if other is not None:
        here = (cached_machine() if device == "cpu" else None) or other
    elif device == "cpu":
        here, notes = machine_for(None, say)
    else:
        try:
            here = load_or_measure(quick=True, device=device).machine
        except UsageError as error:
            if not elsewhere:
                advice = "use --device cpu, or leave --device out"
                raise UsageError(error.what, advice=advice) from error
    place = Place.here(here, *frameworks)
    return on_any_node(place) if elsewhere else place, notes


def _run(
    cases: list[Case],
    store: Store,
    place: Place,
    *,
    quick: bool,
    counters: str | None,
    may_reduce: bool,
    bound: bool,
    own: Mapping[str, Worker],
    nodes: DaskCluster | None,
) -> Done:
    import msgspec

    from timeroof.cli.main import progress_bar
    from timeroof.study.case import FULL, QUICK
    from timeroof.study.cluster import run_on_nodes
    from timeroof.study.run import run_cases

    plan = msgspec.structs.replace(QUICK if quick else FULL, one_thread_beside_others=may_reduce)
    if bound:
        plan = asked.preset_plan(plan, place.machine, quick=quick)
    counting = None
    if counters is not None:
        from timeroof.study.counters import Counting

        rounds = 1 if bound and quick else 3
        counting = Counting(counters, plan, place.machine, place.own, rounds, once=bound and quick)
    with progress_bar("studying", len(cases)) as advance:
        if nodes is not None:
            return run_on_nodes(cases, store, place, plan, nodes, advance)
        return run_cases(cases, store, place, plan, advance, counting=counting, own=own)


def _write(
    found: Study,
    out: Path | None,
    html: Path | None,
    save: Path | None,
    json: str | None,
    overlay: str | None,
) -> Path | None:
    """Write what is asked for; the page of the study, where there is one."""
    from timeroof.cli.options import write_json, write_outputs

    write_outputs(found.report, html=html, save=save)
    if json is not None:
        write_json(found.report.to_json(), json)
    if out is None:
        return html
    from timeroof.paper.build import build_paper
    from timeroof.study.output.page import write_study

    return write_study(found, out, overlay=build_paper() if overlay else None)


def _tell(found: Study, done: Done, store: Path, page: Path | None) -> None:
    """What could not be measured on stderr, and the summary, whose last line is the page."""
    from timeroof.study.output.utilisation import print_study
    from timeroof.study.report import alike, case_name, leaks_of

    for results in alike(found.failures):
        first, more = results[0], len(results) - 1
        others = f" and {more} more case{'s' * (more > 1)}" if more else ""
        say(f"{first.status}: {case_name(first.case)}{others}: {first.error}")
    for name, text in leaks_of(done.results).items():
        say(f"{name}: {text}")
    before = f", {done.found} of them from before" if done.found else ""
    say(f"{len(done.results)} cases in {store}{before}")
    print_study(found, None if page is None else str(page))
