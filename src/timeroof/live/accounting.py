"""Every second of the timed steps: ops, host work between them, waiting, and the profiler."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from timeroof.sources.live.torch_run.compiling import is_glue
from timeroof.sources.live.torch_run.contexts import DATA, ENGINE, phase_of_name
from timeroof.sources.live.torch_run.costing import COST
from timeroof.sources.live.torch_run.exclusive import GAP, Exclusive, exclusive
from timeroof.sources.live.torch_run.recording import CleanStep, Ints, Recording, TimedStep

PYTHON, AUTOGRAD, DATA_WAIT, PROFILER = "python", "autograd", "data loading", "profiler"
# Ops that do no work of their own: views, allocation, ops that only call others.
DISPATCHER = "dispatcher"
# Nothing runs but a collective, in a thread of its library: the program waits for other ranks.
COMMUNICATION = "communication"
CAUSES = (PYTHON, DISPATCHER, AUTOGRAD, DATA_WAIT, COMMUNICATION, PROFILER)
_PYTHON, _AUTOGRAD, _DATA, _COMMUNICATION = -1, -2, -3, -4
_CAUSE_OF = {
    _PYTHON: PYTHON,
    _AUTOGRAD: AUTOGRAD,
    _DATA: DATA_WAIT,
    _COMMUNICATION: COMMUNICATION,
}
# How torch.distributed names what its backends do.
_COLLECTIVES = ("gloo:", "mpi:", "ucc:", "nccl:")
USER_SCOPE, BACKWARD_SCOPE = 7, 1
# A residual whose standard error is a larger share of the step says nothing.
MOST_ERROR = 0.5


@dataclass(frozen=True)
class Account:
    """One timed step: self time per event without the profiler's share, and idle by cause.

    Their sum is the step's duration, to the nanosecond. `is_op` says which events are rows;
    `owner` is the event on whose account another one's time goes (regions take all inside).
    """

    step: TimedStep
    cut: Exclusive
    is_op: Ints
    owner: Ints
    self_ns: Ints
    idle_ns: dict[str, int]
    kind: Ints
    phase: list[str | None] = field(repr=False, default_factory=list)

    def cause_of(self, event: int) -> str:
        """Why an event that is no row took its time."""
        return _CAUSE_OF.get(int(self.kind[event]), DISPATCHER)


def account(step: TimedStep, event_cost_ns: float) -> Account:
    """Split a step up."""
    cut = exclusive(step)
    kinds = np.array([_kind(n) for n in step.names], np.int64)
    kind = kinds[step.name] if len(step) else np.zeros(0, np.int64)
    kind = np.where((kind == 0) & ((step.scope == USER_SCOPE) | _glue(step)), _PYTHON, kind)
    kind = np.where((kind == 0) & (step.scope == BACKWARD_SCOPE), _AUTOGRAD, kind)
    owner, phase = _inherit(step, cut.parent, kind)
    is_op = (kind[owner] >= 0).astype(np.int64) if len(step) else kind
    raw = np.zeros(len(step), np.int64)
    np.add.at(raw, owner, cut.self_ns)
    self_ns, gap_ns, taken_ns = _without_profiler(raw, cut, owner, event_cost_ns)
    idle = dict.fromkeys(CAUSES, 0)
    idle[PYTHON] = gap_ns
    idle[PROFILER] = taken_ns
    for code, cause in _CAUSE_OF.items():
        idle[cause] += int(self_ns[kind == code].sum())
    own = np.where(kind >= 0, self_ns, 0)
    return Account(step, cut, is_op, owner, own, idle, kind, phase)


def _glue(step: TimedStep) -> npt.NDArray[np.bool_]:
    """Which events only surround others, by name and by whether autograd numbered them."""
    plain = np.array([is_glue(n) for n in step.names], np.bool_)
    numbered = np.array([is_glue(n, 0) for n in step.names], np.bool_)
    found: npt.NDArray[np.bool_] = np.where(
        step.sequence >= 0, numbered[step.name], plain[step.name]
    )
    return found


def _kind(name: str) -> int:
    """0 for what scope decides, 1 for a stated region, else the cause of its own time."""
    if name.startswith(COST):
        return 1
    if name.startswith(DATA):
        return _DATA
    if name.startswith(_COLLECTIVES):
        return _COMMUNICATION
    return _AUTOGRAD if name.startswith(ENGINE) else 0


def _inherit(step: TimedStep, parent: Ints, kind: Ints) -> tuple[Ints, list[str | None]]:
    """Whose account an event is on (its own, or that of a region around it), and its phase."""
    owner = np.arange(len(step), dtype=np.int64)
    opens = [phase_of_name(n) for n in step.names]
    phase: list[str | None] = []
    for event, (above, name) in enumerate(zip(parent.tolist(), step.name.tolist(), strict=True)):
        inherited = phase[above] if above >= 0 else None
        phase.append(opens[name] or inherited)
        if above >= 0 and kind[owner[above]] == 1:
            owner[event] = owner[above]
    return owner, phase


def _without_profiler(
    raw: Ints, cut: Exclusive, owner: Ints, cost_ns: float
) -> tuple[Ints, int, int]:
    """Take each event's cost out of what surrounds it: the event above it, or the gap."""
    children = np.zeros(len(raw), np.int64)
    inner = cut.parent >= 0
    np.add.at(children, owner[cut.parent[inner]], 1)
    taken = np.minimum(raw, np.rint(children * cost_ns).astype(np.int64))
    from_gap = min(cut.gap_ns, round(float((~inner).sum()) * cost_ns))
    return raw - taken, cut.gap_ns - from_gap, int(taken.sum()) + from_gap


def middle_half(durations: Sequence[int]) -> list[int]:
    """The places of the values around the median, so that means are exact sums and robust.

    >>> middle_half([5, 1, 100, 6])
    [0, 3]
    """
    order = sorted(range(len(durations)), key=lambda i: durations[i])
    keep = max(1, math.ceil(len(order) / 2)) if len(order) > 2 else len(order)
    first = (len(order) - keep) // 2
    return sorted(order[first : first + keep])


@dataclass(frozen=True)
class Balance:
    """The timed step against the clean one.

    Switching the profiler moves memory about: timed steps may touch more fresh pages than
    clean ones. `extra_faults_s` is what those more cost, at the machine's cost per page.
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
        share = abs(self.residual_s) / self.clean_s
        error = f" ± {self.error_s / self.clean_s:.1%}" if self.error_s is not None else ""
        faults = f" and {self.extra_faults_s * 1e3:.3g} ms of more page faults"
        return (
            f"residual: a clean step is {abs(self.residual_s) * 1e3:.3g} ms"
            f" {'shorter' if self.residual_s < 0 else 'longer'} ({share:.1%}{error})"
            " than a timed one without the profiler's cost"
            f"{faults if self.extra_faults_s > 0 else ''}"
        )


def balance(
    recording: Recording,
    accounts: Sequence[Account],
    chosen: Sequence[int],
    fault_rate_per_s: float | None = None,
) -> Balance:
    """Compare the clean steps' median with the timed steps."""
    timed_s = statistics.fmean(accounts[i].step.duration_ns for i in chosen) / 1e9
    profiler_s = statistics.fmean(accounts[i].idle_ns[PROFILER] for i in chosen) / 1e9
    clean = clean_durations_s(recording.clean)
    if not clean:
        return Balance(None, timed_s, profiler_s, 0.0, None, None)
    faults_s = extra_faults(recording) / fault_rate_per_s if fault_rate_per_s else 0.0
    clean_s = statistics.median(clean)
    all_timed = [(a.step.duration_ns - a.idle_ns[PROFILER]) / 1e9 for a in accounts]
    errors = [standard_error(clean), standard_error(all_timed)]
    known = [e for e in errors if e is not None]
    events = statistics.fmean(len(accounts[i].step) for i in chosen)
    cost_error_s = (recording.event_cost_error_ns or 0.0) * events / 1e9
    error = math.hypot(*known, cost_error_s) if len(known) == 2 else None
    residual_s = clean_s - (timed_s - profiler_s - faults_s)
    return Balance(clean_s, timed_s, profiler_s, faults_s, residual_s, error)


def extra_faults(recording: Recording) -> float:
    """Page faults that timed steps have more than clean ones, medians."""
    if not recording.clean or not recording.timed_faults:
        return 0.0
    clean = statistics.median(s.faults for s in recording.clean)
    return max(0.0, statistics.median(recording.timed_faults) - clean)


def clean_durations_s(steps: Sequence[CleanStep]) -> list[float]:
    """Durations of clean steps; under the program's own profiler only where all are."""
    own = [s for s in steps if not s.profiled] or list(steps)
    return [s.duration_ns / 1e9 for s in own]


def standard_error(values: Sequence[float]) -> float | None:
    """Standard error of a median, from the quartiles; None for fewer than four values."""
    if len(values) < 4:
        return None
    low, _, high = statistics.quantiles(values, n=4)
    return 1.2533 * (high - low) / 1.349 / math.sqrt(len(values))


__all__ = ["CAUSES", "GAP", "Account", "Balance", "account", "balance", "middle_half"]
