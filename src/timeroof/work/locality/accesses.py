"""Which bytes each op reads and writes: the plain input of everything about locality."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from timeroof.core.errors import InputError

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Kind = Literal["read", "write"]
# storage, offset_bytes, length_bytes, read or write
Range = tuple[Hashable, int, int, Kind]


@dataclass(frozen=True)
class Accesses:
    """Byte ranges of storages that a sequence of ops touches, as columns in order of the ops.

    A storage that persists (a parameter, an optimizer's state, an output) is needed after the
    last op; any other is dead after its last use. freed_after_op (or -1) only matters to
    estimates of caches that notice when memory is freed.
    """

    op: Ints
    storage: Ints
    offset_bytes: Ints
    length_bytes: Ints
    is_write: Bools
    op_count: int
    persists: Bools
    freed_after_op: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        _check(self)

    @classmethod
    def of(
        cls,
        ops: Sequence[Iterable[Range]],
        persistent: Collection[Hashable] = (),
        freed_after_op: Mapping[Hashable, int] | None = None,
    ) -> Accesses:
        """Make them from one list of ranges per op.

        >>> made = Accesses.of([[("x", 0, 8, "read"), ("y", 0, 8, "write")]], persistent={"y"})
        >>> made.op_count, made.persists.tolist()
        (1, [False, True])
        """
        numbers: dict[Hashable, int] = {}
        rows = [
            (i, numbers.setdefault(storage, len(numbers)), offset, length, _is_write(kind))
            for i, op in enumerate(ops)
            for storage, offset, length, kind in op
        ]
        table = np.array(rows, dtype=np.int64).reshape(-1, 5).T.copy()
        freed = freed_after_op or {}
        return cls(
            op=table[0],
            storage=table[1],
            offset_bytes=table[2],
            length_bytes=table[3],
            is_write=table[4].astype(bool),
            op_count=len(ops),
            persists=np.array([storage in persistent for storage in numbers], dtype=bool),
            freed_after_op=np.array([freed.get(s, -1) for s in numbers], dtype=np.int64),
        )


def _is_write(kind: Kind) -> bool:
    if kind not in ("read", "write"):
        raise InputError(f"an access is {kind!r}", advice="use 'read' or 'write'")
    return kind == "write"


def _check(given: Accesses) -> None:
    """Refuse columns that do not fit together or ranges that cannot be."""
    columns = (given.op, given.storage, given.offset_bytes, given.length_bytes, given.is_write)
    if len({len(column) for column in columns}) != 1:
        raise InputError("the columns of the accesses differ in length")
    if not len(given.op):
        return
    if (given.offset_bytes < 0).any() or (given.length_bytes < 0).any():
        raise InputError("an access has a negative offset or length")
    if given.op.min() < 0 or given.op.max() >= given.op_count:
        raise InputError(f"an access is of an op outside 0..{given.op_count - 1}")
    if given.storage.min() < 0 or given.storage.max() >= len(given.persists):
        raise InputError("an access is of a storage that `persists` does not know")


# Storages cut into pieces that every access takes whole or not at all, and who touches them.


# More than this is a sign of ranges cut much too fine, and would not fit into memory.
MOST_TOUCHES = 50_000_000


@dataclass(frozen=True)
class Touches:
    """One row per op and piece it touches, in order of op and of first mention in it."""

    op: Ints
    piece: Ints
    reads: Bools
    writes: Bools
    piece_bytes: Ints
    piece_storage: Ints
    piece_persists: Bools
    op_count: int

    @property
    def size_bytes(self) -> Ints:
        """Bytes of every touch."""
        return self.piece_bytes[self.piece]

    def per_op(self, rows: Bools | None = None) -> Ints:
        """Bytes touched per op, of some rows or all."""
        size = self.size_bytes if rows is None else self.size_bytes * rows
        return sum_by_op(self.op, size, self.op_count)


def sum_by_op(op: Ints, size_bytes: Ints, op_count: int) -> Ints:
    """Sum bytes by op, exactly (a float would round beyond 2^53)."""
    total = np.zeros(op_count, dtype=np.int64)
    np.add.at(total, op, size_bytes)
    return total


def touches(accesses: Accesses) -> Touches:
    """Cut the storages at every place where a range begins or ends, and list who touches what."""
    some = accesses.length_bytes > 0
    storage, begin = accesses.storage[some], accesses.offset_bytes[some]
    first, last, sizes, owners = _cut(storage, begin, begin + accesses.length_bytes[some])
    counts = last - first
    if counts.sum() > MOST_TOUCHES:
        raise InputError(
            f"the ranges fall into {int(counts.sum())} pieces", advice="use coarser ranges"
        )
    row = np.repeat(np.arange(len(first)), counts)
    step = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    return _merge(accesses, accesses.op[some][row], first[row] + step, accesses.is_write[some][row],
                  sizes, owners)  # fmt: skip


def _cut(storage: Ints, begin: Ints, end: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Number the pieces; give each range its first and one past its last, then sizes and owners."""
    owner, place = np.concatenate([storage, storage]), np.concatenate([begin, end])
    order = np.lexsort((place, owner))
    owner, place = owner[order], place[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (owner[1:] != owner[:-1]) | (place[1:] != place[:-1])
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.cumsum(is_new) - 1
    owner, place = owner[is_new], place[is_new]
    # The "piece" from a storage's last cut to the next storage's first belongs to nobody.
    sizes = np.zeros(len(place), dtype=np.int64)
    sizes[:-1] = np.where(owner[1:] == owner[:-1], place[1:] - place[:-1], 0)
    half = len(storage)
    return rank[:half], rank[half:], sizes, owner


def _merge(
    accesses: Accesses, op: Ints, piece: Ints, is_write: Bools, sizes: Ints, owners: Ints
) -> Touches:
    """One row per (op, piece): the same bytes named twice by an op are touched once."""
    order = np.lexsort((piece, op))
    op, piece, is_write = op[order], piece[order], is_write[order]
    is_new = np.ones(len(op), dtype=bool)
    is_new[1:] = (op[1:] != op[:-1]) | (piece[1:] != piece[:-1])
    starts = np.flatnonzero(is_new)
    if len(starts):
        writes = np.logical_or.reduceat(is_write, starts)
        reads = np.logical_or.reduceat(~is_write, starts)
        mentioned = np.minimum.reduceat(order, starts)
    else:
        writes, reads, mentioned = np.empty(0, bool), np.empty(0, bool), starts
    op, piece = op[starts], piece[starts]
    in_order = np.lexsort((mentioned, op))
    persists = accesses.persists[owners] if len(owners) else np.empty(0, bool)
    return Touches(
        op=op[in_order],
        piece=piece[in_order],
        reads=reads[in_order],
        writes=writes[in_order],
        piece_bytes=sizes,
        piece_storage=owners,
        piece_persists=persists,
        op_count=accesses.op_count,
    )


# What no fusion can avoid: bytes that enter and leave a phase, or the whole step.
#
# With an unlimited cache (all ops of a phase one kernel whose intermediates never reach memory)
# a phase must read what others made (inputs, parameters, another phase's results) once, and write
# what others need or what persists once. The fused rung of the ladder sums the phases, the ideal
# rung takes the whole step as one.


@dataclass(frozen=True)
class CrossingBytes:
    """Bytes that must be read from and written to memory."""

    read_bytes: int
    write_bytes: int

    @property
    def total_bytes(self) -> int:
        """Both ways."""
        return self.read_bytes + self.write_bytes


@dataclass(frozen=True)
class LadderBytes:
    """Unavoidable bytes of every phase as one kernel, and of the whole step as one."""

    phases: dict[str, CrossingBytes]
    step: CrossingBytes


def ladder_bytes(accesses: Accesses, phases: Sequence[str]) -> LadderBytes:
    """Unavoidable bytes, from the phase of every op.

    >>> ops = [[("w", 0, 8, "read"), ("a", 0, 4, "write")], [("a", 0, 4, "read")]]
    >>> ladder_bytes(Accesses.of(ops), ["forward", "backward"]).phases["backward"].read_bytes
    4
    """
    if len(phases) != accesses.op_count:
        raise InputError(f"{len(phases)} phases are given for {accesses.op_count} ops")
    names = list(dict.fromkeys(phases))
    number = {name: i for i, name in enumerate(names)}
    of_op = np.array([number[phase] for phase in phases], dtype=np.int64)
    touched = touches(accesses)
    by_phase = _crossings(touched, of_op, max(len(names), 1))
    whole = _crossings(touched, np.zeros_like(of_op), 1)
    return LadderBytes(dict(zip(names, by_phase, strict=False)), whole[0])


def _crossings(touched: Touches, phase_of_op: Ints, phase_count: int) -> list[CrossingBytes]:
    """Reads of versions that another phase (or nobody here) wrote; writes that others need."""
    order = np.lexsort((touched.op, touched.piece))
    piece, phase = touched.piece[order], phase_of_op[touched.op[order]]
    reads, writes = touched.reads[order], touched.writes[order]
    size = touched.piece_bytes[piece]
    source = _version_read(piece, writes)
    foreign = reads & ((source < 0) | (phase[source] != phase))
    entering = _once(foreign, [piece, source, phase])
    wanted = np.zeros(len(piece), dtype=bool)
    wanted[source[foreign & (source >= 0)]] = True
    leaving = writes & (wanted | (_is_final(piece, writes) & touched.piece_persists[piece]))
    read = sum_by_op(phase[entering], size[entering], phase_count)
    write = sum_by_op(phase[leaving], size[leaving], phase_count)
    return [CrossingBytes(int(r), int(w)) for r, w in zip(read, write, strict=True)]


def _version_read(piece: Ints, writes: Bools) -> Ints:
    """For every row (sorted by piece and op): the row that wrote what it reads, or -1."""
    written = np.flatnonzero(writes)
    rows = np.arange(len(piece))
    at = np.searchsorted(written, rows, side="left") - 1  # an op reads before it writes
    source = np.where(at >= 0, written[at] if len(written) else -1, -1)
    same = (source >= 0) & (piece[source] == piece) if len(piece) else source >= 0
    return np.where(same, source, -1)


def _is_final(piece: Ints, writes: Bools) -> Bools:
    """Whether a row is the last write of its piece."""
    final = np.zeros(len(piece), dtype=bool)
    written = np.flatnonzero(writes)
    if len(written):
        is_last = np.append(piece[written[1:]] != piece[written[:-1]], True)
        final[written[is_last]] = True
    return final


def _once(rows: Bools, keys: list[Ints]) -> Ints:
    """Rows that differ in their keys, one of each."""
    chosen = np.flatnonzero(rows)
    columns = [key[chosen] for key in keys]
    order = np.lexsort(columns)
    differs = np.zeros(len(chosen), dtype=bool)
    differs[:1] = True
    for column in columns:
        differs[1:] |= column[order][1:] != column[order][:-1]
    return chosen[order[differs]]
