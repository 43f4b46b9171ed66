"""Arithmetic on intervals of time: unions, gaps, overlaps, all by column."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from timeroof.read.torch.codes import Floats, Ints


class Gaps(NamedTuple):
    """Before each interval (in order of start): how long nothing ran, since when, after whom."""

    length: Floats
    since: Floats
    after: Ints


def gaps(start: Floats, end: Floats) -> Gaps:
    """Gaps before intervals sorted by start; the first has none.

    >>> gaps(np.array([0.0, 1.0, 5.0]), np.array([3.0, 2.0, 6.0])).length.tolist()
    [0.0, 0.0, 2.0]
    """
    if not len(start):
        return Gaps(start, start, np.empty(0, np.int64))
    reach = np.maximum.accumulate(end)
    # The interval that reaches furthest so far: the last one that set a new maximum.
    new = np.concatenate([[True], end[1:] > reach[:-1]])
    furthest = np.maximum.accumulate(np.where(new, np.arange(len(end)), 0))
    since = np.concatenate([start[:1], reach[:-1]])
    after = np.concatenate([[0], furthest[:-1]])
    return Gaps(np.maximum(start - since, 0.0), since, after)


class Union:
    """The union of intervals, which can be asked how much of it lies before a time."""

    def __init__(self, start: Floats, end: Floats) -> None:
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
        found = gaps(start, end)
        first = np.ones(len(start), dtype=np.bool_)
        first[1:] = start[1:] > found.since[1:]
        reach = np.maximum.accumulate(end) if len(end) else end
        last = np.append(first[1:], True) if len(first) else first
        self.start, self.end = start[first], reach[last]
        self._before = np.concatenate([[0.0], np.cumsum(self.end - self.start)])

    @property
    def length(self) -> float:
        """How long the union is."""
        return float(self._before[-1])

    def before(self, time: Floats) -> Floats:
        """How much of the union lies before each time.

        >>> Union(np.array([0.0, 4.0]), np.array([2.0, 6.0])).before(np.array([1.0, 5.0])).tolist()
        [1.0, 3.0]
        """
        if not len(self.start):
            return np.zeros(len(time))
        place = np.searchsorted(self.start, time, side="right")
        inside = np.minimum(time, self.end[place - 1]) - self.start[place - 1]
        return np.where(place > 0, self._before[place - 1] + inside, 0.0)

    def overlap(self, start: Floats, end: Floats) -> Floats:
        """How much of the union lies within each interval."""
        return self.before(end) - self.before(start)
