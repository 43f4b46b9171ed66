"""Small random sequences of ops, and the true optimum found by trying everything."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from timeroof.work.locality.accesses import Accesses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from timeroof.work.locality.accesses import Kind, Range

Byte = tuple[Hashable, int]
STORAGES = ("a", "b", "c")


@dataclass(frozen=True)
class Case:
    """A sequence of ops on a few storages of a few bytes."""

    ops: list[list[Range]]
    persistent: frozenset[str]

    @property
    def accesses(self) -> Accesses:
        return Accesses.of(self.ops, self.persistent)

    def bytes_of(self, op: int, kind: Kind) -> frozenset[Byte]:
        return frozenset(
            (storage, offset + i)
            for storage, offset, length, what in self.ops[op]
            if what == kind
            for i in range(length)
        )

    def compulsory_bytes(self, op: int) -> tuple[int, int]:
        return len(self.bytes_of(op, "read")), len(self.bytes_of(op, "write"))


def cases(longest: int = 5, largest: int = 2, *, writes: bool = True) -> st.SearchStrategy[Case]:
    kinds: list[Kind] = ["read", "write"] if writes else ["read"]
    offset = st.integers(0, largest - 1)
    access = st.tuples(
        st.sampled_from(STORAGES), offset, st.integers(0, largest), st.sampled_from(kinds)
    ).map(lambda a: (a[0], a[1], min(a[2], largest - a[1]), a[3]))
    ops = st.lists(st.lists(access, max_size=3), min_size=1, max_size=longest)
    return st.builds(Case, ops, st.frozensets(st.sampled_from(STORAGES)))


def true_optimum_bytes(case: Case, cache_bytes: int, *, warm: bool = False) -> int:
    """The least reads plus writes over all choices of what to keep after each op."""
    return _Search(case, cache_bytes, warm).best()


class _Search:
    """States are the clean and the dirty bytes in the cache between two ops."""

    def __init__(self, case: Case, cache_bytes: int, warm: bool) -> None:
        self.case, self.cache_bytes, self.warm = case, cache_bytes, warm
        self.count = len(case.ops)
        self.reads = [case.bytes_of(i, "read") for i in range(self.count)]
        self.writes = [case.bytes_of(i, "write") for i in range(self.count)]
        self.after = lru_cache(maxsize=None)(self._after)

    def best(self) -> int:
        if self.cache_bytes == 0:  # nothing can be kept, not even for the moment of a write
            return sum(len(r) + len(w) for r, w in zip(self.reads, self.writes, strict=True))
        everything = frozenset[Byte]().union(*self.reads, *self.writes)
        starts = self.subsets(everything) if self.warm else iter([frozenset[Byte]()])
        return min(self.after(0, start, frozenset()) for start in starts)

    def subsets(self, some: frozenset[Byte]) -> Iterator[frozenset[Byte]]:
        for size in range(min(self.cache_bytes, len(some)) + 1):
            yield from map(frozenset, combinations(sorted(some, key=repr), size))

    def needed(self, byte: Byte, op: int) -> bool:
        """Whether what a byte holds after op-1 is read later or persists."""
        for i in range(op, self.count):
            if byte in self.reads[i]:
                return True
            if byte in self.writes[i]:
                return False
        return byte[0] in self.case.persistent

    def _after(self, op: int, clean: frozenset[Byte], dirty: frozenset[Byte]) -> int:
        """Least traffic from op on, with these bytes in the cache."""
        if op == self.count:
            leaves = [] if self.warm else [b for b in dirty if b[0] in self.case.persistent]
            return len(leaves)
        missed = self.reads[op] - clean - dirty
        now_dirty = dirty | self.writes[op]
        now_clean = (clean | self.reads[op]) - now_dirty
        best = 10**9
        for kept in self.subsets(now_clean | now_dirty):
            spilled = sum(self.needed(b, op + 1) for b in now_dirty - kept)
            later = self.after(op + 1, now_clean & kept, now_dirty & kept)
            best = min(best, spilled + later)
        return len(missed) + best
