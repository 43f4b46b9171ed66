"""Times of a GPU's kernels: the program once more, a step recorded by torch's profiler.

The clean run times what the host does. Where its rows have no kernels, a trace has: the device's
own timestamps, which neither replay nor serialise anything.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.counters.running import Ran, run
from timeroof.counters.workspace import workspace
from timeroof.machines.catalogue import machine_of_device
from timeroof.read.reading import read_files
from timeroof.work.recorded_calls import with_recorded_work

if TYPE_CHECKING:
    from timeroof.api.counting import Again
    from timeroof.core.machine import Machine
    from timeroof.core.report import Report

# Kinds of row that a GPU's profiler counts.
KERNELS = ("kernel", "collective")
# One step warms the profiler up, one is recorded: rows are totals of one step.
TRACED_STEPS = 2


def traced_kernels(again: Again, report: Report) -> Profile:
    """The kernels of a step with their times and what shapes tell of them."""
    steps = min(TRACED_STEPS, again.left)
    trace = again.folder / "trace.json"
    plan = again.plan("trace", steps, str(trace))
    options = again.counting.options
    options.progress("recording the times of kernels", 0.0)
    with workspace(None) as space:
        ran = run(again.command(plan), space.output, options)
    if ran.interrupted:
        raise KeyboardInterrupt
    if not trace.is_file():
        raise InputError(again.why_empty(plan) or _why(ran), advice="run it without --counters")
    profile = read_files([trace])
    if not profile.kernels["kind"].is_in(KERNELS).any():
        raise InputError(
            "torch's profiler recorded no kernel of a GPU",
            advice="check that the steps use the GPU, and that this PyTorch traces it (CUPTI)",
        )
    counted = with_recorded_work(profile, again.counting.machine or _machine(profile))
    rows = counted.kernels.filter(pl.col("kind").is_in(KERNELS))
    note = (
        f"The rows are the GPU's kernels ({rows.height} rows) with their times from a run with"
        " torch's profiler, without counters; the time of a step is the clean run's."
    )
    return replace(counted, notes=(*_kept(report), note, *counted.notes))


def _machine(profile: Profile) -> Machine | None:
    return machine_of_device(profile.device) if profile.device else None


def _kept(report: Report) -> tuple[str, ...]:
    """Notes of the clean run that still hold."""
    return tuple(n for n in report.profile.notes if n.startswith("partial"))


def _why(ran: Ran) -> str:
    if ran.timed_out:
        return "the run that records the times of kernels was stopped at its time limit"
    lines = [line for line in ran.text.splitlines() if line.strip()]
    words = f" ({' '.join(lines[-1].split())[:200]})" if lines else ""
    return f"the run that records the times of kernels ended with code {ran.code}, no trace{words}"
