"""What a run leaves behind: plain data about its steps, of whatever framework, without counting.

Described ops and timed events are of different steps: which op is which event is told by the same
names in the same order, per thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from timeroof.core.profile import StepKind
from timeroof_recorder.seen import (
    BACKWARD_SCOPE,
    OP_SCOPE,
    USER_SCOPE,
    CompiledKernel,
    Described,
    ExternCall,
    GraphSeen,
    KernelArgument,
    LoopOp,
    TensorSeen,
)

__all__ = [
    "BACKWARD_SCOPE", "OP_SCOPE", "USER_SCOPE", "CleanStep", "CompiledKernel", "Described",
    "EventName", "ExternCall", "GraphSeen", "Ints", "KernelArgument", "LoopOp", "PrimitiveSeen",
    "PrimitiveStep", "Recording", "TensorSeen", "TimedStep", "is_meta", "leaves", "tensors_in",
]  # fmt: skip

Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CleanStep:
    """A step without instruments: its duration, and the pages it touched first."""

    duration_ns: int
    faults: int
    # The program's own profiler was on.
    profiled: bool = False
    # How long the stepping thread waited for a CPU; None where nobody looked.
    waited_ns: int | None = None


class EventName(NamedTuple):
    """What the instruments say of all events of a name: the idle cause that their own time goes to
    (None: they are ops), the same where autograd numbered them, and a phase that they open."""

    cause: str | None = None
    cause_if_numbered: str | None = None
    phase: str | None = None


@dataclass(frozen=True)
class TimedStep:
    """The ops of one step with their times, outer before inner, as columns. Threads are the
    framework's numbers; `main_thread` is the one that steps. `scope` is 0 for an op, 1 for a
    backward function, 7 for a region that the program named. `told` says per name what it is."""

    names: tuple[str, ...]
    name: Ints
    start_ns: Ints
    end_ns: Ints
    thread: Ints
    sequence: Ints
    scope: Ints
    begin_ns: int
    finish_ns: int
    main_thread: int
    # Pages that were touched first, how long the stepping thread slept, and how often (None: not
    # counted on this system).
    faults: int = 0
    asleep_ns: int = 0
    sleeps: int | None = None
    # Which of the program's steps it is, from 1 on.
    number: int = 0
    told: tuple[EventName, ...] = ()
    # What the stepping thread waited for a CPU, and what other threads did, in the step.
    waited_ns: int = 0
    others_waited_ns: int = 0
    # Where events bear their identity: the place of the described op of each, or -1.
    described: Ints | None = None

    @property
    def duration_ns(self) -> int:
        """The step's duration on the clock of its events."""
        return self.finish_ns - self.begin_ns

    def __len__(self) -> int:
        return len(self.name)


def leaves(values: object) -> list[object]:
    """What is in nested tuples."""
    if isinstance(values, tuple):
        return [leaf for value in values for leaf in leaves(value)]
    return [values]


def tensors_in(values: object) -> list[TensorSeen]:
    """The tensors among nested values."""
    return [leaf for leaf in leaves(values) if isinstance(leaf, TensorSeen)]


def is_meta(op: Described) -> bool:
    """Whether an op only works out shapes: its results (or all it has) are on the meta device.
    Numbers among its arguments are tensors of the CPU's."""
    found = tensors_in(op.outputs) or tensors_in(op.inputs)
    return bool(found) and all(tensor.device.startswith("meta") for tensor in found)


@dataclass(frozen=True)
class PrimitiveSeen:
    """A oneDNN primitive: its line in words, when it began (epoch) and how long it took."""

    words: tuple[str, ...]
    start_ns: int
    duration_ns: int


@dataclass
class PrimitiveStep:
    """What oneDNN printed in one step, beside its ops; it is read when the program has ended."""

    timed: TimedStep
    lines: list[bytes]


@dataclass
class Recording:
    """Everything that was seen of a program."""

    clean: list[CleanStep] = field(default_factory=list)
    # Steps without instruments in warm-up or right after instruments, until a clean one is seen.
    unsettled: list[CleanStep] = field(default_factory=list)
    # Seconds of the fixed work that shows the machine's own pace.
    pace: list[float] = field(default_factory=list)
    timed: list[TimedStep] = field(default_factory=list)
    # Ops described while being timed (a block that ran once): the times are perturbed.
    block: TimedStep | None = None
    described: list[Described] = field(default_factory=list)
    primitive_steps: list[PrimitiveStep] = field(default_factory=list)
    compiled: list[CompiledKernel] = field(default_factory=list)
    # Traces of single steps with the kernels of a device, as torch writes them.
    device_traces: list[Path] = field(default_factory=list)
    # Whether rows are told apart by the line of the program that they come from.
    with_lines: bool = False
    steps_seen: int = 0
    # What ends a step: its kind (optimizer, forward, manual, window), and in words.
    marker: str = ""
    mark: str = ""
    # All kinds of steps of the run, and the one that this recording is of.
    kinds: list[StepKind] = field(default_factory=list)
    kind: str = "step"
    # Seconds by which profiling lengthened the run.
    profiling_s: float | None = None
    frameworks: list[tuple[str, str]] = field(default_factory=list)
    threads: int | None = None
    rank: int | None = None
    # The share of their time that the program's threads waited for a CPU.
    waiting_share: float | None = None
    # The part of that in which other threads of the program itself had the CPUs.
    own_waiting: float | None = None
    uses_gpu: bool = False
    # What recording an event costs of a CPU's time, and how much longer that took beside others.
    event_cost_ns: float | None = None
    event_stretch: float = 1.0
    event_cost_error_ns: float | None = None
    partial: str | None = None
    # Why no step could be timed or described, with the cure, where that is known.
    why_nothing: str | None = None
    why_undescribed: str | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def framework(self) -> str | None:
        """The framework whose instruments were in place."""
        return self.frameworks[0][0] if self.frameworks else None

    def undescribed(self, why: str) -> None:
        """No step can be described: say why."""
        self.why_undescribed = why
        self.note(why)

    def note(self, text: str) -> None:
        """Keep a remark once."""
        if text not in self.notes:
            self.notes.append(text)


NO_MATCH = -1
# Beyond this, sequences that differ are matched by name and occurrence.
MOST_COMPARED = 3000
# So many names in a row, that come once in either sequence, are the same place of the program.
ANCHOR = 8


def align(step: TimedStep, described: list[Described]) -> Ints:
    """For every event of a timed step the place of its described op, or NO_MATCH."""
    if step.described is not None:
        return step.described
    found = np.full(len(step), NO_MATCH, np.int64)
    theirs: dict[int, list[int]] = defaultdict(list)
    for place, op in enumerate(described):
        if op.scope != USER_SCOPE:
            theirs[op.thread].append(place)
    for thread in np.unique(step.thread).tolist():
        rows = np.flatnonzero((step.thread == thread) & (step.scope != USER_SCOPE))
        places = theirs.get(thread, [])
        ours = [step.names[n] for n in step.name[rows].tolist()]
        for mine, other in pairs(ours, [described[p].name for p in places]):
            found[rows[mine]] = places[other]
    return found


def align_recurring(step: TimedStep, described: list[Described]) -> Ints:
    """As `align`, for stretches of a loop that begin and end anywhere: an event is the described op
    of its name that has the same neighbours, or one of them."""
    places = [place for place, op in enumerate(described) if op.scope != USER_SCOPE]
    theirs = [described[place].name for place in places]
    known: dict[tuple[str | None, ...], int] = {}
    for place, contexts in zip(places, contexts_of(theirs), strict=True):
        for context in contexts:
            known.setdefault(context, place)
    found = np.full(len(step), NO_MATCH, np.int64)
    for thread in np.unique(step.thread).tolist():
        rows = np.flatnonzero((step.thread == thread) & (step.scope != USER_SCOPE))
        ours = [step.names[n] for n in step.name[rows].tolist()]
        for row, contexts in zip(rows.tolist(), contexts_of(ours), strict=True):
            found[row] = next((known[c] for c in contexts if c in known), NO_MATCH)
    return found


def contexts_of(names: list[str]) -> list[tuple[tuple[str | None, ...], ...]]:
    """Of every name in a sequence: with both neighbours, with one of them, by itself."""
    around = zip([None, *names], names, [*names[1:], None], strict=False)
    return [((a, n, b), (a, n, None), (None, n, b), (n,)) for a, n, b in around]


def pairs(ours: list[str], theirs: list[str]) -> list[tuple[int, int]]:
    """Matching places of two sequences of names."""
    head = 0
    while head < min(len(ours), len(theirs)) and ours[head] == theirs[head]:
        head += 1
    tail, most = 0, min(len(ours), len(theirs)) - head
    while tail < most and ours[-1 - tail] == theirs[-1 - tail]:
        tail += 1
    middle = _middle(ours[head : len(ours) - tail], theirs[head : len(theirs) - tail])
    pairs = [(i, i) for i in range(head)] + [(head + i, head + j) for i, j in middle]
    ends = (len(ours) - tail, len(theirs) - tail)
    return pairs + [(ends[0] + i, ends[1] + i) for i in range(tail)]


def _middle(ours: list[str], theirs: list[str]) -> list[tuple[int, int]]:
    if not ours or not theirs:
        return []
    anchors = _anchors(ours, theirs)
    if anchors:
        return _between(ours, theirs, anchors)
    if max(len(ours), len(theirs)) > MOST_COMPARED:
        places = {named: place for place, named in enumerate(_numbered(theirs))}
        return [(i, places[named]) for i, named in enumerate(_numbered(ours)) if named in places]
    blocks = SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    return [(b.a + i, b.b + i) for b in blocks for i in range(b.size)]


def _between(
    ours: list[str], theirs: list[str], anchors: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Matching places where some are known: a loop that goes round more often in one sequence
    begins and ends at the same places in both."""
    edges = [(-1, -1), *anchors, (len(ours), len(theirs))]
    found = list(anchors)
    for (i, j), (i_next, j_next) in pairwise(edges):
        between = pairs(ours[i + 1 : i_next], theirs[j + 1 : j_next])
        found += [(i + 1 + a, j + 1 + b) for a, b in between]
    return found


def _anchors(ours: list[str], theirs: list[str]) -> list[tuple[int, int]]:
    """Places where runs of names begin that come once in either sequence, in the order of both."""
    known, mine = _runs_once(theirs), _runs_once(ours)
    both = sorted((place, known[run]) for run, place in mine.items() if run in known)
    return _rising(both)


def _runs_once(names: list[str]) -> dict[tuple[str, ...], int]:
    runs = list(zip(*(names[n:] for n in range(ANCHOR)), strict=False))
    counts = Counter(runs)
    return {run: place for place, run in enumerate(runs) if counts[run] == 1}


def _rising(places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part in which second numbers rise as the first ones do.

    >>> _rising([(0, 5), (1, 1), (2, 2), (3, 0), (4, 4)])
    [(1, 1), (2, 2), (4, 4)]
    """
    ends: list[int] = []  # of rising parts by length, the least second number at their end
    lengths = []
    for _, other in places:
        length = bisect_left(ends, other)
        ends[length : length + 1] = [other]
        lengths.append(length)
    wanted = len(ends) - 1
    found: list[tuple[int, int]] = []
    for place, length in zip(reversed(places), reversed(lengths), strict=True):
        if length == wanted and (not found or place[1] < found[-1][1]):
            found.append(place)
            wanted -= 1
    return found[::-1]


def _numbered(names: list[str]) -> Iterator[tuple[str, int]]:
    seen: Counter[str] = Counter()
    for name in names:
        yield name, seen[name]
        seen[name] += 1
