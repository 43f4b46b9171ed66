"""Whose an instant is where work of one device runs side by side: each instant counts once.

Kernels take an instant before collectives, and collectives before copies and memsets; several
of the same tier share it equally. So the exclusive seconds of all work add up to the time in
which the device was busy, and those of collectives are the communication that nothing hides.
Only the instants in which a piece of work runs alone of its tier can come back: while another
one runs beside it, the device stays as long busy without it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# The first has an instant before the second, the second before the third.
KERNEL_TIER, COLLECTIVE_TIER, COPY_TIER = range(3)
_TIERS = {"collective": COLLECTIVE_TIER, "copy": COPY_TIER, "memset": COPY_TIER}


def tier_of(kind: str) -> int:
    """The tier of a kind of row.

    >>> tier_of("kernel"), tier_of("collective"), tier_of("memset")
    (0, 1, 2)
    """
    return _TIERS.get(kind, KERNEL_TIER)


class OwnTimes(NamedTuple):
    """Per piece of work: its share of the instants, and those that it has alone."""

    exclusive: Floats
    alone: Floats


def own_times(start: Floats, end: Floats, tier: Ints, device: Ints) -> OwnTimes:
    """How much of its device's time each piece of work has to itself, in the unit of the times.

    Two kernels share the second in which both run, and a collective has what they leave:

    >>> start, end = np.array([0.0, 1.0, 0.0]), np.array([2.0, 3.0, 5.0])
    >>> own = own_times(start, end, np.array([0, 0, 1]), np.zeros(3, np.int64))
    >>> own.exclusive.tolist(), own.alone.tolist()
    ([1.5, 1.5, 2.0], [1.0, 1.0, 2.0])
    """
    own = OwnTimes(np.zeros(len(start)), np.zeros(len(start)))
    for one in np.unique(device).tolist():
        rows = np.flatnonzero(device == one)
        found = _of_one_device(start[rows], end[rows], tier[rows])
        own.exclusive[rows], own.alone[rows] = found
    return own


def _of_one_device(start: Floats, end: Floats, tier: Ints) -> OwnTimes:
    if _one_after_another(start, end):
        return OwnTimes(end - start, end - start)
    # Times since the first start lose no digits in the sums below.
    times = np.concatenate([start, end]) - start.min()
    order = np.argsort(times, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    begins, ends = place[: len(start)], place[len(start) :]
    lengths = np.diff(times[order])
    own = OwnTimes(np.zeros(len(start)), np.zeros(len(start)))
    for one in np.unique(tier).tolist():
        rows = tier == one
        steps = np.zeros(len(order))
        steps[begins[rows]] += 1
        steps[ends[rows]] -= 1
        running = np.cumsum(steps)[:-1]
        for found, counts in zip(own, (running > 0, running == 1), strict=True):
            weights = np.where(counts, lengths / np.maximum(running, 1), 0.0)
            so_far = np.concatenate([[0.0], np.cumsum(weights)])
            found[rows] = so_far[ends[rows]] - so_far[begins[rows]]
        lengths = np.where(running > 0, 0.0, lengths)
    return own


def _one_after_another(start: Floats, end: Floats) -> bool:
    order = np.argsort(start, kind="stable")
    return bool((start[order][1:] >= end[order][:-1]).all())
