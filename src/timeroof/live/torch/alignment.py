"""Which described op is which timed event: the same names in the same order, per thread."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from timeroof.live.torch.recording import USER_SCOPE, Described, Ints, TimedStep

NO_MATCH = -1
# Beyond this, sequences that differ are matched by name and occurrence.
MOST_COMPARED = 3000


def align(step: TimedStep, described: list[Described]) -> Ints:
    """For every event of a timed step the place of its described op, or NO_MATCH."""
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
    if max(len(ours), len(theirs)) > MOST_COMPARED:
        return _by_occurrence(ours, theirs)
    blocks = SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    return [(b.a + i, b.b + i) for b in blocks for i in range(b.size)]


def _by_occurrence(ours: list[str], theirs: list[str]) -> list[tuple[int, int]]:
    places = {named: place for place, named in enumerate(_numbered(theirs))}
    return [(i, places[named]) for i, named in enumerate(_numbered(ours)) if named in places]


def _numbered(names: list[str]) -> Iterator[tuple[str, int]]:
    """Every name with how often it came before."""
    seen: Counter[str] = Counter()
    for name in names:
        yield name, seen[name]
        seen[name] += 1


# Whose is every nanosecond of a timed step: one op's, or nobody's (a gap between ops).
#
# An instant belongs to the innermost op of the stepping thread; where that runs none, to the
# innermost op of another thread; else it is a gap. So nothing counts twice.


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


def exclusive(step: TimedStep) -> Exclusive:
    """Cut a step into the segments of its innermost ops and the gaps between them."""
    parent = np.full(len(step), -1, np.int64)
    threads = list(dict.fromkeys([step.main_thread, *np.unique(step.thread).tolist()]))
    cover: list[Segment] = [(step.begin_ns, step.finish_ns, GAP)]
    for thread in threads:
        rows = np.flatnonzero(step.thread == thread)
        cover = _fill(cover, _segments(step, rows, parent))
    table = np.array(cover, np.int64).reshape(-1, 3)
    return Exclusive(parent, table[:, 0], table[:, 1], table[:, 2])


def _segments(step: TimedStep, rows: Ints, parent: Ints) -> list[Segment]:
    """Self segments of one thread's events in order of time; notes every event's parent."""
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


def _fill(cover: list[Segment], more: list[Segment]) -> list[Segment]:
    """Put segments into the gaps of a cover; what is not in a gap is left out."""
    filled: list[Segment] = []
    place = 0
    for begin, end, owner in cover:
        if owner != GAP:
            filled.append((begin, end, owner))
            continue
        while place < len(more) and more[place][1] <= begin:
            place += 1
        now, at = begin, place
        while at < len(more) and more[at][0] < end:
            low, high = max(more[at][0], now), min(more[at][1], end)
            if high > low:
                if low > now:
                    filled.append((now, low, GAP))
                filled.append((low, high, more[at][2]))
                now = high
            at += 1
        if end > now:
            filled.append((now, end, GAP))
    return filled
