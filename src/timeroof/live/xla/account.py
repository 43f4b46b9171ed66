"""Every nanosecond of a step of XLA's: kernels before the runtime, compiling, dispatch, Python.

Kernels run in a pool of threads, several at once, while the stepping thread dispatches or waits.
Each instant counts once: kernels that run at once share it equally.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from timeroof.core.profile import Wait
from timeroof.live import accounting
from timeroof.live.accounting import Account
from timeroof.live.recording import EventName, Ints, TimedStep
from timeroof.live.xla.steps import Level, XlaStep

Floats = npt.NDArray[np.float64]
_CAUSES = {
    Level.DATA: "data",
    Level.RUNTIME: "runtime",
    Level.COMPILE: "compile",
    Level.READING: "host-sync",
    Level.DISPATCH: "dispatch",
}
_PROFILER = "profiler"


def account(step: XlaStep, event_cost_ns: float) -> Account:
    """The step's account; the cost of recording events is taken from what surrounds each."""
    return accounting.account(in_a_row(step, event_cost_ns), 0.0)


def waits_of(steps: Sequence[TimedStep]) -> list[Wait]:
    """The lines in which a step waits for results or copies them, the longest first."""
    found: dict[str, list[float]] = {}
    for step in steps:
        if isinstance(step, XlaStep) and step.waits:
            busy = _busy(step)
            for start, end, line in step.waits:
                waited_ns = float(np.diff(np.interp([start, end], *busy))[0])
                sums = found.setdefault(line, [0.0, 0.0, 0.0])
                for place, value in enumerate((1.0, end - start - waited_ns, waited_ns)):
                    sums[place] += value / len(steps)
    lines = [
        Wait(line=line, calls=calls, idle_s=idle / 1e9, busy_s=busy_ns / 1e9)
        for line, (calls, idle, busy_ns) in found.items()
    ]
    return sorted(lines, key=lambda one: -one.idle_s - one.busy_s)


def _busy(step: XlaStep) -> tuple[Ints, Ints]:
    """Instants of a step, and how long kernels had run until each."""
    at = np.flatnonzero(step.level <= Level.RUNTIME)
    start, end = step.start_ns[at], step.end_ns[at]
    edges = np.unique(np.concatenate([start, end, [step.begin_ns, step.finish_ns]]))
    change = np.zeros(len(edges), np.int64)
    np.add.at(change, np.searchsorted(edges, start), 1)
    np.add.at(change, np.searchsorted(edges, end), -1)
    runs = np.cumsum(change)[:-1] > 0
    return edges, np.concatenate([[0], np.cumsum(np.where(runs, np.diff(edges), 0))])


def in_a_row(step: XlaStep, event_cost_ns: float) -> TimedStep:
    """The step as if one thread had done all of it: what is under way in an instant, shared.

    Kernels that overlap stand one after the other, each as long as its share of the instants.
    """
    start = np.clip(step.start_ns, step.begin_ns, step.finish_ns)
    end = np.clip(step.end_ns, start, step.finish_ns)
    means = step.level < Level.NOTHING
    edges = np.unique(np.concatenate([start[means], end[means], [step.begin_ns, step.finish_ns]]))
    first, last = np.searchsorted(edges, start), np.searchsorted(edges, end)
    owner, share = _shares(step.level, first, last, np.diff(edges).astype(float))
    charges = _charges(step, event_cost_ns)
    between, left_ns = _idle_pieces(step, edges, owner, charges, event_cost_ns)
    busy = _kernel_pieces(step, edges, owner, first, share, charges, left_ns)
    return _joined(step, [*busy, *between], share)


def _shares(level: Ints, first: Ints, last: Ints, length: Floats) -> tuple[Ints, Floats]:
    """The level that every interval between edges belongs to, and every event's share of time."""
    owner = np.full(len(length), int(Level.NOTHING), np.int64)
    share = np.zeros(len(level))
    for one in (Level.KERNEL, Level.COLLECTIVE, *_CAUSES):
        at = np.flatnonzero(level == one)
        change = np.zeros(len(length) + 1)
        np.add.at(change, first[at], 1.0)
        np.add.at(change, last[at], -1.0)
        active = np.cumsum(change)[:-1]
        free = (owner == Level.NOTHING) & (active > 0.5)
        rate = np.where(free, length / np.maximum(active, 1.0), 0.0)
        passed = np.concatenate([[0.0], np.cumsum(rate)])
        share[at] = passed[last[at]] - passed[first[at]]
        owner[free] = one
    return owner, share


def _charges(step: XlaStep, cost_ns: float) -> Floats:
    """What recording took out of each event, by the events that were recorded inside of it."""
    found = np.zeros(len(step))
    inside = step.charged >= 0
    np.add.at(found, step.charged[inside], cost_ns)
    return found


Piece = tuple[Ints, Ints, list[str], Ints]


def _kernel_pieces(
    step: XlaStep, edges: Ints, owner: Ints, first: Ints, share: Floats, charges: Floats,
    left_ns: float,
) -> list[Piece]:  # fmt: skip
    """Kernels one after the other within each stretch in which some run, and after each what
    recording took of it: of the events inside, and of what the runtime around has no time for."""
    at = np.flatnonzero((step.level <= Level.COLLECTIVE) & (share > 0))
    if not len(at):
        return []
    is_busy = owner <= Level.COLLECTIVE
    length = np.diff(edges)
    busy_before = np.concatenate([[0], np.cumsum(np.where(is_busy, length, 0))])
    # A collective's share lies where no kernel runs: it may begin in a stretch after its own.
    begin = np.concatenate([[0.0], np.cumsum(share[at])])
    low, high = begin[:-1], begin[1:]
    starts = _real_time(low, busy_before, edges, right=True)
    ends = np.maximum(starts, _real_time(high, busy_before, edges, right=False))
    length_ns = ends - starts
    taken = np.minimum(length_ns, np.rint(charges[at]).astype(np.int64))
    left_ns += float((charges[at] - taken).sum())
    # Of threads that record at once, each costs its part of the instant.
    at_once = float(share[at].sum()) / max(1, int((step.end_ns - step.start_ns)[at].sum()))
    taken += evenly(left_ns * min(1.0, at_once), length_ns - taken)
    names = [step.names[n] for n in step.name[at].tolist()]
    return [
        (starts, ends - taken, names, at),
        (ends - taken, ends, [_PROFILER] * len(at), np.full(len(at), -1)),
    ]


def evenly(total: float, most: Ints) -> Ints:
    """The most even parts that make a total, none above its most: most of an event's recording may
    lie within the kernel that it tells of, which is as short as it may be.

    >>> evenly(70.0, np.array([10, 500, 40])).tolist(), evenly(9.0, np.array([1, 2])).tolist()
    ([10, 30, 30], [1, 2])
    """
    ordered = np.sort(most)
    up_to = np.cumsum(ordered) + ordered * np.arange(len(most) - 1, -1, -1)
    place = int(np.searchsorted(up_to, total))
    if place == len(most):
        return most
    level = (total - float(ordered[:place].sum())) / (len(most) - place)
    found: Ints = np.minimum(most, np.rint(level).astype(np.int64))
    return found


def _real_time(busy: Floats, busy_before: Ints, edges: Ints, *, right: bool) -> Ints:
    """When so much busy time had passed: at the end of the idle time there, or at its begin."""
    whole = np.rint(busy).astype(np.int64)
    side = "right" if right else "left"
    place = np.searchsorted(busy_before, whole, side=side)  # type: ignore[call-overload]
    place = np.clip(place - 1, 0, len(edges) - 1)
    found: Ints = np.minimum(edges[place] + whole - busy_before[place], edges[-1])
    return found


def _idle_pieces(
    step: XlaStep, edges: Ints, owner: Ints, charges: Floats, cost_ns: float
) -> tuple[list[Piece], float]:
    """What is between kernels by its cause, each piece without its part of recording; and what
    recording took of the runtime beyond all the time that the runtime has for itself."""
    length = np.diff(edges)
    outside = float((step.charged == -1).sum()) * cost_ns
    pooled = float((step.charged == -2).sum()) * cost_ns
    found: list[Piece] = []
    left_ns = 0.0
    for one in (*_CAUSES, Level.NOTHING):
        mine = owner == one
        total = float(length[mine].sum())
        if one == Level.NOTHING:
            owed = outside + pooled
        else:
            owed = float(charges[step.level == one].sum())
            if one == Level.RUNTIME:
                left_ns = max(0.0, owed - total)
                owed, pooled = owed + pooled, max(0.0, pooled - max(0.0, total - owed))
        if not total:
            continue
        starts, ends = _merged(edges, mine)
        taken = np.rint((ends - starts) * min(1.0, owed / total)).astype(np.int64)
        none = np.full(len(starts), -1)
        if one in _CAUSES:
            found.append((starts, ends - taken, [_CAUSES[one]] * len(starts), none))
        found.append((ends - taken, ends, [_PROFILER] * len(starts), none))
    return found, left_ns


def _merged(edges: Ints, mine: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Intervals that follow one another as one."""
    change = np.diff(np.concatenate([[0], mine.astype(np.int64), [0]]))
    return edges[:-1][change[:-1] == 1], edges[1:][change[1:] == -1]


def _joined(step: XlaStep, pieces: list[Piece], share: Floats) -> TimedStep:
    starts = np.concatenate([np.zeros(0, np.int64), *(piece[0] for piece in pieces)])
    ends = np.concatenate([np.zeros(0, np.int64), *(piece[1] for piece in pieces)])
    events = np.concatenate([np.zeros(0, np.int64), *(piece[3] for piece in pieces)])
    listed = [name for piece in pieces for name in piece[2]]
    # A kernel that recording has used up is still one call.
    kept = np.flatnonzero((ends > starts) | (events >= 0))
    order = kept[np.lexsort((-ends[kept], starts[kept]))]
    is_op = events[order] >= 0
    keys = [(listed[i], bool(op)) for i, op in zip(order.tolist(), is_op.tolist(), strict=True)]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    described = np.full(len(order), -1, np.int64)
    if step.described is not None:
        described[is_op] = step.described[events[order][is_op]]
    zeros = np.zeros(len(order), np.int64)
    others = float(share[(step.level <= Level.COMPILE) & (step.thread != step.main_thread)].sum())
    return replace(
        _plain(step),
        names=tuple(name for name, _ in numbers),
        told=tuple(EventName() if op else EventName(name, name) for name, op in numbers),
        name=np.array([numbers[key] for key in keys], np.int64),
        start_ns=starts[order],
        end_ns=ends[order],
        thread=zeros,
        sequence=zeros - 1,
        scope=zeros,
        main_thread=0,
        described=described,
        # The stepping thread sleeps while it waits for kernels of other threads.
        asleep_ns=max(0, step.asleep_ns - round(others)),
    )


def _plain(step: XlaStep) -> TimedStep:
    """The step without what only its own events have."""
    return TimedStep(**{name: getattr(step, name) for name in TimedStep.__dataclass_fields__})
