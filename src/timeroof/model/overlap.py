"""Whose an instant is where work of one device runs side by side: each instant counts once.

Kernels take an instant before collectives, and collectives before copies and memsets; several
of the same tier share it equally. So the exclusive seconds of all work add up to the time in
which the device was busy, and those of collectives are the communication that nothing hides.
"""

from __future__ import annotations

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


def exclusive_times(start: Floats, end: Floats, tier: Ints, device: Ints) -> Floats:
    """How much of its device's time each piece of work has to itself, in the unit of the times.

    Two kernels share the second in which both run, and a collective has what they leave:

    >>> start, end = np.array([0.0, 1.0, 0.0]), np.array([2.0, 3.0, 5.0])
    >>> exclusive_times(start, end, np.array([0, 0, 1]), np.zeros(3, np.int64)).tolist()
    [1.5, 1.5, 2.0]
    """
    own = np.zeros(len(start))
    for one in np.unique(device).tolist():
        rows = np.flatnonzero(device == one)
        own[rows] = _of_one_device(start[rows], end[rows], tier[rows])
    return own


def _of_one_device(start: Floats, end: Floats, tier: Ints) -> Floats:
    if _one_after_another(start, end):
        return end - start
    # Times since the first start lose no digits in the sums below.
    times = np.concatenate([start, end]) - start.min()
    order = np.argsort(times, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    begins, ends = place[: len(start)], place[len(start) :]
    lengths = np.diff(times[order])
    own, free = np.zeros(len(start)), np.ones(len(lengths), np.bool_)
    for one in np.unique(tier).tolist():
        rows = tier == one
        steps = np.zeros(len(order))
        steps[begins[rows]] += 1
        steps[ends[rows]] -= 1
        running = np.cumsum(steps)[:-1]
        shared = np.where(free & (running > 0), lengths / np.maximum(running, 1), 0.0)
        so_far = np.concatenate([[0.0], np.cumsum(shared)])
        own[rows] = so_far[ends[rows]] - so_far[begins[rows]]
        free &= running == 0
    return own


def _one_after_another(start: Floats, end: Floats) -> bool:
    order = np.argsort(start, kind="stable")
    return bool((start[order][1:] >= end[order][:-1]).all())
