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
