"""Options of `run` for a vendor's profiler, and what is said while it counts."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timeroof.cli.options import Option

if TYPE_CHECKING:
    from timeroof.api.counting import Counting
    from timeroof.core.report import Report
    from timeroof.live.recording import Recording

PANEL = "Counters (the program runs again under a vendor's profiler)"


class CounterTool(StrEnum):
    """Profilers that count."""

    NCU = "ncu"
    ROCPROFV3 = "rocprofv3"
    PERF = "perf"


def _option(*names: str, **more: Any) -> Option:
    return typer.Option(*names, rich_help_panel=PANEL, **more)


Counters = Annotated[
    CounterTool | None,
    _option(
        "--counters",
        help="Count FLOPs and bytes with ncu, rocprofv3 or perf. The program runs once more (on a"
        " GPU twice), with TIMEROOF_COUNTED=1, and is ended after the counted steps. What it"
        " writes or sends until then happens again.",
    ),
]
MetricsPerRun = Annotated[
    int | None,
    _option(
        "--counter-metrics-per-run",
        min=1,
        help="Maximum metrics to collect per run of the program. The paper used 1."
        " [default: all that fit]",
    ),
]
WholeMachine = Annotated[
    bool,
    _option(
        "--counter-whole-machine",
        help="perf: DRAM bytes of the memory controllers, which count every program of the"
        " machine.",
    ),
]
Chip = Annotated[
    str | None,
    _option(
        "--counter-chip",
        metavar="NAME",
        help="Metrics of this chip, where no driver names it: 9.0, gfx942, Volta, GenuineIntel.",
    ),
]
Folder = Annotated[
    Path | None,
    _option("--counter-folder", help="Keep the profiler's files and the program's output here."),
]


def plan_counting(
    tool: CounterTool | None,
    program: tuple[str | None, list[str]],
    steps: tuple[int, int, str],
    machine: str | None,
    *,
    chip: str | None = None,
    metrics_per_run: int | None = None,
    whole_machine: bool = False,
    folder: Path | None = None,
) -> Counting | None:
    """What will be counted, or a refusal before the program runs; None without `--counters`.

    `program` is a module (or None) and words, `steps` the warm-up, the steps and the marker.
    """
    if tool is None:
        return None
    from timeroof.api.counting import Counting
    from timeroof.api.reports import machine as find_machine
    from timeroof.counters import CollectOptions, check_tool
    from timeroof.counters.options import find_set
    from timeroof.live.running import program_command

    _refuse_ranks()
    options = CollectOptions(
        metrics_per_run=metrics_per_run,
        system_wide=whole_machine,
        folder=_free(folder),
        working_folder=Path.cwd(),
    )
    check_tool(tool.value, options)
    if chip is not None:
        find_set(tool.value, chip)  # one that the profiler's metric sets know
    module, words = program
    warmup, measured, marker = steps
    return Counting(
        tool=tool.value,
        command=tuple(program_command(module, words)),
        marker=marker,
        warmup=warmup,
        measured_steps=measured,
        options=options,
        architecture=chip,
        machine=find_machine(machine) if machine not in (None, "here") else None,
    )


def _refuse_ranks() -> None:
    from timeroof.core.errors import UsageError

    if os.environ.get("WORLD_SIZE", "1") not in ("", "1"):
        raise UsageError(
            "a program of several processes (WORLD_SIZE) cannot be counted",
            advice="run one process of it with --counters, and all of them without",
        )


def _free(folder: Path | None) -> Path | None:
    """A folder that holds no counters yet; it is made when it is needed."""
    from timeroof.cli.options import check_folder
    from timeroof.core.errors import UsageError

    if folder is None:
        return None
    place = check_folder(folder).absolute()
    if (place / "reports").is_dir() and any((place / "reports").iterdir()):
        raise UsageError(
            f"{folder} holds counters of an earlier run",
            advice="name another folder with --counter-folder",
        )
    return place


def run_counted(
    counting: Counting, report: Report, recording: Recording, code: int, clean_s: float
) -> tuple[Report, int]:
    """The report with counters, and the exit code: the program's own, or 2 if counting failed."""
    from dataclasses import replace

    from timeroof.api.counting import count_run, with_note
    from timeroof.cli.main import listen, say
    from timeroof.core.errors import EXIT_INPUT

    if recording.partial is not None or code:
        say(f"not counted: {recording.partial or f'the program ended with code {code}'}")
        return with_note(report, "No counters: the program did not end well."), code
    # The program may have put its own answer to Ctrl-C in place of ours.
    listen()
    try:
        with _terminable(), _told(counting.tool) as progress:
            options = replace(counting.options, progress=progress)
            told = replace(counting, options=options)
            counted = count_run(told, report, recording, clean_s=clean_s, told=say)
    finally:
        # A Ctrl-C that ended the counting has been answered.
        listen()
    _show(report, counted.report)
    if counted.error is not None:
        say(f"no counters: {counted.error.message}")
        return counted.report, EXIT_INPUT
    return counted.report, code


def _show(before: Report, after: Report) -> None:
    """The summary anew where rows changed, else what there is to say more."""
    from timeroof.views.run_summary import print_run
    from timeroof.views.terminal import print_notes

    if after.profile.kernels.equals(before.profile.kernels):
        print_notes([n for n in after.notes if n not in before.notes])
    else:
        print_run(after)


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the profiler and its program with us: they have a session of their own."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


@contextmanager
def _told(tool: str) -> Iterator[Callable[[str, float], None]]:
    """Progress: the forecast as a line that stays, all else in a bar."""
    from timeroof.cli.main import say, share_bar

    with share_bar(f"counting with {tool}") as advance:

        def tell(what: str, share: float) -> None:
            if what.startswith(f"{tool} will run"):
                say(what)
            else:
                advance(what, share)

        yield tell
