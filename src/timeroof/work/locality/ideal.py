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
from heapq import heappop, heappush

import numpy as np
import polars as pl

from timeroof.work.locality.accesses import Accesses, Bools, Ints, Touches, sum_by_op, touches

# From touches to lifetimes: how long bytes would have to stay in a cache to save traffic.
#
# A *reuse* lasts from a touch of a piece to its next touch, if that one reads: bytes that stay
# that long need not be read again. A *version* lasts from a write to the last read of what it
# wrote: bytes that stay that long need not be written out in between. Within one op reads come
# before writes: an op that does both reads the old version.


# The start of spans that were there before the first op.
BEFORE = -1


@dataclass(frozen=True)
class Spans:
    """Bytes that are wanted from after op `start` until op `end`, one row per pair of ops."""

    start: Ints
    end: Ints
    size_bytes: Ints


@dataclass(frozen=True)
class Lifetimes:
    """All reuses and versions of a sequence, with what no cache can save."""

    reuses: Spans
    versions: Spans
    first_read_bytes: Ints  # per op: read for the first time, never written before
    final_write_bytes: Ints  # per op: written last, and needed after the sequence
    read_bytes: Ints  # per op: all it reads
    write_bytes: Ints  # per op: all it writes


def lifetimes(touched: Touches) -> Lifetimes:
    """Find all reuses and versions."""
    order = np.lexsort((touched.op, touched.piece))
    op, piece = touched.op[order], touched.piece[order]
    reads, writes = touched.reads[order], touched.writes[order]
    size, persists = touched.piece_bytes[piece], touched.piece_persists[piece]
    is_first = np.ones(len(op), dtype=bool)
    is_first[1:] = piece[1:] != piece[:-1]
    again = np.flatnonzero(reads & ~is_first)
    last_read, is_final = _ends_of_versions(piece, reads, writes)
    kept = is_final & persists[writes]
    written = np.flatnonzero(writes)
    inner = (last_read >= 0) & ~kept
    return Lifetimes(
        reuses=_spans(op[again - 1], op[again], size[again]),
        versions=_spans(op[written[inner]], op[last_read[inner]], size[written[inner]]),
        first_read_bytes=sum_by_op(op, size * (reads & is_first), touched.op_count),
        final_write_bytes=sum_by_op(op[written], size[written] * kept, touched.op_count),
        read_bytes=touched.per_op(touched.reads),
        write_bytes=touched.per_op(touched.writes),
    )


def _ends_of_versions(piece: Ints, reads: Bools, writes: Bools) -> tuple[Ints, Bools]:
    """For every write (rows sorted by piece): the row of its last read or -1; whether it is final.

    Its last read is the last reading row up to the next write of the piece, that one included.
    """
    written, read = np.flatnonzero(writes), np.flatnonzero(reads)
    following = np.append(written[1:], len(piece))
    same = np.zeros(len(written), dtype=bool)
    same[:-1] = piece[written[1:]] == piece[written[:-1]] if len(written) else False
    group_end = np.searchsorted(piece, piece[written], side="right") - 1
    horizon = np.where(same, following, group_end)
    at = np.searchsorted(read, horizon, side="right") - 1
    last = np.where(at >= 0, read[at] if len(read) else -1, -1)
    return np.where(last > written, last, -1), ~same


def join_spans(first: Spans, second: Spans) -> Spans:
    """All of both, sorted by start."""
    return _spans(
        np.concatenate([first.start, second.start]),
        np.concatenate([first.end, second.end]),
        np.concatenate([first.size_bytes, second.size_bytes]),
    )


def _spans(start: Ints, end: Ints, size_bytes: Ints) -> Spans:
    """One row per pair of ops: what they have in common is alike to a cache."""
    some = size_bytes > 0
    start, end, size_bytes = start[some], end[some], size_bytes[some]
    order = np.lexsort((end, start))
    start, end, size_bytes = start[order], end[order], size_bytes[order]
    is_new = np.ones(len(start), dtype=bool)
    is_new[1:] = (start[1:] != start[:-1]) | (end[1:] != end[:-1])
    at = np.flatnonzero(is_new)
    total = np.add.reduceat(size_bytes, at) if len(at) else size_bytes
    return Spans(start[at], end[at], total)


# The most bytes a cache can keep: the heart of the ideal cache.
#
# Spans want room from after one op until another; at no moment may more than the capacity be
# kept.
# Bytes are divisible and worth the same, so keeping what ends first and dropping what ends last
# is
# optimal (Belady's MIN; as a choice of intervals: Carlisle and Lloyd 1995, Faigle and Nawijn
# 1995).
# It is optimal for every beginning of the sequence too, as the order of ends does not change.


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
