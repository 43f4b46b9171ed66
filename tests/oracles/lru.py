"""An estimate: traffic of a cache that drops what was used least recently.

Likely, not a bound: a real cache has lines and sets, and a GPU's may bypass. Sweeps that do not
fit miss entirely, as they do in a real LRU cache; so a piece is resident whole or not at all.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from timeroof.work.locality.accesses import Accesses, Ints, Touches, touches


@dataclass(frozen=True)
class EstimatedTraffic:
    """Likely bytes per op to and from the next level; writes count where data are pushed out."""

    cache_bytes: int
    read_bytes: Ints
    write_bytes: Ints

    @property
    def total_bytes(self) -> int:
        """The estimate for the whole sequence."""
        return int(self.read_bytes.sum() + self.write_bytes.sum())


def estimate_lru_traffic(
    accesses: Accesses, cache_bytes: int, *, warm: bool = False, frees_are_noticed: bool = False
) -> EstimatedTraffic:
    """Estimate the traffic below a cache of a size under least-recently-used replacement.

    Cold: the cache is empty before and written out after. Warm: one step of many, with what the
    step before left. Hardware does not know that memory was freed and writes dead data out;
    frees_are_noticed models allocators that hand the same addresses out again at once.

    >>> ops = [[("w", 0, 8, "read")], [("x", 0, 8, "read")], [("w", 0, 8, "read")]]
    >>> [estimate_lru_traffic(Accesses.of(ops), size).total_bytes for size in (8, 16)]
    [24, 16]
    """
    touched = touches(accesses)
    if cache_bytes <= 0:
        return EstimatedTraffic(0, touched.per_op(touched.reads), touched.per_op(touched.writes))
    dies = _last_ops(accesses, touched) if frees_are_noticed else None
    return _Simulation(touched, cache_bytes, dies).run(warm=warm)


def _last_ops(accesses: Accesses, touched: Touches) -> list[int]:
    """The op after which each piece is dead; one past the end for those that persist."""
    last = np.full(len(touched.piece_bytes), -1, dtype=np.int64)
    np.maximum.at(last, touched.piece, touched.op)
    if len(accesses.freed_after_op):
        last = np.maximum(last, accesses.freed_after_op[touched.piece_storage])
    ends: list[int] = np.where(touched.piece_persists, accesses.op_count, last).tolist()
    return ends


class _Simulation:
    """The cache's content from least to most recently used; True marks what is not written out."""

    def __init__(self, touched: Touches, cache_bytes: int, dies: list[int] | None) -> None:
        self.touched, self.cache_bytes, self.dies = touched, cache_bytes, dies
        self.size: list[int] = touched.piece_bytes.tolist()
        self.content: OrderedDict[int, bool] = OrderedDict()
        self.held = 0
        self.start_counting()

    def start_counting(self) -> None:
        """Forget the traffic so far, not the content."""
        self.read, self.write = [0] * self.touched.op_count, [0] * self.touched.op_count

    def run(self, *, warm: bool) -> EstimatedTraffic:
        """Go through the sequence; a second time if the first is to warm up."""
        self.go_through()
        if warm:
            self.start_counting()
            self.go_through()
        else:
            self.write_out()
        read, write = (np.array(counts, dtype=np.int64) for counts in (self.read, self.write))
        return EstimatedTraffic(self.cache_bytes, read, write)

    def go_through(self) -> None:
        """Touch everything in order."""
        t = self.touched
        for op, piece, reads, writes in zip(
            t.op.tolist(), t.piece.tolist(), t.reads.tolist(), t.writes.tolist(), strict=True
        ):
            self.touch(op, piece, reads, writes)

    def write_out(self) -> None:
        """What must persist leaves in the end."""
        persists = self.touched.piece_persists.tolist()
        for piece, is_dirty in self.content.items():
            if is_dirty and persists[piece]:
                self.write[-1] += self.size[piece]

    def touch(self, op: int, piece: int, reads: bool, writes: bool) -> None:
        """Use one piece, and drop the oldest ones while there is too much."""
        was_dirty = self.content.pop(piece, None)
        if was_dirty is None:
            self.held += self.size[piece]
            if reads:
                self.read[op] += self.size[piece]
        self.content[piece] = bool(was_dirty) or writes
        while self.held > self.cache_bytes:
            oldest, is_dirty = self.content.popitem(last=False)
            self.held -= self.size[oldest]
            if is_dirty and (self.dies is None or self.dies[oldest] >= op):
                self.write[op] += self.size[oldest]
