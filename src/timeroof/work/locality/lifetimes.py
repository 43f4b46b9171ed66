"""From touches to lifetimes: how long bytes would have to stay in a cache to save traffic.

A *reuse* lasts from a touch of a piece to its next touch, if that one reads: bytes that stay
that long need not be read again. A *version* lasts from a write to the last read of what it
wrote: bytes that stay that long need not be written out in between. Within one op reads come
before writes: an op that does both reads the old version.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from timeroof.work.locality.accesses import Bools, Ints
from timeroof.work.locality.pieces import Touches, sum_by_op

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
