"""What no fusion can avoid: bytes that enter and leave a phase, or the whole step.

With an unlimited cache (all ops of a phase one kernel whose intermediates never reach memory)
a phase must read what others made (inputs, parameters, another phase's results) once, and write
what others need or what persists once. The fused rung of the ladder sums the phases, the ideal
rung takes the whole step as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from timeroof.core.errors import InputError
from timeroof.work.locality.accesses import Accesses, Bools, Ints, Touches, sum_by_op, touches


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
