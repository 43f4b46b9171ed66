"""Auto-tuning: the same job by another algorithm.

The same case runs eagerly, with oneDNN switched off, compiled, compiled with max-autotune, and on
NVIDIA GPUs with cudnn.benchmark. Times are compared with the eager one; the implementations that
ran are named where the libraries say them, and where a counter gives the FLOPs that were executed,
they are set against those of the algorithm's definition.
"""

from __future__ import annotations

from collections.abc import Sequence

from timeroof.core.machine import Machine
from timeroof.core.units import format_seconds
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
    settle,
    times,
    undecided,
)
from timeroof.study.factors.launch import FEWEST_MORE
from timeroof.study.grid import DesignOptions
from timeroof.study.judged_cases import Row, group_titles, groups, ops

BASE = "eager"
VARIANTS = ("eager", "im2col", "no-onednn", "compile", "max-autotune", "cudnn-benchmark")
# Executed FLOPs that differ by more from those of the definition are another algorithm's.
OTHER_WORK = 1.1


def design(options: DesignOptions) -> list[Case]:
    """A convolution at two strides and a product, by every algorithm there is."""
    skipped = ["cudnn-benchmark" if options.device == "cpu" else "no-onednn"]
    skipped += ["compile", "max-autotune"] if options.quick else []
    variants = [v for v in VARIANTS if v not in skipped]
    strides = {} if options.quick else {"stride": [1, 2]}
    return [
        *options.cases("conv2d", strides, variants=variants),
        *options.cases("gemm", variants=[v for v in variants if v != "im2col"]),
    ]


# What a way of running is called in a sentence.
WORDS = {
    "im2col": "the textbook algorithm (im2col)",
    "no-onednn": "PyTorch's own code (oneDNN off)",
    "compile": "torch.compile",
    "max-autotune": "torch.compile with max-autotune",
    "cudnn-benchmark": "cuDNN's own search",
}


def conclude(rows: Sequence[Row], machine: Machine | None) -> Conclusion | None:
    """What other algorithms gain or lose; None where no case ran in two ways."""
    effects = settle(_effects(rows))
    lead = leading(sorted(effects, key=_preference))
    if lead is None:
        return None
    real = sorted((e for e in effects if e.real), key=lambda e: e.ratio.value)
    gains = [e for e in real if e.ratio.value < 1]
    action = f"Run it as {gains[0].other}: {gains[0].group}." if gains else None
    return Conclusion(
        "autotune",
        bool(real),
        _sentence(lead),
        _points(effects, real),
        effects,
        action=action,
        lead=lead,
        bars=_bars(lead),
        open_because=undecided(lead),
    )


def _preference(effect: Effect) -> tuple[bool, int]:
    """The paper's operator first, then in the order of the ways."""
    return not effect.group.startswith("conv2d"), VARIANTS.index(effect.other)


def _sentence(lead: Effect) -> str:
    op, way, ratio = lead.group.split()[0], WORDS.get(lead.other, lead.other), lead.ratio.value
    if lead.verdict == "unclear":
        return INCONCLUSIVE
    if lead.verdict == "same":
        return f"{way[:1].upper()}{way[1:]} takes as long for {op} as the default ({times(ratio)})."
    if ratio > 1:
        return f"The library's {op} is {times(ratio)} faster than {way}."
    return f"{way[:1].upper()}{way[1:]} makes {op} {times(1 / ratio)} faster than the default."


def _bars(lead: Effect) -> list[Bar]:
    seconds = lead.facts["time_s"]
    return [
        Bar(name, value, format_seconds(value))
        for name, value in zip(("default", lead.other), seconds, strict=True)
    ]


def _effects(rows: Sequence[Row]) -> list[Effect | None]:
    every = [g for op in ops(rows) for g in groups(rows, op, "variant")]
    members = [g for g in every if any(row.variant == BASE for row in g)]
    found = []
    for title, group in zip(group_titles(members, "variant"), members, strict=True):
        ways = {row.variant: row for row in group}
        base = ways[BASE]
        found += [
            compared(title, (BASE, base), (v, ways[v]), _facts(base, ways[v]))
            for v in VARIANTS[1:]
            if v in ways and _algorithm_alone(base, ways[v])
        ]
    return found


def _algorithm_alone(base: Row, row: Row) -> bool:
    """Whether a difference may be the algorithm's: several times the launches are another cause."""
    counts = [r.launches for r in (base, row) if r.launches]
    return len(counts) < 2 or max(counts) / min(counts) < FEWEST_MORE or max(counts) < 10


def _facts(*rows: Row) -> Facts:
    return {
        "implementation": [r.algorithm or r.implementation for r in rows],
        "executed_over_algorithmic_flops": [executed_share(r) for r in rows],
        "launches": [r.launches for r in rows],
        "time_s": [r.time_s for r in rows],
    }


def executed_share(row: Row) -> float | None:
    """Executed FLOPs over those of the definition; None where no counter saw them."""
    defined, executed = row.contraction_flops, row.flops
    seen = row.measured("flops") and executed is not None
    return digits((executed or 0.0) / defined) if seen and defined else None


def _points(effects: Sequence[Effect], real: Sequence[Effect]) -> list[str]:
    many = "s" * (len(effects) > 1)
    nothing = (
        f"In {len(effects)} comparison{many} of the same work no algorithm differs beyond the"
        " spread of the samples."
    )
    told = "{0.group}: {0.other} takes {1} the time of {0.base}{2}."
    found = [told.format(e, e.ratio.text(), _names(e)) for e in real]
    return [*(found or [nothing]), _executed(effects)]


def _names(effect: Effect) -> str:
    base, other = effect.facts["implementation"]
    if base == other:
        return f" (both run {base})" if base else ""
    return f" ({other or 'not named'} instead of {base or 'not named'})"


def _executed(effects: Sequence[Effect]) -> str:
    shares = {
        f"{e.group}, {name}": share
        for e in effects
        for name, share in zip(
            (e.base, e.other), e.facts["executed_over_algorithmic_flops"], strict=True
        )
        if share is not None
    }
    if not shares:
        return "No counter was read, so executed FLOPs are not visible."
    other = [
        f"{name} executes {share:.2g} of the FLOPs of the definition"
        for name, share in shares.items()
        if not 1 / OTHER_WORK < share < OTHER_WORK
    ]
    told = "; ".join(other) or "all of them execute the FLOPs of the definition"
    return f"By the counters {told}."
