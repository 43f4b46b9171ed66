"""The timed steps against the clean ones: what the profiler and page faults leave unexplained."""

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

# A residual whose standard error is a larger share of the step says nothing.
MOST_ERROR = 0.5
# Smaller shares of a step are 0.0%: nothing, or what rounding leaves of a difference.
LEAST_SHARE = 0.0005


@dataclass(frozen=True)
class Balance:
    """clean = timed - profiler - extra faults + residual, in seconds.

    Steps touch more or fewer fresh pages as the allocator has it, and switching the profiler
    moves memory about: steps are compared without their faults, at the machine's cost per page.
    `extra_faults_s` is what that takes off the timed steps (negative: off the clean ones).
    """

    clean_s: float | None
    timed_s: float
    profiler_s: float
    extra_faults_s: float
    residual_s: float | None
    error_s: float | None

    @property
    def line(self) -> str | None:
        """The residual in words."""
        if self.residual_s is None or not self.clean_s:
            return None
        if self.error_s is not None and self.error_s > MOST_ERROR * self.clean_s:
            return (
                "residual: too few steps were seen, or too noisy ones, to compare clean steps with"
                " timed ones"
            )
        return (
            f"residual: a clean step is {self._difference} a timed one without the profiler's cost"
            f"{self._faults}"
        )

    @property
    def _difference(self) -> str:
        """How a clean step compares, in words; a difference that shows in no digit is none."""
        residual_s, clean_s = self.residual_s or 0.0, self.clean_s or 1.0
        error = f" ± {self.error_s / clean_s:.1%}" if self.error_s is not None else ""
        if not self._shows(residual_s):
            return f"as long ({error.strip()}) as" if error else "as long as"
        how = "shorter" if residual_s < 0 else "longer"
        return f"{_duration(residual_s)} {how} ({abs(residual_s) / clean_s:.1%}{error}) than"

    @property
    def _faults(self) -> str:
        """What page faults make of it, where that shows beside the step."""
        if not self._shows(self.extra_faults_s):
            return ""
        more = "more" if self.extra_faults_s > 0 else "fewer"
        return f" and {_duration(self.extra_faults_s)} of {more} page faults"

    def _shows(self, seconds: float) -> bool:
        return abs(seconds) >= LEAST_SHARE * (self.clean_s or 0.0)


def balance(
    recording: Recording,
    accounts: Sequence[Account],
    chosen: Sequence[int],
    fault_rate_per_s: float | None = None,
) -> Balance:
    """Compare the clean steps with the timed ones, medians of both."""
    timed_s = statistics.fmean(accounts[i].step.duration_ns for i in chosen) / 1e9
    profiler_s = statistics.fmean(accounts[i].idle_ns[IdleCause.PROFILER] for i in chosen) / 1e9
    clean = _comparable(recording.clean)
    if not clean:
        return Balance(None, timed_s, profiler_s, 0.0, None, None)
    clean_s = statistics.median(clean_durations_s(clean))
    fault_s = 1 / fault_rate_per_s if fault_rate_per_s else 0.0
    without_faults = (
        [s.duration_ns / 1e9 - s.faults * fault_s for s in clean],
        [
            (a.step.duration_ns - a.idle_ns[IdleCause.PROFILER]) / 1e9 - a.step.faults * fault_s
            for a in accounts
        ],
    )
    known = [e for e in map(median_error, without_faults) if e is not None]
    events = statistics.fmean(len(accounts[i].step) for i in chosen)
    cost_error_s = (recording.event_cost_error_ns or 0.0) * events / 1e9
    error_s = math.hypot(*known, cost_error_s) if len(known) == 2 else None
    faults_s = 0.0
    if fault_s and (any(s.faults for s in clean) or any(a.step.faults for a in accounts)):
        medians = [statistics.median(values) for values in without_faults]
        faults_s = timed_s - profiler_s - clean_s + medians[0] - medians[1]
    residual_s = clean_s - (timed_s - profiler_s - faults_s)
    return Balance(clean_s, timed_s, profiler_s, faults_s, residual_s, error_s)


def _duration(seconds: float) -> str:
    """Without a sign; in ms, as steps mostly are, but never with an exponent."""
    size_ms = abs(seconds) * 1e3
    return f"{size_ms:.3g} ms" if 1e-3 <= size_ms < 999.5 else format_seconds(abs(seconds))


def _comparable(steps: Sequence[CleanStep]) -> list[CleanStep]:
    """Clean steps; those under the program's own profiler only where all are."""
    return [s for s in steps if not s.profiled] or list(steps)


def clean_durations_s(steps: Sequence[CleanStep]) -> list[float]:
    """Durations of clean steps."""
    return [s.duration_ns / 1e9 for s in _comparable(steps)]
