"""Memory: bandwidth of each level and the curve over the working set, latency, fresh pages."""

from __future__ import annotations

import functools
import math
import mmap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from timeroof.probe.cpu.ir import Compiled, compile_ir, module
from timeroof.probe.cpu.streams import (
    CHASE_LOADS,
    PATTERNS,
    Pattern,
    Stream,
    chase_kernel,
    compiled_stream,
    touch_kernel,
)
from timeroof.probe.cpu.threads import HUGE_BYTES, Region, Team, Work
from timeroof.probe.cpu.topology import KIB, MIB, Features, Topology
from timeroof.probe.sampling import (
    LEAST_SAMPLES,
    Figure,
    Plan,
    Samples,
    SweepPoint,
    recorded,
    sample,
    wrong_result,
)

SMALLEST_BYTES = 4 * KIB
# The DRAM's working set against the last-level cache, and its least size.
DRAM_FACTOR = 4
DRAM_LEAST_BYTES = 64 * MIB


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


# Memory is shared with whoever else is on the host and moves within minutes: its ceiling is what
# one moment in seven reaches, as the single best one is luck. From so many moments on.
REPEATED, MANY_MOMENTS = 0.15, 8

QUICK_PATTERNS = ("update", "triad", "read", "copy-nt")


@dataclass(frozen=True)
class Point:
    """One pattern at one working set."""

    pattern: Pattern
    size_bytes: int
    width_bits: int
    figure: Figure

    @property
    def rate_per_s(self) -> float:
        """Useful bytes per second."""
        return self.figure.rate_per_s


@dataclass
class LevelFigures:
    """The best figure of each pattern at one level."""

    level: Level
    by_pattern: dict[str, Point] = field(default_factory=dict)
    # Everything that was taken, by pattern, working set and width.
    moments: dict[tuple[str, int, int], list[Point]] = field(default_factory=dict)

    def take(self, point: Point) -> None:
        """Keep a point if it belongs here and is its pattern's best."""
        if not self.level.holds(point.size_bytes) or not _serves(point.pattern, self.level):
            return
        key = (point.pattern.name, point.size_bytes, point.width_bits)
        self.moments.setdefault(key, []).append(point)
        held = self.by_pattern.get(point.pattern.name)
        if held is None or point.rate_per_s > held.rate_per_s:
            self.by_pattern[point.pattern.name] = point

    def leaders(self, count: int) -> list[Point]:
        """The best point of each of the fastest patterns."""
        return sorted(self.by_pattern.values(), key=lambda p: -p.rate_per_s)[:count]

    def settle(self) -> None:
        """Leave out what memory reached in rare moments only. For a quiet machine: on a busy one
        the rare moments are the undisturbed ones."""
        ordered = [
            sorted((p.rate_per_s for p in points), reverse=True)
            for points in self.moments.values()
            if len(points) >= MANY_MOMENTS
        ]
        if ordered and self.level.name == "dram":
            most = max(rates[int(REPEATED * len(rates))] for rates in ordered)
            taken = [p for points in self.moments.values() for p in points]
            self.by_pattern, self.moments = {}, {}
            for point in taken:
                if point.rate_per_s <= most:
                    self.take(point)

    @property
    def best(self) -> Point | None:
        """The level's ceiling."""
        return next(iter(self.leaders(1)), None)


def _serves(pattern: Pattern, level: Level) -> bool:
    """Stores that go past the caches say nothing about a cache."""
    return level.name == "dram" or not pattern.streaming


@dataclass(frozen=True)
class Setup:
    """Who measures, in which memory, with which instructions, and for how long."""

    team: Team
    regions: Sequence[Region]
    features: Features
    plan: Plan


def measure_point(setup: Setup, pattern: Pattern, size_bytes: int, width_bits: int) -> Point:
    """Bandwidth of a pattern at a total working set, its result verified."""
    team = setup.team
    kernel = compiled_stream(pattern, width_bits, setup.features)
    streams = [Stream.of_size(pattern, region, size_bytes // team.size) for region in setup.regions]
    for stream in streams:
        stream.fill()
    work = [stream.work for stream in streams]
    passes = last = 0

    def run(repetitions: int) -> float:
        nonlocal passes, last
        outcome = team.run(kernel, work, repetitions)
        passes, last = passes + repetitions, repetitions
        for stream, checksum in zip(streams, outcome.checksums, strict=True):
            stream.check_sum(checksum, repetitions)
        return outcome.time_s

    figure = Figure.of(sample(run, setup.plan), amount=sum(s.moved_bytes for s in streams))
    for stream in streams:
        # A write leaves the number of its last repetition, an update those of all.
        stream.check(last if pattern.name.startswith("write") else passes)
    return Point(pattern, sum(s.size_bytes for s in streams), width_bits, figure)


def measure_levels(
    setup: Setup, figures: Iterable[LevelFigures], *, quick: bool, errors: list[str],
    may_go_on: Callable[[], bool] = lambda: True,
) -> None:  # fmt: skip
    """One sitting at the anchors of all levels; keeps what is better than before."""
    for held in figures:
        for size in held.level.anchors[:1] if quick else held.level.anchors:
            names = QUICK_PATTERNS if quick else tuple(PATTERNS)
            # Which width is best differs from level to level, also on one CPU; least so in DRAM.
            widths = setup.features.widths_bits[-1 if quick and held.level.name == "dram" else -2 :]
            for pattern in (PATTERNS[n] for n in names if _serves(PATTERNS[n], held.level)):
                for width in widths:
                    # Short of time, one figure per level is still needed.
                    if held.best is not None and not may_go_on():
                        continue
                    with recorded(errors):
                        held.take(measure_point(setup, pattern, size, width))


def measure_sweep(
    setup: Setup, sizes: Sequence[int], figures: Sequence[LevelFigures], *, errors: list[str],
    patterns: Iterable[str] = tuple(PATTERNS), may_go_on: Callable[[], bool] = lambda: True,
    between: Callable[[], None] = lambda: None,
) -> list[SweepPoint]:  # fmt: skip
    """The curve of each pattern over the working set; also raises the levels' figures. `between` is
    called after each working set."""
    points: list[SweepPoint] = []
    # The width to draw each pattern's curve with: the best at the innermost level.
    widths = dict.fromkeys(PATTERNS, setup.features.widths_bits[-1])
    for held in reversed(figures):
        widths |= {name: best.width_bits for name, best in held.by_pattern.items()}
    for size in sizes:
        if not may_go_on():
            break
        for name in patterns:
            with recorded(errors):
                point = measure_point(setup, PATTERNS[name], size, widths[name])
                for held in figures:
                    held.take(point)
                points.append(
                    SweepPoint(
                        pattern=name,
                        size_bytes=point.size_bytes,
                        threads=setup.team.size,
                        rate_per_s=point.rate_per_s,
                        spread=point.figure.spread,
                    )
                )
        between()
    return points


LINE_BYTES = 64
# Where in the region the walk's position is kept, before the ring begins.
HEAD_BYTES = 4096


@functools.cache
def _compiled() -> Compiled:
    return compile_ir(module(chase_kernel()))


def ring_order(lines: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """A random order of cache lines that no prefetcher guesses; the same in every run."""
    return np.random.default_rng(2009_04598).permutation(lines)


def sample_walk(team: Team, region: Region, size_bytes: int, plan: Plan) -> Samples:
    """Seconds per load on a walk around a ring of lines; checks where each walk ends."""
    order = ring_order(max(2, size_bytes // LINE_BYTES))
    start = region.address + HEAD_BYTES
    addresses = (order * LINE_BYTES + start).astype(np.uint64)
    step = LINE_BYTES // 8
    memory = region.array(HEAD_BYTES, len(order) * step, np.uint64)
    memory[order * step] = np.roll(addresses, -1)
    head = region.array(0, 1, np.uint64)
    head[0] = addresses[0]
    turns, walked = 8, 0

    def run(repetitions: int) -> float:
        nonlocal walked
        outcome = team.run(_compiled(), [Work(0, region.address, 0, turns)], repetitions)
        walked += turns * repetitions * CHASE_LOADS
        if outcome.checksums[0] != int(addresses[walked % len(order)]):
            raise wrong_result("latency")
        return outcome.time_s

    # Once around first, so that every line is where its level keeps it.
    run(-(-len(order) // (turns * CHASE_LOADS)))
    samples = sample(run, plan)
    return Samples([t / (turns * CHASE_LOADS) for t in samples.times_s])


SIZE_BYTES = 4 * HUGE_BYTES


@functools.cache
def _faults_compiled(page_bytes: int) -> Compiled:
    return compile_ir(module(touch_kernel(page_bytes)))


def sample_faults(
    team: Team, *, size_bytes: int = SIZE_BYTES, samples: int = LEAST_SAMPLES
) -> Samples:
    """Seconds per base page of a team touching memory that it just got, as the system gives it."""
    count = size_bytes // mmap.PAGESIZE
    times_s = []
    regions: list[Region] = []
    for _ in range(samples):
        # Given back first: in a virtual machine, memory that was never used before costs
        # the host a fault too, which a program pays only once.
        regions.clear()
        regions += [Region(size_bytes, huge=False) for _ in range(team.size)]
        work = [Work(region.address, 0, 0, count) for region in regions]
        outcome = team.run(_faults_compiled(mmap.PAGESIZE), work, 1)
        if any(checksum != count for checksum in outcome.checksums):
            raise wrong_result("page fault")
        times_s.append(outcome.time_s / (count * team.size))
    return Samples(times_s)
