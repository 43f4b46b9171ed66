"""The most bytes a cache can keep: the heart of the ideal cache.

Spans want room from after one op until another; at no moment may more than the capacity be kept.
Bytes are divisible and worth the same, so keeping what ends first and dropping what ends last is
optimal (Belady's MIN; as a choice of intervals: Carlisle and Lloyd 1995, Faigle and Nawijn 1995).
It is optimal for every beginning of the sequence too, as the order of ends does not change.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from timeroof.work.locality.accesses import Ints
from timeroof.work.locality.lifetimes import BEFORE, Spans


def kept_bytes(spans: Spans, capacity_bytes: int, op_count: int) -> Ints:
    """Bytes of every span that stay to its end, of at most `capacity_bytes` at any time."""
    if capacity_bytes <= 0:
        return np.zeros(len(spans.size_bytes), dtype=np.int64)
    if most_bytes_wanted(spans, op_count) <= capacity_bytes:
        return spans.size_bytes.copy()
    return np.array(_drop_the_furthest(spans, capacity_bytes, op_count), dtype=np.int64)


def most_bytes_wanted(spans: Spans, op_count: int) -> int:
    """The most bytes that are wanted at one time: a cache of that size misses nothing."""
    change = np.zeros(op_count + 2, dtype=np.int64)  # from before the first op to after the last
    np.add.at(change, spans.start + 1, spans.size_bytes)
    np.add.at(change, spans.end + 1, -spans.size_bytes)
    return int(np.cumsum(change).max(initial=0))


def _drop_the_furthest(spans: Spans, capacity_bytes: int, op_count: int) -> list[int]:
    """Go through the spans by start; where too much is kept, drop what is wanted last."""
    kept: list[int] = spans.size_bytes.tolist()
    ends: list[int] = spans.end.tolist()
    leaving = [0] * (op_count + 1)  # kept bytes by the op at which they are used
    furthest: list[tuple[int, int]] = []
    held, left = 0, BEFORE
    for i, start in enumerate(spans.start.tolist()):
        while left < start:  # bytes used by an op up to `start` make room for what starts there
            left += 1
            held -= leaving[left]
        held += kept[i]
        leaving[ends[i]] += kept[i]
        heappush(furthest, (-ends[i], i))
        while held > capacity_bytes:
            dropped_end, j = furthest[0]
            drop = min(kept[j], held - capacity_bytes)
            kept[j] -= drop
            leaving[-dropped_end] -= drop
            held -= drop
            if not kept[j]:
                heappop(furthest)
    return kept
