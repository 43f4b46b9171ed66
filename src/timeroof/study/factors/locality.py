"""Locality: what layout, a cold cache and a larger working set cost.

Three comparisons of equal work: tensors laid out contiguously against channels_last (reorders
counted, with their seconds), caches warm against flushed, and one element-wise kernel over working
sets around each cache of the machine, its bytes per second against the ceiling of the level that
holds it. Bytes are those that counters measured where rows have them, else those of the operands;
the words say which.
"""

from __future__ import annotations

from collections.abc import Sequence

from timeroof.core.machine import Machine
from timeroof.core.units import format_percent, format_seconds
from timeroof.study.case import Case
from timeroof.study.factors import working_sets
from timeroof.study.factors.conclusion import Conclusion, Effect, Facts, compared, settle
from timeroof.study.grid import DesignOptions
from timeroof.study.judged_cases import Row, group_titles, groups, ops

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
        *working_sets.design(options),
    ]


def conclude(rows: Sequence[Row], machine: Machine | None) -> Conclusion | None:
    """What place and order of data cost; None where nothing was compared."""
    levels = working_sets.working_set_levels(rows, machine)
    pairs = [*_pairs(rows, "layout", *LAYOUTS), *_pairs(rows, "cache", *CACHES)]
    effects = settle([*pairs, *working_sets.level_drops(levels)])
    if not effects:
        return None
    # Layouts may cost or gain; a cold cache and a lower level can only cost.
    real = [e for e in effects if e.real and (e.kind == "layout" or e.ratio.value > 1)]
    facts = {"bytes": _basis(rows), **working_sets.curve_facts(rows, machine, levels)}
    told = _title(real), _points(effects, real, levels)
    return Conclusion("locality", bool(real), *told, effects, (), facts, _action(real))


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
    return {
        "reorders": [r.reorders for r in both],
        "reorder_s": [r.reorder_s for r in both],
        "reorder_share": [None if r.reorder_s is None else r.reorder_s / r.time_s for r in both],
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


def _title(real: Sequence[Effect]) -> str:
    if not real:
        return "Locality: neither layout nor caches were seen to cost time"
    strongest = max(real, key=lambda e: abs(e.ratio.value - 1))
    base, other, times = strongest.base, strongest.other, f"{strongest.ratio.value:.2g} times"
    if strongest.kind == "layout":
        return f"Locality: {other} takes {times} as long as {base}"
    if strongest.kind == "cache":
        return f"Locality: with cold caches it takes {times} as long"
    return f"Locality: a byte from {other} takes {times} as long as from {base}"


def _points(
    effects: Sequence[Effect], real: Sequence[Effect], levels: Sequence[working_sets.Level]
) -> list[str]:
    parts = [_layout_text(e) for e in real if e.kind == "layout"]
    parts += [_cache_text(e) for e in real if e.kind == "cache"]
    for kind, words in (("layout", "layouts"), ("cache", "warm and cold caches")):
        pairs = [e for e in effects if e.kind == kind]
        if pairs and not any(e.disturbed or e in real for e in pairs):
            parts.append(f"Between {words} no difference was found beyond the spread.")
    if levels:
        drops = [e for e in effects if e.kind == "level"]
        parts.append(working_sets.levels_text(levels, drops))
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
