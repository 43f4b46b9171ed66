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
from timeroof.core.units import format_bytes_binary, format_percent, format_seconds
from timeroof.study.case import Case
from timeroof.study.factors import working_sets
from timeroof.study.factors.conclusion import (
    INCONCLUSIVE,
    Bar,
    Conclusion,
    Effect,
    Facts,
    compared,
    leading,
    settle,
    times,
    undecided,
)
from timeroof.study.factors.working_sets import OP
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
        facts={"bytes": _basis(rows), **working_sets.curve_facts(rows, machine, levels)},
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
    effects: Sequence[Effect], real: Sequence[Effect], levels: Sequence[working_sets.Level]
) -> list[str]:
    parts = [_layout_text(e) for e in real if e.kind == "layout"]
    parts += [_cache_text(e) for e in real if e.kind == "cache"]
    for kind, words in (("layout", "layouts"), ("cache", "warm and cold caches")):
        pairs = [e for e in effects if e.kind == kind]
        if pairs and not any(e.disturbed or e in real for e in pairs):
            parts.append(f"Between {words} there is no difference beyond the spread.")
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
