"""Profiled steps against unprofiled ones: what the profiler's own cost leaves unexplained."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from timeroof.core.units import format_seconds
from timeroof.core.vocabulary import IdleCause
from timeroof.live.accounting import Account
from timeroof.live.torch.recording import CleanStep, Recording
from timeroof.model.stats import median_error

# Smaller shares of a step are 0.0 %: nothing, or what rounding leaves of a difference.
LEAST_SHARE = 0.0005


@dataclass(frozen=True)
class Balance:
    """An unprofiled step against profiled ones without the profiler's own cost, in seconds.

    Steps touch more or fewer fresh pages as the allocator has it, and switching the profiler
    moves memory about: `extra_faults_s` is what that makes of the difference, at the machine's
    cost per page (positive: profiled steps had more). `error_s` is the difference's standard error.
    """

    clean_s: float | None
    timed_s: float
    profiler_s: float
    extra_faults_s: float
    error_s: float | None

    @property
    def corrected_s(self) -> float:
        """A profiled step without the profiler's own cost."""
        return self.timed_s - self.profiler_s

    @property
    def wall_s(self) -> float:
        """The step as it runs: the unprofiled one, or as near as profiled ones come."""
        return self.corrected_s if self.clean_s is None else self.clean_s

    @property
    def unexplained_s(self) -> float | None:
        """What profiled steps leave of the unprofiled one; below 0 where they were slower."""
        return None if self.clean_s is None else self.clean_s - self.corrected_s

    @property
    def faults_line(self) -> str | None:
        """What page faults make of the difference, where that shows beside the step."""
        if not self.clean_s or abs(self.extra_faults_s) < LEAST_SHARE * self.clean_s:
            return None
        more = "more" if self.extra_faults_s > 0 else "less"
        return (
            f"Page faults of profiled steps take {format_seconds(abs(self.extra_faults_s))} {more}"
            " than those of unprofiled steps."
        )


def balance(
    recording: Recording,
    accounts: Sequence[Account],
    chosen: Sequence[int],
    fault_rate_per_s: float | None = None,
) -> Balance:
    """Compare unprofiled steps with profiled ones, medians of both."""
    timed_s = statistics.fmean(accounts[i].step.duration_ns for i in chosen) / 1e9
    profiler_s = statistics.fmean(accounts[i].idle_ns[IdleCause.PROFILER] for i in chosen) / 1e9
    clean = _comparable(recording.clean)
    if not clean:
        return Balance(None, timed_s, profiler_s, 0.0, None)
    clean_s = statistics.median(clean_durations_s(clean))
    corrected = [(a.step.duration_ns - a.idle_ns[IdleCause.PROFILER]) / 1e9 for a in accounts]
    known = [median_error(values) for values in (clean_durations_s(clean), corrected)]
    events = statistics.fmean(len(accounts[i].step) for i in chosen)
    cost_error_s = (recording.event_cost_error_ns or 0.0) * events / 1e9
    errors = [e for e in known if e is not None]
    error_s = math.hypot(*errors, cost_error_s) if len(errors) == 2 else None
    faults_s = 0.0
    if fault_rate_per_s:
        before, after = (
            statistics.median(s.faults for s in clean),
            statistics.median(a.step.faults for a in accounts),
        )
        faults_s = (after - before) / fault_rate_per_s
    return Balance(clean_s, timed_s, profiler_s, faults_s, error_s)


def _comparable(steps: Sequence[CleanStep]) -> list[CleanStep]:
    """Clean steps; those under the program's own profiler only where all are."""
    return [s for s in steps if not s.profiled] or list(steps)


def clean_durations_s(steps: Sequence[CleanStep]) -> list[float]:
    """Durations of clean steps."""
    return [s.duration_ns / 1e9 for s in _comparable(steps)]
