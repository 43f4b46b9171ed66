"""Which described op is which timed event: the same names in the same order, per thread."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np

from timeroof.live.recording import USER_SCOPE, Described, Ints, TimedStep

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
