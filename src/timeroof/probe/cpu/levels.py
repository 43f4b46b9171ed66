"""Which working sets belong to which level of the memory hierarchy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from timeroof.probe.cpu.topology import KIB, MIB, Cache, Topology

SMALLEST_BYTES = 4 * KIB
# The DRAM's working set against the last-level cache, and its least size.
DRAM_FACTOR = 4
DRAM_LEAST_BYTES = 64 * MIB
# How far above its plateau the latency is when a level has ended, and how little it may
# grow from one size to the next for another level to have begun.
CLIMB = 1.5
SETTLED = 1.15


@dataclass(frozen=True)
class Level:
    """A level and the total working sets that live in it; anchors are measured with care."""

    name: str
    low_bytes: float
    high_bytes: float
    anchors: tuple[int, ...]

    def holds(self, size_bytes: int) -> bool:
        """Whether a working set is served by this level alone."""
        return self.low_bytes <= size_bytes <= self.high_bytes


def levels_of(topology: Topology, cpus: Sequence[int], most_bytes: int) -> list[Level]:
    """The levels as these CPUs together see them; `most_bytes` caps what DRAM may take."""
    found: list[Level] = []
    below = 0
    for level in topology.levels():
        capacity = topology.capacity(level, cpus)
        if level > 3 or capacity <= below:
            continue
        found.append(_cache_level(f"l{level}", below, capacity))
        below = capacity
    size = min(max(DRAM_FACTOR * below, DRAM_LEAST_BYTES), most_bytes)
    found.append(Level("dram", 0.75 * size, size, (size,)))
    return found


def _cache_level(name: str, below: int, capacity: int) -> Level:
    """Well inside the level: beyond the one below, short of the edge that others share."""
    low, high = 2.0 * below, 0.75 * capacity
    if high < 1.2 * low:
        # Big private caches under a small shared one: what the shared one adds to them.
        low, high = 1.2 * below, 0.8 * (below + capacity)
    low = max(low, float(SMALLEST_BYTES))
    if not below:
        return Level(name, low, high, (round(high / 1.5), round(high)))
    # A quarter and half of the way on a logarithmic axis: far from both edges.
    way = high / low
    return Level(name, low, high, (round(low * way**0.25), round(low * way**0.5)))


def sweep_sizes(levels: Sequence[Level], threads: int, *, quick: bool) -> list[int]:
    """Total working sets from 4 KiB a thread to the largest, even on a logarithmic axis."""
    last_cache = max((lv.high_bytes for lv in levels[:-1]), default=0.0)
    largest = levels[-1].anchors[-1]
    size, sizes = float(SMALLEST_BYTES * threads), []
    while size < largest / 1.2:
        sizes.append(round(size))
        # Beyond the caches the curve is flat and each point is dear.
        size *= 2.0 if quick or size > last_cache else math.sqrt(2.0)
    return [*sizes, largest]


def detect_capacities(curve: Sequence[tuple[int, float]]) -> list[int]:
    """Cache sizes from where a latency curve (size, seconds) climbs, smallest first.

    Latency tells levels apart where bandwidth hardly does: on a Zen 4, L3 has 0.85 of L2's
    bandwidth and five times its latency. A level ends at the last size before the latency
    leaves its plateau; the next one begins where it stops climbing.
    """
    edges: list[int] = []
    plateau_s, climbing = curve[0][1], False
    for (before, before_s), (_, time_s) in pairwise(curve):
        if climbing and time_s < SETTLED * before_s:
            climbing, plateau_s = False, time_s
        elif not climbing and time_s > CLIMB * plateau_s:
            climbing = True
            edges.append(before)
    return edges[:3]


def with_detected_caches(topology: Topology, capacities: Sequence[int]) -> Topology:
    """A topology whose caches come from the curve of one core: all but the last are its own."""
    caches: list[Cache] = []
    for level, size in enumerate(capacities, start=1):
        shared = level == len(capacities) and level > 1
        groups = [topology.cores] if shared else [(cpu,) for cpu in topology.cores]
        caches += [Cache(level, size, frozenset(group)) for group in groups]
    return replace(topology, caches=tuple(caches)) if caches else topology
