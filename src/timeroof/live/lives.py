"""Storages over time: a new one may get the address, and so the number, of one that is gone."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from timeroof.live.calls import flat
from timeroof.live.torch.recording import Described, TensorSeen


class Lives:
    """Numbers the lives of every storage, op by op in the order in which they end.

    An op that returns a storage which it was not given, and which no op that it called has
    made, has made it: a new life begins.
    """

    def __init__(self, ops: Sequence[Described]) -> None:
        self._ops = ops
        self._life: dict[Hashable, int] = {}
        self._made_below: list[set[int]] = [set() for _ in ops]

    def end(self, place: int) -> None:
        """An op ended: note what it made."""
        op = self._ops[place]
        given = _storages(op.inputs)
        made = _storages(op.outputs) - given - self._made_below[place]
        for storage in made:
            self._life[storage] = self._life.get(storage, 0) + 1
        if op.parent is not None:
            self._made_below[op.parent] |= made | self._made_below[place]

    def named(self, storage: Hashable) -> Hashable:
        """A storage with the number of its life; 0 is one from before the step."""
        return storage, self._life.get(storage, 0)


def is_made(storage: Hashable) -> bool:
    """Whether a named storage was made in the step.

    >>> is_made((7, 1)), is_made((7, 0))
    (True, False)
    """
    return isinstance(storage, tuple) and storage[1] > 0


def _storages(values: object) -> set[int]:
    return {t.storage for t in flat(values) if isinstance(t, TensorSeen)}
