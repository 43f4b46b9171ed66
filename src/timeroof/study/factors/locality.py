"""Locality: what layout, a cold cache and a larger working set cost.

Three comparisons of equal work: tensors laid out contiguously against channels_last (reorders
counted, with their seconds), caches warm against flushed, and one element-wise kernel over working
sets around each cache of the machine, its bytes per second against the ceiling of the level that
holds it. Bytes are those that counters measured where rows have them, else those of the operands;
the words say which.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from timeroof.core.machine import CACHE_LEVELS, Machine, Scope
from timeroof.core.units import format_amount, format_bytes_binary, format_percent, format_seconds
from timeroof.study.case import Case
from timeroof.study.factors.conclusion import (
    INCONCLUSIVE,
    Bar,
    Conclusion,
    Effect,
    Facts,
    compared,
    digits,
    leading,
    ratio_of,
    settle,
    times,
    undecided,
)
from timeroof.study.grid import DesignOptions
from timeroof.study.judged_cases import Row, group_titles, groups, ops, sweeps

OP = "elementwise"
# Two operands and a result of four bytes each.
BYTES_PER_ELEMENT = 12
# Sets of half a cache lie in it, of four times its size mostly outside; between is no man's land.
INSIDE, OUTSIDE = 0.6, 2.5
LARGEST_SET = 2**28
# Shares of a set's time beyond which its rate says nothing of the level that holds it.
MOST_START, MOST_FAULTS = 1 / 3, 0.1


def _working_sets(options: DesignOptions) -> list[Case]:
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


LAYOUTS = ("contiguous", "channels_last")
CACHES = ("warm", "cold")
# Elements of the addition that runs on warm and on flushed caches: 768 KiB of operands.
FLUSHED = 1 << 16


def design(options: DesignOptions) -> list[Case]:
    """Layouts of a convolution and a pooling, warm against cold, and sets around each cache."""
    laid_out = ("conv2d",) if options.quick else ("conv2d", "pool")
    flushed = () if options.quick else ("conv2d", "layernorm", "gemm")
    return [
        *(case for k in laid_out for case in options.cases(k, {"layout": LAYOUTS})),
        *(case for k in flushed for case in options.cases(k, caches=CACHES)),
        # Small enough to stay in a cache: there flushing costs most.
        *options.cases("elementwise", {"elements": [FLUSHED]}, caches=CACHES),
        *_working_sets(options),
    ]


def conclude(rows: Sequence[Row], machine: Machine | None) -> Conclusion | None:
    """What place and order of data cost; None where nothing was compared."""
    levels = working_set_levels(rows, machine)
    pairs = [*_pairs(rows, "layout", *LAYOUTS), *_pairs(rows, "cache", *CACHES)]
    effects = settle([*pairs, *level_drops(levels)])
    # Layouts may cost or gain; a cold cache and a lower level can only cost: one that seems to
    # gain is chance, which no sentence is about where there is anything else to say.
    can_be = [e for e in effects if e.kind == "layout" or e.verdict != "faster"]
    lead = leading(sorted(can_be or effects, key=_preference))
    if lead is None:
        return None
    real = [e for e in can_be if e.real]
    return Conclusion(
        "locality",
        bool(real),
        _sentence(lead),
        _points(effects, real, levels),
        effects,
        facts={"bytes": _basis(rows), **curve_facts(rows, machine, levels)},
        action=_action(real),
        lead=lead,
        bars=_bars(lead),
        open_because=undecided(lead),
    )


def _preference(effect: Effect) -> tuple[int, bool]:
    """Layouts of the paper's convolution, then flushed caches, then levels of memory."""
    return ("layout", "cache", "level").index(effect.kind), not effect.group.startswith("conv2d")


def _sentence(lead: Effect) -> str:
    op, ratio = lead.group.split()[0].rstrip(":"), lead.ratio.value
    if lead.verdict == "unclear":
        return INCONCLUSIVE
    costs = lead.verdict == "slower"
    if lead.kind == "level":
        more = f"{times(ratio)} as long as" if costs else "no longer than"
        return f"A byte from {lead.other} takes {more} a byte from {lead.base}."
    if lead.kind == "cache":
        size = lead.facts["working_set_bytes"]
        of = f"An {op} kernel of {format_bytes_binary(int(size))}" if op == OP and size else op
        more = f"{times(ratio)} as long" if costs else "no longer"
        return f"{of} takes {more} with cold caches {'as' if costs else 'than'} with warm ones."
    if lead.verdict == "same":
        return f"{op} takes as long with {lead.other} as with {lead.base} ({times(ratio)})."
    fast, slow = (lead.other, lead.base) if ratio < 1 else (lead.base, lead.other)
    return f"{op} is {times(max(ratio, 1 / ratio))} faster with {fast} tensors than with {slow}."


def _bars(lead: Effect) -> list[Bar]:
    seconds = lead.facts.get("time_s")
    if seconds is None:  # of levels: time per byte
        values = (1.0, lead.ratio.value)
        return [Bar(n, v, times(v)) for n, v in zip((lead.base, lead.other), values, strict=True)]
    names = (lead.base, lead.other)
    return [Bar(n, v, format_seconds(v)) for n, v in zip(names, seconds, strict=True)]


def _pairs(rows: Sequence[Row], free: str, first: str, second: str) -> list[Effect | None]:
    pairs = []
    for op in ops(rows):
        for group in groups(rows, op, free):
            sides = {row.cache if free == "cache" else row.params.get(free): row for row in group}
            if {first, second} <= set(sides):
                pairs.append((sides[first], sides[second]))
    titles = group_titles(pairs, free)
    return [
        compared(title, (first, a), (second, b), {"kind": free, **_evidence(a, b)})
        for title, (a, b) in zip(titles, pairs, strict=True)
    ]


def _evidence(base: Row, other: Row) -> Facts:
    both = (base, other)
    # What oneDNN says of its reorders is wall time: beside others it is no share of CPU time.
    shares = [
        None if r.reorder_s is None or r.clock == "cpu" else r.reorder_s / r.time_s for r in both
    ]
    return {
        "time_s": [r.time_s for r in both],
        "reorders": [r.reorders for r in both],
        "reorder_s": [r.reorder_s for r in both],
        "reorder_share": shares,
        "difference_s": other.time_s - base.time_s,
        "bytes": [r.bytes_by.get("dram") for r in both],
        "bytes_measured": all(r.measured("bytes/dram") for r in both),
        "working_set_bytes": base.working_set_bytes,
    }


def _basis(rows: Sequence[Row]) -> str:
    origins = {row.origins.get("bytes/dram") for row in rows} - {None}
    if origins == {"measured"}:
        return "measured"
    return "measured and counted" if "measured" in origins else "counted"


def _points(
    effects: Sequence[Effect], real: Sequence[Effect], levels: Sequence[Level]
) -> list[str]:
    parts = [_layout_text(e) for e in real if e.kind == "layout"]
    parts += [_cache_text(e) for e in real if e.kind == "cache"]
    for kind, words in (("layout", "layouts"), ("cache", "warm and cold caches")):
        pairs = [e for e in effects if e.kind == kind]
        if pairs and not any(e.disturbed or e in real for e in pairs):
            parts.append(f"Between {words} there is no difference beyond the spread.")
    if levels:
        drops = [e for e in effects if e.kind == "level"]
        parts.append(levels_text(levels, drops))
    measured = [e for e in effects if e.facts["bytes_measured"]]
    basis = "are counted from the operands, not measured"
    if measured:
        basis = "of some rows were measured by counters, the others counted from the operands"
    if len(measured) == len(effects):
        basis = "are those that counters measured"
    return [*parts, f"Bytes {basis}."]


def _layout_text(effect: Effect) -> str:
    facts = effect.facts
    told = f"{effect.group}: {effect.other} takes {effect.ratio.text()} the time of {effect.base}"
    counts, shares = facts["reorders"], facts["reorder_share"]
    if None not in counts:
        told += f"; reorders {counts[0]:.0f} against {counts[1]:.0f}"
    if None not in shares and any(shares):
        told += f", {format_percent(shares[0])} against {format_percent(shares[1])} of the time"
        told += _explained(facts)
    return f"{told}{_bytes_text(facts)}."


def _explained(facts: Facts) -> str:
    saved = facts["reorder_s"][1] - facts["reorder_s"][0]
    if not facts["difference_s"] or saved / facts["difference_s"] <= 0:
        return " (they do not explain the difference)"
    return f" ({format_percent(min(1.0, saved / facts['difference_s']))} of the difference)"


def _bytes_text(facts: Facts) -> str:
    if not facts["bytes_measured"] or not all(facts["bytes"]):
        return ""
    return f"; measured bytes {facts['bytes'][1] / facts['bytes'][0]:.2g} times"


def _cache_text(effect: Effect) -> str:
    more = f", {format_seconds(effect.facts['difference_s'], 2)} more"
    told = f"{effect.group}: cold takes {effect.ratio.text()} the time of warm"
    return f"{told}{_bytes_text(effect.facts) or more}."


def _action(real: Sequence[Effect]) -> str | None:
    gains = [e for e in real if e.kind == "layout"]
    if not gains:
        return None
    best = max(gains, key=lambda e: abs(e.ratio.value - 1))
    better = best.other if best.ratio.value < 1 else best.base
    return f"Keep tensors {better.replace('_', ' ')} from the start: {best.group}."
