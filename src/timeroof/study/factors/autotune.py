"""Auto-tuning: the same job by another algorithm.

The same case runs eagerly, with oneDNN switched off, compiled, compiled with max-autotune, and on
NVIDIA GPUs with cudnn.benchmark. Times are compared with the eager one; the implementations that
ran are named where the libraries say them, and where a counter gives the FLOPs that were executed,
they are set against those of the algorithm's definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from timeroof.model.stats import two_samples
from timeroof.study.factors.cases import (
    Row,
    busy,
    flops,
    group_titles,
    groups,
    label,
    launches,
    ops,
    origin,
    samples,
)
from timeroof.study.factors.conclusion import Conclusion, Effect, settle, unclear_points
from timeroof.study.factors.launch import FEWEST_MORE

if TYPE_CHECKING:
    from timeroof.core.machine import Machine
    from timeroof.study.case import Case, DesignOptions

BASE = "eager"
VARIANTS = ("eager", "no-onednn", "compile", "max-autotune", "cudnn-benchmark")
# Executed FLOPs that differ by more from those of the definition are another algorithm's.
OTHER_WORK = 1.1


def design(options: DesignOptions) -> list[Case]:
    """A convolution at two strides, a product and attention, by every algorithm there is."""
    from timeroof.study.grid import grid_cases

    on_cpu = options.device == "cpu"
    variants = [v for v in VARIANTS if v != ("cudnn-benchmark" if on_cpu else "no-onednn")]
    if options.quick:
        variants = [v for v in variants if v not in ("compile", "max-autotune")]
    kernels: dict[str, dict[str, list[int | str]]] = {"conv2d": {"stride": [1, 2]}, "gemm": {}}
    return [
        case
        for kernel, swept in kernels.items()
        for case in grid_cases(
            kernel,
            sweeps=swept,
            passes=("forward",),
            threads=(options.threads,),
            variants=variants,
            framework=options.framework,
            device=options.device,
        )
    ]


def conclude(rows: pl.DataFrame, machine: Machine | None) -> Conclusion | None:
    """What other algorithms gain or lose; None where no case ran in two ways."""
    effects = settle(_effects(rows))
    if not effects:
        return None
    real = [e for e in effects if e.real]
    return Conclusion(
        factor="autotune",
        found=bool(real),
        title=_title(effects, real),
        points=(*_points(effects, real), *unclear_points(effects)),
        effects=effects,
        kernels=tuple(i for e in effects for i in e.kernels),
        action=_action(real),
    )


def _effects(rows: pl.DataFrame) -> list[Effect]:
    members = [g for op in ops(rows) for g in groups(rows, op, ("variant",)) if _has_base(g)]
    found = []
    for title, group in zip(group_titles(members, "variant"), members, strict=True):
        by_variant = {label(row, "variant"): row for row in group}
        base = by_variant[BASE]
        others = [(v, by_variant[v]) for v in VARIANTS if v in by_variant and v != BASE]
        for variant, row in others:
            ratio = (
                two_samples(samples(base), samples(row)) if _algorithm_alone(base, row) else None
            )
            if ratio is not None:
                ids = (base["id"], row["id"])
                found.append(
                    Effect(title, BASE, variant, ratio, ids, _facts(base, row), busy(base, row))
                )
    return found


def _has_base(group: list[Row]) -> bool:
    named = {label(row, "variant") for row in group}
    return BASE in named and len(named & set(VARIANTS)) > 1


def _algorithm_alone(base: Row, row: Row) -> bool:
    """Whether a difference may be the algorithm's: several times the launches are another cause."""
    counts = [c for r in (base, row) if (c := launches(r))]
    if len(counts) < 2:
        return True
    return max(counts) / min(counts) < FEWEST_MORE or max(counts) < 10


def _facts(base: Row, row: Row) -> dict[str, Any]:
    return {
        "implementation": [_implementation(r) for r in (base, row)],
        "executed_over_algorithmic_flops": [executed_share(r) for r in (base, row)],
        "launches": [launches(r) for r in (base, row)],
    }


def _implementation(row: Row) -> str | None:
    return label(row, "algorithm") or label(row, "implementation")


def executed_share(row: Row) -> float | None:
    """Executed FLOPs over those of the definition; None where no counter saw them."""
    defined = row.get("contraction_flops")
    executed = flops(row)
    if origin(row, "flops") != "measured" or not defined or executed is None:
        return None
    return float(f"{executed / defined:.4g}")


def _title(effects: Sequence[Effect], real: Sequence[Effect]) -> str:
    if not real:
        return "Auto-tuning: no algorithm was seen to differ from the default"
    fastest = min(real, key=lambda e: e.ratio.value)
    if fastest.ratio.value < 1:
        return f"Auto-tuning: {fastest.other} needs {fastest.ratio.value:.2g} of the default's time"
    slowest = max(real, key=lambda e: e.ratio.value)
    return (
        "Auto-tuning: the default is the fastest;"
        f" {slowest.other} takes {slowest.ratio.value:.2g} times as long"
    )


def _points(effects: Sequence[Effect], real: Sequence[Effect]) -> list[str]:
    told = [
        f"{e.group}: {e.other} takes {e.ratio.text()} the time of {e.base}{_names(e)}."
        for e in sorted(real, key=lambda e: e.ratio.value)
    ]
    if not real:
        many = "s" * (len(effects) > 1)
        told.append(
            f"{len(effects)} comparison{many} of the same work by another algorithm: none differs"
            " beyond the spread of the samples."
        )
    return [*told, _executed(effects)]


def _names(effect: Effect) -> str:
    base, other = effect.facts["implementation"]
    if not base and not other:
        return ""
    if base == other:
        return f" (both run {base})"
    return f" ({other or 'not named'} instead of {base or 'not named'})"


def _executed(effects: Sequence[Effect]) -> str:
    seen = [
        (f"{e.group}, {name}", share)
        for e in effects
        for name, share in zip(
            (e.base, e.other), e.facts["executed_over_algorithmic_flops"], strict=True
        )
        if share is not None
    ]
    if not seen:
        return "Executed FLOPs are not visible: no counter was read."
    other = [(n, s) for n, s in dict(seen).items() if not 1 / OTHER_WORK < s < OTHER_WORK]
    if not other:
        return "By the counters all of them execute the FLOPs of the definition."
    told = "; ".join(
        f"{name} executes {share:.2g} of the FLOPs of the definition" for name, share in other
    )
    return f"By the counters {told}."


def _action(real: Sequence[Effect]) -> str | None:
    gains = [e for e in real if e.ratio.value < 1]
    if not gains:
        return None
    best = min(gains, key=lambda e: e.ratio.value)
    return f"Run it as {best.other}: {best.group}."
