"""Which bytes the ops of a step touch, and what of it must pass each level of the hierarchy."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from timeroof.core.machine import Machine
from timeroof.live.calls import Counted
from timeroof.live.recording import Described, TensorSeen, tensors_in
from timeroof.work.locality.accesses import Accesses, LadderBytes, Range, ladder_bytes
from timeroof.work.locality.ideal import ideal_traffics

# Storages over time: a new one may get the address, and so the number, of one that is gone.


class Lives:
    """Numbers the lives of every storage, op by op in the order in which they end. An op that
    returns a storage which it was not given, and which no op that it called has made, has made it:
    a new life begins."""

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
    """Whether a named storage was made in the step."""
    return isinstance(storage, tuple) and storage[1] > 0


def _storages(values: object) -> set[int]:
    return {tensor.storage for tensor in tensors_in(values)}


# The cache whose misses are the traffic of a level.
CACHE_ABOVE = {"l2": "l1", "l3": "l2"}
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Traffic:
    """Bytes per op and level, the bytes that fusing cannot avoid, and fresh bytes per op."""

    by_level: dict[str, Floats]
    ladder: LadderBytes
    fresh_bytes: list[dict[Hashable, int]]


def traffic(
    ops: Sequence[Described], counted: Sequence[Counted], phases: Sequence[str], machine: Machine
) -> Traffic:
    """The least traffic of every op at every level of a machine, caches warm from other steps."""
    order = completion_order(ops)
    return traffic_of(all_ranges(ops, counted, order), order, phases, machine)


def traffic_of(
    ranges: list[list[Range]], order: Sequence[int], phases: Sequence[str], machine: Machine,
    results: set[Hashable] = frozenset(),  # type: ignore[assignment]
) -> Traffic:  # fmt: skip
    """The same where ranges are known, in the order in which the ops end. Each range's storage
    comes with the number of its life, 0 for one from before the step; `results` are those that
    are made in it and stay."""
    accesses = Accesses.of(ranges, _changed(ranges) | results)
    levels = caches_above(machine)
    found = ideal_traffics(accesses, [size for _, size in levels], warm=True)
    by_level: dict[str, Floats] = {"l1": np.zeros(len(phases))}
    by_level["l1"][order] = [sum(r[2] for r in own) for own in ranges]
    for (level, _), t in zip(levels, found, strict=True):
        by_level[level] = np.zeros(len(phases))
        by_level[level][order] = t.read_bytes + t.write_bytes
    fresh: list[dict[Hashable, int]] = [{} for _ in phases]
    for place, bytes_of in zip(order, _fresh(ranges), strict=True):
        fresh[place] = bytes_of
    return Traffic(by_level, ladder_bytes(accesses, [phases[i] for i in order]), fresh)


def all_ranges(
    ops: Sequence[Described], counted: Sequence[Counted], order: Sequence[int]
) -> list[list[Range]]:
    """Ranges of all ops as they end; what an op had written by one that it called is not its own.
    The gradient of an embedding is filled with zeros below, and then a few rows are added to.
    Products are left alone: they read and write the whole result again."""
    written: list[dict[Hashable, int]] = [{} for _ in ops]
    found: list[list[Range]] = []
    lives = Lives(ops)
    for place in order:
        lives.end(place)
        inner = written[place]
        own = [(lives.named(r[0]), *r[1:]) for r in ranges_of(ops[place], counted[place])]
        if inner and not counted[place].cost.contraction_flops:
            own = [r for r in own if r[3] == "read" or inner.get(r[0], 0) < r[2]]
        above = ops[place].parent
        if above is not None:
            for storage, _, length, kind in own:
                if kind == "write":
                    written[above][storage] = max(length, written[above].get(storage, 0))
            written[above].update(inner)
        found.append(own)
    return found


def completion_order(ops: Sequence[Described]) -> list[int]:
    """Places of the ops in the order in which they end: what is called before its caller. An op
    that fills a table with zeros by calling another writes its own rows afterwards."""
    order: list[int] = []
    open_: list[int] = []
    for place, op in enumerate(ops):
        while open_ and open_[-1] != op.parent:
            order.append(open_.pop())
        open_.append(place)
    return order + open_[::-1]


def caches_above(machine: Machine) -> list[tuple[str, int]]:
    """Levels with the size of the cache above each."""
    found = [("dram", machine.largest_cache_bytes or 0)]
    for level, cache in CACHE_ABOVE.items():
        size = machine.memory_size(cache)
        if size is not None and machine.memory_size(level) is not None:
            found.append((level, size))
    return found


def ranges_of(op: Described, counted: Counted) -> list[Range]:
    """What an op that does work of its own reads and writes, no more than was counted."""
    cost = counted.cost
    if cost.free or op.scope:
        return []
    written = (*op.outputs, *_overwritten(op))
    found: list[Range] = [(*r, "read") for r in _trimmed(op.inputs, cost.bytes_read)]
    found += [(*w, "write") for w in _trimmed(written, cost.bytes_written)]
    return found


def _overwritten(op: Described) -> list[object]:
    """Arguments that the schema marks as written: ``Tensor(a!) self``."""
    arguments = op.schema.partition("(")[2].rpartition(" -> ")[0].split(", ")
    named = zip((a for a in arguments if a != "*"), op.inputs, strict=False)
    return [value for argument, value in named if "!" in argument.split(" ")[0]]


Extent = tuple[int, int, int]


def _extent(tensor: TensorSeen) -> Extent:
    """Storage, first byte and length; a view with holes counts its own bytes only."""
    both = zip(tensor.shape, tensor.strides, strict=False)
    count, reach = math.prod(tensor.shape), 1 + sum((size - 1) * abs(step) for size, step in both)
    elements = min(count, reach) if tensor.strides or not tensor.shape else count
    return tensor.storage, tensor.offset * tensor.item_bytes, elements * tensor.item_bytes


def _trimmed(values: tuple[object, ...], most_bytes: float | None) -> list[Extent]:
    """Different extents; the largest is cut where an op touches less (the rows of a table)."""
    real = [t for t in tensors_in(values) if t.device.startswith("cpu") and t.item_bytes > 0]
    different = list(dict.fromkeys(e for e in map(_extent, real) if e[2] > 0))
    if most_bytes is None:
        return different
    if most_bytes <= 0:
        return []
    excess = sum(e[2] for e in different) - int(most_bytes)
    for storage, offset, length in sorted(different, key=lambda e: -e[2]):
        if excess <= 0:
            break
        cut = min(excess, length)
        different[different.index((storage, offset, length))] = (storage, offset, length - cut)
        excess -= cut
    return [e for e in different if e[2] > 0]


def _changed(ranges: list[list[Range]]) -> set[Hashable]:
    """Storages from before the step that it writes: later steps need them."""
    return {s for op in ranges for s, _, _, kind in op if kind == "write" and not is_made(s)}


def _fresh(ranges: list[list[Range]]) -> list[dict[Hashable, int]]:
    seen: set[Hashable] = set()
    found: list[dict[Hashable, int]] = []
    for op in ranges:
        fresh: dict[Hashable, int] = {}
        for storage, _, length, kind in op:
            if kind == "write" and is_made(storage) and storage not in seen:
                fresh[storage] = max(length, fresh.get(storage, 0))
        seen.update(fresh)
        found.append(fresh)
    return found
