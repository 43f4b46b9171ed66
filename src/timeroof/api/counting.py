"""Counters for a live run: the program is run again under a profiler, and both are joined.

The clean run gives times, the counted run amounts. What is counted are steps of the same
program, from where the clean run's first measured step began.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from timeroof.api.reports import analyze
from timeroof.core.errors import PARTIAL, InputError, TimeroofError, as_notes
from timeroof.core.files import temporary_folder
from timeroof.core.machine import Machine
from timeroof.core.profile import Profile, amount_columns, in_unprofiled_seconds
from timeroof.core.report import Report
from timeroof.counters import Collected, CollectOptions, collect, join
from timeroof.counters.join import ONE_STEP
from timeroof.counters.processes import Ran, run, workspace
from timeroof.counters.tools import chip_here
from timeroof.live.recording import Recording
from timeroof.live.running import recorded_environment
from timeroof.machines.catalogue import machine_of_device
from timeroof.read.load import read_files
from timeroof.work.recorded import with_recorded_work
from timeroof_recorder.counted import COUNT, REPEAT, TOLD, TRACE
from timeroof_recorder.log import SUFFIX, records, write_plan

# The program may ask for this to leave out what must not be done twice.
COUNTED = "TIMEROOF_COUNTED"
STOPPED = "Counting was stopped before anything was counted: all amounts are those of shapes."


@dataclass(frozen=True)
class Counting:
    """What to count, of which program, and how."""

    tool: str
    # The command line of the program.
    command: tuple[str, ...]
    marker: str
    warmup: int
    # Steps that the clean run looked at: perf counts as many, a GPU's profiler one.
    measured_steps: int
    options: CollectOptions
    architecture: str | None = None
    # The machine that the user named, if any.
    machine: Machine | None = None


@dataclass(frozen=True)
class Seen:
    """What the counted run told of its steps: how many, whether those to count began and ended."""

    steps: int = 0
    opened: bool = False
    closed: bool = False
    error: str | None = None


@dataclass(frozen=True)
class Counted:
    """A report with counters; where they failed, as it was with a note, and the error."""

    report: Report
    error: TimeroofError | None = None


def count_run(
    counting: Counting, report: Report, recording: Recording, *, clean_s: float,
    told: Callable[[str], None],
) -> Counted:  # fmt: skip
    """Count a program that was run clean; whatever happens, a report comes back."""
    try:
        return Counted(_joined(counting, report, recording, clean_s, told))
    except KeyboardInterrupt:
        return Counted(with_note(report, STOPPED))
    except (TimeroofError, OSError) as raised:
        error = raised if isinstance(raised, TimeroofError) else _no_place(raised)
        note = f"No counters: {error.what}. All amounts are those of shapes."
        return Counted(with_note(report, note), error)


def _no_place(error: OSError) -> InputError:
    return InputError(
        f"the files of counting cannot be written ({error.strerror or error})",
        where=error.filename,
        advice="make space, or set TMPDIR to another folder",
    )


def with_note(report: Report, note: str) -> Report:
    """A report that says one thing more."""
    profile = replace(report.profile, notes=(*report.profile.notes, note))
    return replace(report, profile=profile, notes=as_notes((*report.notes, note)))


def _joined(
    counting: Counting, report: Report, recording: Recording, clean_s: float,
    told: Callable[[str], None],
) -> Report:  # fmt: skip
    left = recording.steps_seen - counting.warmup
    if left < 1:
        raise InputError(
            f"the program made {recording.steps_seen} steps, none after the warm-up",
            advice="let it make more steps, or use --warmup 1",
        )
    if counting.tool != "perf" and not recording.uses_gpu:
        raise InputError(
            f"the program used no GPU, and {counting.tool} counts the kernels of one",
            advice="on a CPU use --counters perf",
        )
    with temporary_folder("timeroof-counted-") as folder:
        more = {COUNTED: "1", **recorded_environment(folder)}
        options = replace(counting.options, environment={**counting.options.environment, **more})
        step_s = (report.profile.steps.unprofiled_s if report.profile.steps else None) or 0.0
        told_options = replace(counting, options=options)
        framework = recording.framework or "torch"
        again = Again(told_options, folder, framework, left, clean_s, step_s, told)
        if counting.tool == "perf":
            return _on_cpu(again, report)
        release_gpu_memory()
        return _on_gpu(again, report)


@dataclass(frozen=True)
class Again:
    """A second run: its plan, and where it leaves what it tells."""

    counting: Counting
    folder: Path
    # Whose steps the clean run saw.
    framework: str
    # Steps that the clean run made after its warm-up, and the seconds that it and a step took.
    left: int
    clean_s: float
    step_s: float
    told: Callable[[str], None]

    def command(self, what: str, steps: int, trace: str = "") -> list[str]:
        """The program's command line, and for the recorder in it what to do with some steps from
        where the measuring began."""
        words = list(self.counting.command)
        plan = {
            "command": words[1:], "framework": self.framework, "marker": self.counting.marker,
            "what": what, "first": self.counting.warmup, "steps": steps, "trace": trace,
        }  # fmt: skip
        for file in self.folder.iterdir():
            file.unlink()
        write_plan(str(self.folder), {"counted": plan})
        return words

    def collected(self, what: str, steps: int, **more: object) -> Collected:
        """Count, and say of an empty region why it was empty."""
        # It is ended early: what the other steps take is spared.
        clean_s = max(0.0, self.clean_s - (self.left - steps) * self.step_s)
        options = replace(self.counting.options, clean_s=clean_s, **more)  # type: ignore[arg-type]
        tool, chip = self.counting.tool, self.counting.architecture
        command = self.command(what, steps)
        try:
            return collect(tool, command, architecture=chip, options=options)
        except InputError as error:
            why = self.why_empty()
            if why is None:
                raise
            raise InputError(why, advice=error.advice) from error

    def seen(self) -> Seen | None:
        """What the last run told of its steps; None where it did not come to that."""
        files = [file.read_bytes() for file in self.folder.glob(f"*{SUFFIX}")]
        told = [record for data in files for record in records(data) if record[1] == TOLD]
        return Seen(*max(told)[2:]) if told else None  # type: ignore[arg-type]

    def why_empty(self) -> str | None:
        """Why no step was looked at, None where that is not the reason."""
        seen = self.seen()
        if seen is None:
            return None
        if seen.error is not None:
            return f"the steps of the counted run cannot be found ({seen.error})"
        if not seen.opened:
            return (
                f"the counted run made {seen.steps} steps and never came to the steps to count,"
                f" which follow step {self.counting.warmup}"
            )
        return None


def _on_cpu(again: Again, report: Report) -> Report:
    """Steps of the program by perf: twice as many less once."""
    counting = again.counting
    steps = min(counting.measured_steps, again.left // 2)
    if steps < 1:
        raise InputError(
            "the program made one step after the warm-up, and perf needs two to subtract",
            advice="let it make more steps, or use a smaller --warmup",
        )
    again.told(
        f"the program is run again under perf, ended after {counting.warmup + steps} and after"
        f" {counting.warmup + 2 * steps} steps; what it prints is not shown"
    )
    collected = again.collected(REPEAT, steps, subtract=True)
    seen = again.seen()
    if seen is not None and not seen.closed and not collected.interrupted:
        raise InputError(
            f"the counted run made {seen.steps} steps where the clean one made"
            f" {counting.warmup + again.left}: nothing can be subtracted",
            advice="make the program do the same each time (seeds, resumed checkpoints)",
        )
    note = (
        f"perf counted {steps} steps of a second run: those of a run of"
        f" {counting.warmup + 2 * steps} steps less those of one of {counting.warmup + steps}."
        " Its amounts are of one step; all times are from the clean run."
    )
    region = _one_step(collected.profile, steps)
    joined = join(report.profile, replace(region, notes=(note, *region.notes)))
    fresh = [n for n in joined.notes if n not in report.profile.notes]
    notes = as_notes(dict.fromkeys((*report.notes, *fresh)))
    return replace(report, profile=joined, notes=notes)


def _one_step(region: Profile, steps: int) -> Profile:
    scaled = ["time_s", *amount_columns(region.kernels)]
    one = region.kernels.with_columns(pl.col(scaled) / steps, pl.lit(ONE_STEP).alias("name"))
    return region.with_kernels(one)


def _on_gpu(again: Again, report: Report) -> Report:
    """Kernels of a GPU: times from the clean run or a traced one, amounts from the profiler."""
    counting = again.counting
    timed = report.profile
    if not timed.kernels["kind"].is_in(KERNELS).any():
        again.told(
            "the program is run again with torch's profiler for the times of its kernels, then"
            f" under {counting.tool}; it is ended after the steps that are looked at, and what it"
            " prints is not shown"
        )
        timed = traced_kernels(again, report)
    else:
        again.told(
            f"the program is run again under {counting.tool}; it is ended after the steps that are"
            " counted, and what it prints is not shown"
        )
    here = machine_of_device(timed.device or "")
    machine = counting.machine or here or (report.machine if timed is report.profile else None)
    chip = counting.architecture or chip_here(counting.tool)
    if chip is None and machine is not None:
        shown = here or machine
        chip = shown.compute_capability or shown.architecture
    told = replace(again, counting=replace(counting, architecture=chip))
    rows = timed.kernels.filter(pl.col("kind").is_in(KERNELS))
    launches = max(1, round(rows["calls"].sum()))
    collected = told.collected(COUNT, 1, region="profiler", expected_kernels=launches)
    joined = join(timed, collected.profile, collected.launches)
    seen = told.seen()
    if seen is not None and not seen.closed:
        note = f"The counted run ended after {seen.steps} steps, before all were counted."
        joined = replace(joined, notes=(*joined.notes, note))
    clean = report.profile.steps
    if clean is not None:
        joined = replace(joined, steps=clean)
    return replace(analyze(joined, machine), extras=report.extras)


def release_gpu_memory() -> None:
    """Give back what the clean run no longer uses: the counted run needs it."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        gc.collect()
        torch.cuda.empty_cache()


# Times of a GPU's kernels: the program once more, a step recorded by torch's profiler. The clean
# run times what the host does; a trace has the device's own timestamps, without any replay.

# Kinds of row that a GPU's profiler counts.
KERNELS = ("kernel", "collective")
# One step warms the profiler up, one is recorded: rows are totals of one step.
TRACED_STEPS = 2


def traced_kernels(again: Again, report: Report) -> Profile:
    """The kernels of a step with their times and what shapes tell of them."""
    steps = min(TRACED_STEPS, again.left)
    trace = again.folder / "trace.json"
    command = again.command(TRACE, steps, str(trace))
    options = again.counting.options
    options.progress("recording the times of kernels", 0.0)
    with workspace(None) as space:
        ran = run(command, space.output, options)
    if ran.interrupted:
        raise KeyboardInterrupt
    if not trace.is_file():
        raise InputError(again.why_empty() or _why(ran), advice="run it without --counters")
    profile = read_files([trace])
    if not profile.kernels["kind"].is_in(KERNELS).any():
        raise InputError(
            "torch's profiler recorded no kernel of a GPU",
            advice="check that the steps use the GPU, and that this PyTorch traces it (CUPTI)",
        )
    machine = again.counting.machine or machine_of_device(profile.device or "")
    counted = with_recorded_work(profile, machine)
    rows = counted.kernels.filter(pl.col("kind").is_in(KERNELS))
    note = (
        f"The rows are the GPU's kernels ({rows.height} rows) with their times from a run with"
        " torch's profiler, without counters; the time of a step is the clean run's."
    )
    # Notes of the unprofiled run that still hold.
    still = tuple(n for n in as_notes(report.profile.notes) if n.code == PARTIAL)
    timed = replace(counted, notes=(*still, note, *counted.notes))
    # The step is the unprofiled run's, as everything of a live run is.
    return in_unprofiled_seconds(replace(timed, steps=report.profile.steps))


def _why(ran: Ran) -> str:
    if ran.timed_out:
        return "the run that records the times of kernels was stopped at its time limit"
    lines = [line for line in ran.text.splitlines() if line.strip()]
    words = f" ({' '.join(lines[-1].split())[:200]})" if lines else ""
    return f"the run that records the times of kernels ended with code {ran.code}, no trace{words}"
