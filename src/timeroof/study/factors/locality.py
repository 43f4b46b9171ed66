"""Locality: what layout, a cold cache and a larger working set cost.

Three comparisons of equal work: tensors laid out contiguously against channels_last (reorders
counted, with their seconds), caches warm against flushed, and one element-wise kernel over working
sets around each cache of the machine, its bytes per second against the ceiling of the level that
holds it. Bytes are those that counters measured where rows have them, else those of the operands;
the words say which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from timeroof.core.units import format_percent, format_seconds
from timeroof.model.stats import two_samples
from timeroof.study.factors.cases import (
    Row,
    busy,
    group_titles,
    groups,
    label,
    moved_bytes,
    number,
    ops,
    origin,
    samples,
)
from timeroof.study.factors.conclusion import Conclusion, Effect, settle, unclear_points
from timeroof.study.factors.working_sets import (
    Level,
    curve_facts,
    level_drops,
    levels_text,
    working_set_cases,
    working_set_levels,
)

if TYPE_CHECKING:
    from timeroof.core.machine import Machine
    from timeroof.study.case import Case, DesignOptions

LAYOUTS = ("contiguous", "channels_last")
CACHES = ("warm", "cold")


def design(options: DesignOptions) -> list[Case]:
    """Layouts of a convolution and a pooling, warm against cold, and sets around each cache."""
    from timeroof.study.grid import grid_cases

    common: dict[str, Any] = {
        "passes": ("forward",),
        "threads": (options.threads,),
        "framework": options.framework,
        "device": options.device,
    }
    layouts = [
        case
        for kernel in (("conv2d",) if options.quick else ("conv2d", "pool"))
        for case in grid_cases(kernel, sweeps={"layout": list(LAYOUTS)}, **common)
    ]
    caches = [
        case
        for kernel in (("conv2d",) if options.quick else ("conv2d", "layernorm", "gemm"))
        for case in grid_cases(kernel, sweeps={}, caches=CACHES, **common)
    ]
    return [*layouts, *caches, *working_set_cases(options)]


def conclude(rows: pl.DataFrame, machine: Machine | None) -> Conclusion | None:
    """What place and order of data cost; None where nothing was compared."""
    levels = working_set_levels(rows, machine)
    effects = settle(
        [
            *_pairs(rows, "layout", LAYOUTS),
            *_pairs(rows, "cache", CACHES),
            *level_drops(levels),
        ]
    )
    if not effects:
        return None
    real = [e for e in effects if e.real and _is_cost(e)]
    return Conclusion(
        factor="locality",
        found=bool(real),
        title=_title(real),
        points=(*_points(effects, real, levels), *unclear_points(effects)),
        effects=effects,
        kernels=tuple(i for e in effects for i in e.kernels),
        facts={"bytes": _basis(rows), **curve_facts(rows, machine, levels)},
        action=_action(real),
    )


def _is_cost(effect: Effect) -> bool:
    """Layouts may cost or gain; a cold cache and a lower level can only cost."""
    return effect.facts["kind"] == "layout" or effect.ratio.value > 1


def _pairs(rows: pl.DataFrame, free: str, sides: tuple[str, str]) -> list[Effect]:
    """Second side over first, all else equal."""
    every = [g for op in ops(rows) for g in groups(rows, op, (free,))]
    pairs = [
        [by_side[sides[0]], by_side[sides[1]]]
        for group in every
        if set(sides) <= set(by_side := {str(label(row, free)): row for row in group})
    ]
    found = []
    for title, (base, other) in zip(group_titles(pairs, free), pairs, strict=True):
        ratio = two_samples(samples(base), samples(other))
        if ratio is not None:
            facts = {"kind": free, **_evidence(base, other)}
            ids = (base["id"], other["id"])
            found.append(Effect(title, *sides, ratio, ids, facts, busy(base, other)))
    return found


def _evidence(base: Row, other: Row) -> dict[str, Any]:
    """What is known of the cause: reorders with their seconds, and the bytes."""
    reorders = [number(label(r, "reorders")) for r in (base, other)]
    seconds = [number(label(r, "reorder_s")) for r in (base, other)]
    traffic = [moved_bytes(r) for r in (base, other)]
    measured = all(origin(r, "bytes/dram") == "measured" for r in (base, other))
    return {
        "reorders": reorders,
        "reorder_s": seconds,
        "reorder_share": [
            None if s is None else s / r["time_s"]
            for s, r in zip(seconds, (base, other), strict=True)
        ],
        "difference_s": other["time_s"] - base["time_s"],
        "bytes": traffic,
        "bytes_measured": measured,
        "working_set_bytes": number(label(base, "working_set_bytes")),
    }


def _basis(rows: pl.DataFrame) -> str:
    """Where the bytes come from, for all rows of the study."""
    column = "origin.bytes/dram"
    origins = set(rows[column].drop_nulls().to_list()) if column in rows.columns else set()
    if origins == {"measured"}:
        return "measured"
    return "measured and counted" if "measured" in origins else "counted"


def _title(real: Sequence[Effect]) -> str:
    if not real:
        return "Locality: neither layout nor caches were seen to cost time"
    strongest = max(real, key=lambda e: abs(e.ratio.value - 1))
    kind = strongest.facts["kind"]
    times = f"{strongest.ratio.value:.2g} times"
    if kind == "layout":
        return f"Locality: {strongest.other} takes {times} as long as {strongest.base}"
    if kind == "cache":
        return f"Locality: with cold caches it takes {times} as long"
    return f"Locality: a byte from {strongest.other} takes {times} as long as from {strongest.base}"


def _points(
    effects: Sequence[Effect], real: Sequence[Effect], levels: Sequence[Level]
) -> list[str]:
    parts = [_layout_text(e) for e in real if e.facts["kind"] == "layout"]
    parts += [_cache_text(e) for e in real if e.facts["kind"] == "cache"]
    for kind, words in (("layout", "layouts"), ("cache", "warm and cold caches")):
        compared = [e for e in effects if e.facts["kind"] == kind]
        told = any(e.disturbed or (e.real and _is_cost(e)) for e in compared)
        if compared and not told:
            parts.append(f"Between {words} no difference was found beyond the spread.")
    if levels:
        parts.append(levels_text(levels, [e for e in effects if e.facts["kind"] == "level"]))
    measured = [e for e in effects if e.facts.get("bytes_measured")]
    parts.append(
        "Bytes are those that counters measured."
        if measured and len(measured) == len(effects)
        else "Bytes of some rows were measured by counters, the others counted from the operands."
        if measured
        else "Bytes are counted from the operands, not measured."
    )
    return parts


def _layout_text(effect: Effect) -> str:
    facts = effect.facts
    told = f"{effect.group}: {effect.other} takes {effect.ratio.text()} the time of {effect.base}"
    counts, shares = facts["reorders"], facts["reorder_share"]
    if None not in counts:
        told += f"; reorders {counts[0]:.0f} against {counts[1]:.0f}"
    if None not in shares and any(shares):
        told += f", {format_percent(shares[0])} against {format_percent(shares[1])} of the time"
        told += _explained(facts)
    if facts["bytes_measured"] and all(facts["bytes"]):
        told += f"; measured bytes {facts['bytes'][1] / facts['bytes'][0]:.2g} times"
    return told + "."


def _explained(facts: dict[str, Any]) -> str:
    """How much of the difference the reorders are."""
    saved = facts["reorder_s"][1] - facts["reorder_s"][0]
    if not facts["difference_s"] or saved / facts["difference_s"] <= 0:
        return " (they do not explain the difference)"
    return f" ({format_percent(min(1.0, saved / facts['difference_s']))} of the difference)"


def _cache_text(effect: Effect) -> str:
    facts = effect.facts
    told = f"{effect.group}: cold takes {effect.ratio.text()} the time of warm"
    if facts["bytes_measured"] and all(facts["bytes"]):
        return f"{told}; measured bytes {facts['bytes'][1] / facts['bytes'][0]:.2g} times."
    return f"{told}, {format_seconds(facts['difference_s'], 2)} more."


def _action(real: Sequence[Effect]) -> str | None:
    gains = [e for e in real if e.facts["kind"] == "layout"]
    if not gains:
        return None
    best = max(gains, key=lambda e: abs(e.ratio.value - 1))
    better = best.other if best.ratio.value < 1 else best.base
    return f"Keep tensors {better.replace('_', ' ')} from the start: {best.group}."
