"""Every second of the timed steps: ops, host work between them, waiting, and the profiler."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from timeroof.core.errors import CONTENDED, CROWDED, UNTRUSTED, Note
from timeroof.core.vocabulary import IdleCause
from timeroof.live import recording as recorded
from timeroof.live.recording import CleanStep, Described, EventName, Ints, Recording, TimedStep
from timeroof.model.stats import median_error
from timeroof_recorder.instruments import STATED

CAUSES = (
    IdleCause.PYTHON, IdleCause.DISPATCH, IdleCause.AUTOGRAD, IdleCause.DATA,
    IdleCause.COMMUNICATION, IdleCause.RUNTIME, IdleCause.COMPILE, IdleCause.HOST_SYNC,
    IdleCause.ASLEEP, IdleCause.CPU_WAIT, IdleCause.PROFILER,
)  # fmt: skip
# Codes of events: 0 an op, 1 a region whose cost the user states, below 0 an idle cause.
_OP, _STATED = 0, 1
_CAUSE_OF = {-1 - place: cause for place, cause in enumerate(CAUSES)}
_CODE_OF = {cause.value: code for code, cause in _CAUSE_OF.items()} | {STATED: _STATED}
_PYTHON, _AUTOGRAD = _CODE_OF["python"], _CODE_OF["autograd"]
# Shares of a step below this are what clocks and a host's pauses of a virtual machine amount to.
LEAST_SHARE = 0.02
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Account:
    """One timed step: self time per event without the profiler's share, and idle by cause.

    Their sum is the step's duration, to the nanosecond. `raw_ns` are the events' own times with
    the profiler's share, `kept` what is left of every segment of the cut without it. `is_op`
    says which events are rows; `owner` is the event on whose account another one's time goes
    (regions and ops whose cost the user states take all inside).
    """

    step: TimedStep
    cut: Exclusive
    is_op: Ints
    owner: Ints
    self_ns: Ints
    raw_ns: Ints
    kept: Floats
    idle_ns: dict[IdleCause, int]
    kind: Ints
    phase: list[str | None] = field(repr=False, default_factory=list)

    def cause_of(self, event: int) -> IdleCause:
        """Why an event that is no row took its time."""
        return _CAUSE_OF.get(int(self.kind[event]), IdleCause.DISPATCH)


def with_stated(step: TimedStep, ops: Sequence[Described]) -> TimedStep:
    """A step in which ops whose cost the user states take the time of all that they call, as
    regions with a stated cost do."""
    names = {op.name for op in ops if op.stated is not None}
    if not names.intersection(step.names):
        return step
    told = tuple(
        one._replace(cause=STATED, cause_if_numbered=STATED) if name in names else one
        for name, one in zip(step.names, _told(step), strict=True)
    )
    return replace(step, told=told)


def account(step: TimedStep, event_cost_ns: float) -> Account:
    """Split a step up."""
    kind = _codes(step)
    by_user = step.scope == recorded.USER_SCOPE
    kind = np.where((kind == 0) & by_user, _PYTHON, kind)
    kind = np.where((kind == 0) & (step.scope == recorded.BACKWARD_SCOPE), _AUTOGRAD, kind)
    cut = exclusive(step, (kind == _PYTHON) | (kind == _AUTOGRAD))
    owner, phase = _inherit(step, cut.parent, kind)
    is_op = (kind[owner] >= 0).astype(np.int64) if len(step) else kind
    raw = np.zeros(len(step), np.int64)
    np.add.at(raw, owner, cut.self_ns)
    self_ns, gap_ns, taken_ns = _without_profiler(raw, cut, owner, event_cost_ns)
    idle = dict.fromkeys(CAUSES, 0)
    idle[IdleCause.PYTHON] = gap_ns
    idle[IdleCause.PROFILER] = taken_ns
    for code, cause in _CAUSE_OF.items():
        idle[cause] += int(self_ns[kind == code].sum())
    idle[IdleCause.ASLEEP] = _asleep_ns(step, cut, kind, idle)
    idle[IdleCause.PYTHON] -= idle[IdleCause.ASLEEP]
    own = np.where(kind >= 0, self_ns, 0)
    kept = _kept(cut, owner, raw, self_ns, gap_ns)
    return Account(step, cut, is_op, owner, own, raw, kept, idle, kind, phase)


def _kept(cut: Exclusive, owner: Ints, raw: Ints, self_ns: Ints, gap_ns: int) -> Floats:
    """The share of every segment that is the program's: its account's without the profiler's."""
    shares = np.divide(self_ns, raw, out=np.ones(len(raw)), where=raw > 0)
    of_gaps = gap_ns / cut.gap_ns if cut.gap_ns else 1.0
    # A gap's owner, -1, is the last place.
    kept: Floats = np.append(shares[owner], of_gaps)[cut.owner]
    return kept


def _asleep_ns(step: TimedStep, cut: Exclusive, kind: Ints, idle: dict[IdleCause, int]) -> int:
    """How long the program slept between its ops; 0 where that is too little to be believed. A
    thread that waits for a data loader or a collective sleeps there. One that slept so many times
    slept in at most so many gaps: what a busy machine took from all the others was no sleep."""
    asleep = max(0, step.asleep_ns - idle[IdleCause.DATA] - idle[IdleCause.COMMUNICATION])
    asleep = min(asleep, idle[IdleCause.PYTHON])
    if step.sleeps is not None and asleep:
        asleep = min(asleep, _longest_ns(step, cut, kind, step.sleeps))
    return asleep if asleep >= LEAST_SHARE * step.duration_ns else 0


def _longest_ns(step: TimedStep, cut: Exclusive, kind: Ints, count: int) -> int:
    """Time of the program itself in its longest stretches between ops, at most so many. Ops of
    other threads do not end a stretch: who waits for them sleeps once."""
    # A gap's owner, -1, is the last place.
    is_python = np.append(kind == _PYTHON, True)[cut.owner]
    is_stepping = np.append(step.thread == step.main_thread, True)[cut.owner]
    stretch = np.cumsum(is_stepping & ~is_python)
    length_ns = np.where(is_python, cut.end_ns - cut.start_ns, 0)
    by_stretch = np.zeros(int(stretch[-1]) + 1 if len(stretch) else 0, np.int64)
    np.add.at(by_stretch, stretch, length_ns)
    by_stretch.sort()
    return int(by_stretch[max(0, len(by_stretch) - count) :].sum())


def _codes(step: TimedStep) -> Ints:
    """What every event is by what the instruments say of its name."""
    told = _told(step)
    plain = np.array([_code(t.cause) for t in told], np.int64)
    numbered = np.array([_code(t.cause_if_numbered) for t in told], np.int64)
    if not len(step):
        return np.zeros(0, np.int64)
    found: Ints = np.where(step.sequence >= 0, numbered[step.name], plain[step.name])
    return found


def _told(step: TimedStep) -> Sequence[EventName]:
    return step.told or (EventName(),) * len(step.names)


def _code(cause: str | None) -> int:
    return _OP if cause is None else _CODE_OF.get(cause, _PYTHON)


def _inherit(step: TimedStep, parent: Ints, kind: Ints) -> tuple[Ints, list[str | None]]:
    """Whose account an event is on (its own, or that of a region around it), and its phase."""
    owner = np.arange(len(step), dtype=np.int64)
    opens = [told.phase for told in _told(step)]
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
    """The places of the values around the median, so that means are exact sums and robust."""
    order = sorted(range(len(durations)), key=lambda i: durations[i])
    keep = max(1, math.ceil(len(order) / 2)) if len(order) > 2 else len(order)
    first = (len(order) - keep) // 2
    return sorted(order[first : first + keep])


# Whose is every nanosecond of a timed step: one op's, or nobody's (a gap between ops).
#
# An instant belongs to the innermost op of the stepping thread; where that runs none (a region that
# the program or a library named is none), to the innermost op of another thread; else it is a gap.
# So nothing counts twice, and who waits inside a named region for a collective is communicating.


GAP = -1
Segment = tuple[int, int, int]


@dataclass(frozen=True)
class Exclusive:
    """A step cut into segments that cover it without overlap; `owner` is an event or GAP."""

    parent: Ints
    start_ns: Ints
    end_ns: Ints
    owner: Ints

    @property
    def self_ns(self) -> Ints:
        """Time of every event that no other event has."""
        own = self.owner != GAP
        total = np.zeros(len(self.parent), np.int64)
        np.add.at(total, self.owner[own], (self.end_ns - self.start_ns)[own])
        return total

    @property
    def gap_ns(self) -> int:
        """Time outside all events."""
        gaps = self.owner == GAP
        return int((self.end_ns - self.start_ns)[gaps].sum())


def exclusive(step: TimedStep, surrounds: npt.NDArray[np.bool_] | None = None) -> Exclusive:
    """Cut a step into the segments of its innermost ops and the gaps between them. Events of the
    stepping thread that only `surrounds` others give way to what other threads do."""
    is_open = np.append(np.zeros(len(step), bool) if surrounds is None else surrounds, True)
    parent = np.full(len(step), -1, np.int64)
    threads = list(dict.fromkeys([step.main_thread, *np.unique(step.thread).tolist()]))
    cover: list[Segment] = [(step.begin_ns, step.finish_ns, GAP)]
    for thread in threads:
        rows = np.flatnonzero(step.thread == thread)
        cover = _fill(cover, _segments(step, rows, parent), is_open)
    table = np.array(cover, np.int64).reshape(-1, 3)
    return Exclusive(parent, table[:, 0], table[:, 1], table[:, 2])


def _segments(step: TimedStep, rows: Ints, parent: Ints) -> list[Segment]:
    starts, ends = step.start_ns[rows].tolist(), step.end_ns[rows].tolist()
    found: list[Segment] = []
    stack: list[tuple[int, int]] = []  # event, end
    now = step.begin_ns
    for event, start, end in zip(rows.tolist(), starts, ends, strict=True):
        while stack and stack[-1][1] <= start:
            now = _spend(found, now, stack[-1][1], stack.pop()[0])
        if stack:
            now = _spend(found, now, start, stack[-1][0])
            parent[event] = stack[-1][0]
            end = min(end, stack[-1][1])  # noqa: PLW2901
        now = max(now, start)
        stack.append((event, end))
    while stack:
        now = _spend(found, now, stack[-1][1], stack.pop()[0])
    return found


def _spend(found: list[Segment], begin: int, end: int, event: int) -> int:
    if end > begin:
        found.append((begin, end, event))
        return end
    return begin


def _fill(
    cover: list[Segment], more: list[Segment], is_open: npt.NDArray[np.bool_]
) -> list[Segment]:
    """Put segments into what is open of a cover (a gap's owner, -1, is the last place); what is not
    in there is left out."""
    if not more:
        return cover
    filled: list[Segment] = []
    place = 0
    for begin, end, owner in cover:
        if not is_open[owner]:
            filled.append((begin, end, owner))
            continue
        while place < len(more) and more[place][1] <= begin:
            place += 1
        now, at = begin, place
        while at < len(more) and more[at][0] < end:
            low, high = max(more[at][0], now), min(more[at][1], end)
            if high > low:
                if low > now:
                    filled.append((now, low, owner))
                filled.append((low, high, more[at][2]))
                now = high
            at += 1
        if end > now:
            filled.append((now, end, owner))
    return filled


# Profiled steps against unprofiled ones: what the profiler's own cost leaves unexplained.


@dataclass(frozen=True)
class Balance:
    """An unprofiled step against profiled ones without the profiler's own cost, in seconds.
    `error_s` is the difference's standard error."""

    clean_s: float | None
    timed_s: float
    profiler_s: float
    error_s: float | None

    @property
    def corrected_s(self) -> float:
        """A profiled step without the profiler's own cost."""
        return self.timed_s - self.profiler_s

    @property
    def wall_s(self) -> float:
        """The step as it runs: the unprofiled one, or as near as profiled ones come."""
        return self.corrected_s if self.clean_s is None else self.clean_s


def balance(recording: Recording, accounts: Sequence[Account], chosen: Sequence[int]) -> Balance:
    """Compare unprofiled steps with profiled ones, medians of both."""
    timed_s = statistics.fmean(accounts[i].step.duration_ns for i in chosen) / 1e9
    profiler_s = statistics.fmean(accounts[i].idle_ns[IdleCause.PROFILER] for i in chosen) / 1e9
    clean = _comparable(recording.clean)
    if not clean:
        return Balance(None, timed_s, profiler_s, None)
    clean_s = statistics.median(clean_durations_s(clean))
    corrected = [(a.step.duration_ns - a.idle_ns[IdleCause.PROFILER]) / 1e9 for a in accounts]
    known = [median_error(values) for values in (clean_durations_s(clean), corrected)]
    events = statistics.fmean(len(accounts[i].step) for i in chosen)
    error_ns = (recording.event_cost_error_ns or 0.0) * recording.event_stretch
    cost_error_s = error_ns * events / 1e9
    errors = [e for e in known if e is not None]
    error_s = math.hypot(*errors, cost_error_s) if len(errors) == 2 else None
    return Balance(clean_s, timed_s, profiler_s, error_s)


def _comparable(steps: Sequence[CleanStep]) -> list[CleanStep]:
    """Clean steps; those under the program's own profiler only where all are."""
    return [s for s in steps if not s.profiled] or list(steps)


def clean_durations_s(steps: Sequence[CleanStep]) -> list[float]:
    """Durations of clean steps."""
    return [s.duration_ns / 1e9 for s in _comparable(steps)]


# Whether other programs had the CPUs while this one wanted them.


# Shares of waiting below this are the ordinary comings and goings of a system.
LEAST_WAITING = 0.05
# Above this share no time of the run says anything of the program.
MOST_WAITING = 0.30
# Below this the system's ticks of 10 ms do not say who had the CPUs.
LEAST_LOOK_NS = 50_000_000
# Quantiles of a row's times beside busy neighbours, as tried on steps of known times.
LOW_ONE_THREAD, LOW_THREADS = 0.25, 0.10


def waiting_share(threads: Mapping[int, tuple[int, int]]) -> float | None:
    """The share of their runnable time that threads waited for a CPU, from the nanoseconds that
    each ran and waited; None where nobody counts that.

    >>> waiting_share({7: (300, 100), 8: (0, 0)})
    0.25
    """
    ran_ns = sum(ran for ran, _ in threads.values())
    waited_ns = sum(waited for _, waited in threads.values())
    return waited_ns / (ran_ns + waited_ns) if ran_ns > 0 else None


class Look(NamedTuple):
    """One look at the threads: what each ran and waited (ns), what ran on the CPUs of the process,
    and of that the process itself."""

    threads: Mapping[int, tuple[int, int]]
    busy_ns: int
    own_ns: int


def own_waiting(looks: Sequence[Look]) -> float | None:
    """The share of waiting for a CPU in which other threads of the program had it: others made it
    wait for at most as long as they ran. None where too little waited for the system's ticks.

    >>> second = 10**9
    >>> begin, end = Look({1: (0, 0)}, 0, 0), Look({1: (0, second)}, 9 * second, 8.5 * second)
    >>> own_waiting([begin, end])
    0.5
    """
    if len(looks) < 2:
        return None
    first, last = looks[0], looks[-1]
    waited = sum(ns - first.threads.get(t, (0, 0))[1] for t, (_, ns) in last.threads.items())
    if waited < LEAST_LOOK_NS:
        return None
    others = max(0, last.busy_ns - first.busy_ns - (last.own_ns - first.own_ns))
    return 1 - min(waited, others) / waited


def contention_note(share: float | None, own: float | None = None) -> Note | None:
    """A word where others held the CPUs; above a third of the time it comes before all others.
    `own` is the part of it in which threads of the program had them, where that is known."""
    if share is None or share < LEAST_WAITING:
        return None
    others = share * (1 - (own or 0.0))
    if others < LEAST_WAITING:
        words = "This program has more threads than CPUs: they waited"
        return Note(f"{words} {100 * share:.0f} % of their time for one another.", CROWDED)
    waited = f"this program waited {100 * others:.0f} % of its time for a CPU"
    if others <= MOST_WAITING:
        busy = "The CPUs were busy with other programs"
        busy += ", or with threads of its own" if own is None else ""
        return Note(f"{busy}: {waited}.", CONTENDED, "warning")
    words = f"Times are not to be trusted: {waited}. FLOPs, bytes and bounds hold."
    return Note(words, UNTRUSTED, "warning")


def busy_quantile(steps: Sequence[TimedStep], threads: int | None) -> float | None:
    """Which quantile of a row's times over steps stands for it where others held the CPUs; None
    where nobody did. Waiting falls on single events, so most steps have most rows undisturbed: with
    one thread the lower quartile is right, with several, which wait for one another, less."""
    whole_ns = sum(step.duration_ns for step in steps)
    waited_ns = sum(step.waited_ns + step.others_waited_ns for step in steps)
    if not whole_ns or waited_ns < LEAST_WAITING * whole_ns:
        return None
    return LOW_ONE_THREAD if threads == 1 else LOW_THREADS


def idle_seconds(
    accounts: Sequence[Account], chosen: Sequence[int], quantile: float | None, rows_s: float = 0.0
) -> dict[str, float]:
    """Seconds outside ops by cause, without the profiler's own. Where others held the CPUs, Python
    has no more than what the thread ran besides its rows: a step often waits between two ops, as
    the profiler's start has used up its turn."""
    causes = [cause for cause in accounts[0].idle_ns if cause != IdleCause.PROFILER]
    if quantile is None:
        means = {c: statistics.fmean(accounts[i].idle_ns[c] for i in chosen) for c in causes}
        return {cause.value: ns / 1e9 for cause, ns in means.items()}
    found = {
        cause.value: float(np.quantile([a.idle_ns[cause] for a in accounts], quantile)) / 1e9
        for cause in causes
    }
    ran_ns = [
        a.step.duration_ns - a.step.waited_ns - a.idle_ns[IdleCause.PROFILER] for a in accounts
    ]
    ran_s = max(0.0, float(np.quantile(ran_ns, quantile)) / 1e9)
    above_s = max(0.0, rows_s + sum(found.values()) - ran_s)
    python = IdleCause.PYTHON.value
    found[python] = max(0.0, found.get(python, 0.0) - above_s)
    return found


def cpu_wait_s(recording: Recording, rest_s: float) -> float:
    """What a step waited for a CPU: as much as clocks show, and at most what nothing else explains.
    Unprofiled steps know their own thread's waiting; of other threads profiled ones do."""
    own = [step.waited_ns for step in recording.clean if step.waited_ns is not None]
    own = own or [step.waited_ns for step in recording.timed]
    others = [step.others_waited_ns for step in recording.timed]
    waited_ns = (statistics.median(own) if own else 0.0) + (
        statistics.median(others) if others else 0.0
    )
    return max(0.0, min(waited_ns / 1e9, rest_s))
