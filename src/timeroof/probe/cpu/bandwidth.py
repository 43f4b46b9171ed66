"""Bandwidth: each level measured with care, and the curve over the working set."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from timeroof.probe.cpu.features import Features
from timeroof.probe.cpu.levels import Level
from timeroof.probe.cpu.memory import Region
from timeroof.probe.cpu.streams import PATTERNS, Pattern, Stream, compiled_stream
from timeroof.probe.cpu.threads import Team
from timeroof.probe.measurement import SweepPoint
from timeroof.probe.problems import recorded
from timeroof.probe.rates import Figure
from timeroof.probe.sampling import Plan, sample

# A moment this far above the middle one is another state of the machine, not a better sample of
# the same: a host has put the cores of a virtual machine under different memory controllers.
OTHER_STATE = 1.25
# Moments from which on a figure can say what is usual, and from which on a best must be repeated.
FEW_MOMENTS, MANY_MOMENTS = 3, 8
# Memory is shared with whoever else is on the host and moves by some percent within minutes: its
# ceiling is what one moment in seven reaches, as the single best one is luck.
REPEATED = 0.15

QUICK_PATTERNS = ("update", "triad", "read", "copy-nt")


@dataclass(frozen=True)
class Point:
    """One pattern at one working set."""

    pattern: Pattern
    size_bytes: int
    width_bits: int
    figure: Figure


@dataclass
class LevelFigures:
    """The best figure of each pattern at one level."""

    level: Level
    by_pattern: dict[str, Point] = field(default_factory=dict)
    # Everything that was taken, by pattern, working set and width.
    moments: dict[tuple[str, int, int], list[Point]] = field(default_factory=dict)
    # The best of what `settle` left out.
    rare: Point | None = None

    def take(self, point: Point) -> None:
        """Keep a point if it belongs here and is its pattern's best."""
        if not self.level.holds(point.size_bytes) or not _serves(point.pattern, self.level):
            return
        key = (point.pattern.name, point.size_bytes, point.width_bits)
        self.moments.setdefault(key, []).append(point)
        self._keep(point)

    def _keep(self, point: Point) -> None:
        held = self.by_pattern.get(point.pattern.name)
        if held is None or point.figure.rate_per_s > held.figure.rate_per_s:
            self.by_pattern[point.pattern.name] = point

    def leaders(self, count: int) -> list[Point]:
        """The best point of each of the fastest patterns."""
        ordered = sorted(self.by_pattern.values(), key=lambda p: -p.figure.rate_per_s)
        return ordered[:count]

    def settle(self) -> None:
        """Leave out what was reached in rare moments only; the best of it goes to `rare`.

        For a quiet machine: on a busy one the rare moments are the undisturbed ones.
        """
        before, most = self.best, self._most_usual()
        self.by_pattern = {}
        for points in self.moments.values():
            usual = _usual([p for p in points if p.figure.rate_per_s <= most])
            if usual:
                self._keep(usual[0])
        after = self.best
        if before and after and before.figure.rate_per_s > OTHER_STATE * after.figure.rate_per_s:
            self.rare = before

    def _most_usual(self) -> float:
        """No rate above this is usual: it comes from what was looked at most often."""
        shared = self.level.name == "dram"
        for least in (MANY_MOMENTS, FEW_MOMENTS) if shared else (FEW_MOMENTS,):
            often = [_usual(found) for found in self.moments.values() if len(found) >= least]
            if often:
                repeated = least == MANY_MOMENTS
                ranks = [int(REPEATED * len(usual)) if repeated else 0 for usual in often]
                rates = [u[r].figure.rate_per_s for u, r in zip(often, ranks, strict=True)]
                return max(rates) * (1.0 if repeated else OTHER_STATE)
        return math.inf

    @property
    def best(self) -> Point | None:
        """The level's ceiling."""
        points = self.by_pattern.values()
        return max(points, key=lambda point: point.figure.rate_per_s, default=None)


def _usual(points: Sequence[Point]) -> list[Point]:
    """The moments that are like the middle one, or slower; the best first."""
    if not points:
        return []
    middle = statistics.median_low(p.figure.rate_per_s for p in points)
    alike = [p for p in points if p.figure.rate_per_s <= OTHER_STATE * middle]
    return sorted(alike, key=lambda p: -p.figure.rate_per_s)


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
    setup: Setup,
    figures: Iterable[LevelFigures],
    *,
    quick: bool,
    errors: list[str],
    may_go_on: Callable[[], bool] = lambda: True,
) -> None:
    """One sitting at the anchors of all levels; keeps what is better than before."""
    for held in figures:
        for size in held.level.anchors[:1] if quick else held.level.anchors:
            for pattern in _patterns(held.level, quick=quick):
                for width in _widths(held.level, setup.features, quick=quick):
                    # Short of time, one figure per level is still needed.
                    if held.best is not None and not may_go_on():
                        continue
                    with recorded(errors):
                        held.take(measure_point(setup, pattern, size, width))


def _widths(level: Level, features: Features, *, quick: bool) -> tuple[int, ...]:
    """Which width is best differs from level to level, also on one CPU; least so in DRAM."""
    return (
        features.widths_bits[-1:] if quick and level.name == "dram" else features.widths_bits[-2:]
    )


def _patterns(level: Level, *, quick: bool) -> list[Pattern]:
    names = QUICK_PATTERNS if quick else tuple(PATTERNS)
    return [PATTERNS[name] for name in names if _serves(PATTERNS[name], level)]


def best_widths(figures: Sequence[LevelFigures], features: Features) -> dict[str, int]:
    """The width to draw each pattern's curve with: the best at the innermost level."""
    widths = dict.fromkeys(PATTERNS, features.widths_bits[-1])
    for held in reversed(figures):
        widths |= {name: point.width_bits for name, point in held.by_pattern.items()}
    return widths


def measure_sweep(
    setup: Setup,
    sizes: Sequence[int],
    figures: Sequence[LevelFigures],
    *,
    errors: list[str],
    patterns: Iterable[str] = tuple(PATTERNS),
    may_go_on: Callable[[], bool] = lambda: True,
    between: Callable[[], None] = lambda: None,
) -> list[SweepPoint]:
    """The curve of each pattern over the working set; also raises the levels' figures.

    `between` is called after each working set.
    """
    points: list[SweepPoint] = []
    widths = best_widths(figures, setup.features)
    for size in sizes:
        if not may_go_on():
            break
        for name in patterns:
            with recorded(errors):
                point = measure_point(setup, PATTERNS[name], size, widths[name])
                for held in figures:
                    held.take(point)
                points.append(_as_sweep_point(point, setup.team.size))
        between()
    return points


def _as_sweep_point(point: Point, threads: int) -> SweepPoint:
    return SweepPoint(
        pattern=point.pattern.name,
        size_bytes=point.size_bytes,
        threads=threads,
        rate_per_s=point.figure.rate_per_s,
        median_per_s=point.figure.median_per_s,
        spread=point.figure.spread,
    )
