"""Working sets around the caches: bytes per second of one kernel, level by level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from timeroof.core.machine import CACHE_LEVELS, Machine, Scope
from timeroof.core.units import format_amount, format_bytes_binary
from timeroof.study.case import Case
from timeroof.study.factors.conclusion import Effect, Facts, digits, ratio_of
from timeroof.study.grid import DesignOptions
from timeroof.study.judged_cases import Row, sweeps

OP = "elementwise"
# Two operands and a result of four bytes each.
BYTES_PER_ELEMENT = 12
# Sets of half a cache lie in it, of four times its size mostly outside; between is no man's land.
INSIDE, OUTSIDE = 0.6, 2.5
LARGEST_SET = 2**28
# Shares of a set's time beyond which its rate says nothing of the level that holds it.
MOST_START, MOST_FAULTS = 1 / 3, 0.1


def design(options: DesignOptions) -> list[Case]:
    """Element-wise additions whose operands fill half, all and four times each cache."""
    memory = options.machine.memory if options.machine else []
    caches = [m.size_bytes for m in memory if m.level in CACHE_LEVELS] or [2**15, 2**20, 2**25]
    # 2.75 leaves the cache while results are small enough for an allocator to keep their pages.
    shares = (0.25, 0.5, 2.75) if options.quick else (0.125, 0.25, 0.5, 1.0, 2.0, 2.75, 4.0)
    sizes = {
        round(size * share / BYTES_PER_ELEMENT / 64) * 64 for size in caches for share in shares
    }
    kept = sorted(n for n in sizes if 0 < n * BYTES_PER_ELEMENT <= LARGEST_SET)
    return options.cases(OP, {"elements": kept})


class SetPoint(NamedTuple):
    """One working set: its size, bytes per second, and seconds per byte of every sample."""

    size_bytes: float
    rate_per_s: float
    seconds_per_byte: tuple[float, ...]
    row: Row


class Level(NamedTuple):
    """A level of memory with the working sets that it holds."""

    name: str
    size_bytes: int | None
    ceiling_per_s: float | None
    points: tuple[SetPoint, ...]

    @property
    def middle(self) -> SetPoint:
        """The set with the median rate: neither the one that luck nor launching favoured."""
        return sorted(self.points, key=lambda p: p.rate_per_s)[len(self.points) // 2]

    @property
    def share(self) -> float | None:
        """Its rate over the level's ceiling."""
        rate = self.middle.rate_per_s
        return round(rate / self.ceiling_per_s, 4) if self.ceiling_per_s else None

    @property
    def measured(self) -> bool:
        """Whether counters gave the bytes of all its sets."""
        return all(p.row.measured("bytes/dram") for p in self.points)

    def facts(self) -> Facts:
        """The level as plain data."""
        return {
            "level": self.name,
            "size_bytes": self.size_bytes,
            "ceiling_per_s": self.ceiling_per_s,
            "bytes_per_s": digits(self.middle.rate_per_s),
            "share_of_ceiling": self.share,
            "working_sets": [p.size_bytes for p in self.points],
        }


def set_points(rows: Sequence[Row]) -> list[SetPoint]:
    """Warm sets of the element-wise kernel by size, the cost of starting taken off."""
    runs = [
        s.rows for s in sweeps(rows, OP) if s.parameter == "elements" and s.rows[0].cache != "cold"
    ]
    longest = [r for r in max(runs, key=len, default=[]) if set_size(r)]
    start_s = starting_cost_s(longest)
    return [p for row in longest if (p := _point(row, start_s)) is not None]


def set_size(row: Row) -> float:
    """Bytes of all operands of a row, 0 where they are not known."""
    return row.working_set_bytes or row.bytes_by.get("dram") or 0.0


def starting_cost_s(rows: Sequence[Row]) -> float:
    """Seconds before the first byte, from the two smallest sets: time at no bytes on their line."""
    ordered = sorted(rows, key=set_size)[:2]
    if len(ordered) < 2:
        return 0.0
    (small, first), (large, second) = ((set_size(r), r.time_s) for r in ordered)
    if large == small:  # sizes that a user chose may need the same memory
        return 0.0
    return max(0.0, (first * large - second * small) / (large - small))


def _point(row: Row, start_s: float) -> SetPoint | None:
    """A set's rate; None where starting, or pages touched first, take much of its time."""
    size = set_size(row)
    # Rates are of the bytes that the operands have: what a counter sees at DRAM is less in a cache.
    moved = size if row.measured("bytes/dram") else (row.bytes_by.get("dram") or size)
    if (row.fault_s or 0.0) > MOST_FAULTS * row.time_s or start_s > MOST_START * row.time_s:
        return None
    each = tuple((s - start_s) / moved for s in row.samples if s > start_s)
    return SetPoint(size, 1 / sorted(each)[len(each) // 2], each, row)


def working_set_levels(rows: Sequence[Row], machine: Machine | None) -> list[Level]:
    """Sets by the level that holds them; those near a border belong to none."""
    points = set_points(rows) if machine else []
    if machine is None or not points:
        return []
    scope = points[0].row.scope
    sizes = sorted(cache_sizes(machine, scope).items(), key=lambda item: item[1])
    found = []
    lower = 0.0
    for name, size in [*sizes, ("dram", None)]:
        top = INSIDE * size if size else math.inf
        held = tuple(p for p in points if lower < p.size_bytes <= top)
        lower = OUTSIDE * size if size else lower
        if held:
            found.append(Level(name, size, machine.rate(f"byte/{name}", scope), held))
    return found


def cache_sizes(machine: Machine, scope: Scope) -> dict[str, int]:
    """Bytes that each cache holds for all cores, or for one: L1 and L2 are a core's own."""
    dram = machine.roofs("all").get("byte/dram")
    cores = (dram.threads if dram else None) or 1
    shared = 1 if scope == "all" or machine.kind != "cpu" else cores
    return {
        m.level: m.size_bytes // (shared if m.level in ("l1", "l2") else 1)
        for m in machine.memory
        if m.level in CACHE_LEVELS
    }


def curve_facts(rows: Sequence[Row], machine: Machine | None, levels: Sequence[Level]) -> Facts:
    """Levels, the whole curve, and the sizes and ceilings that it is drawn against."""
    if machine is None or not levels:
        return {"levels": [], "curve": [], "cache_sizes": {}, "ceilings": {}}
    points = set_points(rows)
    scope = points[0].row.scope
    sizes = cache_sizes(machine, scope)
    return {
        "levels": [level.facts() for level in levels],
        "curve": [
            {"size_bytes": p.size_bytes, "bytes_per_s": digits(p.rate_per_s)} for p in points
        ],
        "cache_sizes": sizes,
        "ceilings": {name: machine.rate(f"byte/{name}", scope) for name in (*sizes, "dram")},
    }


def level_drops(levels: Sequence[Level]) -> list[Effect]:
    """Seconds per byte of each level over those of the level above it."""
    found = []
    for above, below in pairwise(levels):
        first, second = above.middle, below.middle
        rows = (first.row, second.row)
        ratio, disturbed = ratio_of(rows, (first.seconds_per_byte, second.seconds_per_byte))
        if ratio is not None:
            title, ids = f"{OP}: seconds per byte", (first.row.id, second.row.id)
            facts = {"kind": "level", "bytes_measured": above.measured and below.measured}
            beside = any(row.busy for row in rows) and not disturbed
            names = above.name.upper(), below.name.upper()
            found.append(Effect(title, *names, ratio, ids, facts, disturbed, beside))
    return found


def levels_text(levels: Sequence[Level], drops: Sequence[Effect]) -> str:
    """Rates level by level, and where they drop."""
    rates = ", ".join(
        f"{format_amount(level.middle.rate_per_s, 'B/s')} in {level.name.upper()}{_share(level)}"
        for level in levels
    )
    real = [
        f"a byte from {e.other} takes {e.ratio.text()} as long as from {e.base}"
        for e in drops
        if e.real and e.ratio.value > 1
    ]
    none = "no level is slower than the one above it beyond the spread"
    if any(e.disturbed for e in drops):
        none = "other programs ran, so nothing is claimed"
    fall = "; ".join(real) or none
    return f"Over the working set the element-wise kernel moves {rates}: {fall}."


def _share(level: Level) -> str:
    if level.share is None:
        return ""
    size = f", {format_bytes_binary(level.size_bytes)}" if level.size_bytes else ""
    return f" ({100 * level.share:.0f} % of its ceiling{size})"
