"""An ideal cache: bytes that must come from and go to the next level, whatever is replaced when.

What is modelled: a cache of given size, without lines, sets or alignment; data enter it free of
charge when written (no write-allocate), leave it free of charge when dead or clean, and an op may
touch its bytes in the best order. Every real cache of that size moves at least as much.

Why the totals are lower bounds. Least reads: saved reads are spans of bytes kept between two ops;
at most the cache's size is kept at any moment; Belady's rule keeps the most (see keep.py). Least
writes: a written version need not leave if it is kept until its last read; again the most that can
be kept is found, for itself. Doing both best at once may be impossible (with write-backs the
problem is NP-hard), so least reads + least writes ≤ the least sum. What persists is written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from timeroof.work.locality.accesses import Accesses, Ints
from timeroof.work.locality.keep import kept_bytes
from timeroof.work.locality.lifetimes import BEFORE, Lifetimes, Spans, join_spans, lifetimes
from timeroof.work.locality.pieces import sum_by_op, touches


@dataclass(frozen=True)
class IdealTraffic:
    """Bytes per op to and from the next level under an ideal cache.

    Their sums over the whole sequence, or over any beginning of it, are lower bounds. A single
    op's figure is what the ideal cache leaves to it: another cache may favour that op and pay
    elsewhere. What one op pays under every cache is in `own_read_bytes` and `own_write_bytes`.
    Writes are on the account of the op that wrote, whenever they leave.
    """

    cache_bytes: int | None
    read_bytes: Ints
    write_bytes: Ints
    own_read_bytes: Ints
    own_write_bytes: Ints

    @property
    def total_bytes(self) -> int:
        """The lower bound of the whole sequence."""
        return int(self.read_bytes.sum() + self.write_bytes.sum())

    def table(self) -> pl.DataFrame:
        """One row per op."""
        columns = ("read_bytes", "write_bytes", "own_read_bytes", "own_write_bytes")
        return pl.DataFrame(
            {"op": range(len(self.read_bytes))} | {c: getattr(self, c) for c in columns}
        )


def ideal_traffic(
    accesses: Accesses, cache_bytes: int | None, *, warm: bool = False
) -> IdealTraffic:
    """Bytes that must cross to the next level, for a cache of a size; None: an unlimited one.

    Cold: the cache is empty before the first op, and what persists leaves it after the last.
    Warm: the sequence is a window of a longer run, such as one step of many; the cache may hold
    anything before and keep anything after, up to its size. Only then is it a bound of one step.

    >>> ops = [[("w", 0, 8, "read"), ("t", 0, 8, "write")], [("t", 0, 8, "read")]]
    >>> [ideal_traffic(Accesses.of(ops), size).total_bytes for size in (0, 4, 8)]
    [24, 16, 8]
    >>> ideal_traffic(Accesses.of(ops), 8, warm=True).total_bytes
    0
    """
    return ideal_traffics(accesses, [cache_bytes], warm=warm)[0]


def ideal_traffics(
    accesses: Accesses, sizes: Sequence[int | None], *, warm: bool = False
) -> list[IdealTraffic]:
    """The same for several sizes: the sequence is prepared once."""
    lives = lifetimes(touches(accesses))
    if warm:
        lives = _opened(lives, accesses.op_count)
    return [_of(lives, size, accesses.op_count) for size in sizes]


def _opened(lives: Lifetimes, op_count: int) -> Lifetimes:
    """A warm cache: first reads may be kept from before, final writes until after."""
    ops, none = np.arange(op_count), np.zeros(op_count, dtype=np.int64)
    before, after = np.full(op_count, BEFORE), np.full(op_count, op_count)
    return replace(
        lives,
        reuses=join_spans(lives.reuses, Spans(before, ops, lives.first_read_bytes)),
        versions=join_spans(lives.versions, Spans(ops, after, lives.final_write_bytes)),
        first_read_bytes=none,
        final_write_bytes=none,
    )


def _of(lives: Lifetimes, cache_bytes: int | None, op_count: int) -> IdealTraffic:
    if cache_bytes is not None and cache_bytes <= 0:
        every = (lives.read_bytes, lives.write_bytes)  # nowhere to keep anything: all of it moves
        return IdealTraffic(0, *every, *every)
    capacity = int(np.iinfo(np.int64).max) if cache_bytes is None else cache_bytes
    reuses, versions = lives.reuses, lives.versions
    missed = reuses.size_bytes - kept_bytes(reuses, capacity, op_count)
    spilled = versions.size_bytes - kept_bytes(versions, capacity, op_count)
    reused = sum_by_op(reuses.end, reuses.size_bytes, op_count)
    alive = lives.final_write_bytes + sum_by_op(versions.start, versions.size_bytes, op_count)
    return IdealTraffic(
        cache_bytes=cache_bytes,
        read_bytes=lives.first_read_bytes + sum_by_op(reuses.end, missed, op_count),
        write_bytes=lives.final_write_bytes + sum_by_op(versions.start, spilled, op_count),
        # Whatever the cache held before an op, it held no more than its size, and the same after.
        own_read_bytes=lives.first_read_bytes + np.maximum(reused - capacity, 0),
        own_write_bytes=np.maximum(alive - capacity, 0),
    )
