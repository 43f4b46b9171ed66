"""Measurements with a known cause: rows of a study whose true times we choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from timeroof.api.reports import Report, analyze
from timeroof.core.machine import Ceiling, Machine, MemoryLevel
from timeroof.core.profile import Profile, Source
from timeroof.study.judged_cases import Row, typed_rows

PEAK, BF16_VECTOR, BF16_UNIT, DRAM, LAUNCH_S = 100e9, 200e9, 1600e9, 20e9, 0.5e-6


def study_machine(**changes: object) -> Machine:
    """100 GFLOP/s, a matrix unit for bf16, 20 GB/s from DRAM and three caches."""
    rates = {
        "flop/fp32": PEAK,
        "flop/bf16": BF16_VECTOR,
        "flop/bf16-tensor": BF16_UNIT,
        "byte/l1": 400e9,
        "byte/l2": 200e9,
        "byte/l3": 80e9,
        "byte/dram": DRAM,
        "launch": 1 / LAUNCH_S,
    }
    values: dict[str, Any] = {
        "name": "sample",
        "device": "Sample CPU",
        "kind": "cpu",
        "launching": "synchronous",
        "ceilings": [
            Ceiling(resource=r, rate=rate, origin="measured", threads=2)
            for r, rate in rates.items()
        ],
        "memory": [
            MemoryLevel(level="l1", size_bytes=2**16),
            MemoryLevel(level="l2", size_bytes=2**21),
            MemoryLevel(level="l3", size_bytes=2**25),
            MemoryLevel(level="dram", size_bytes=2**33),
        ],
    }
    return Machine(**(values | changes))


@dataclass(frozen=True)
class Truth:
    """A case and the time that it truly takes."""

    op: str
    params: dict[str, object]
    time_s: float
    flops: float = 1e9
    size_bytes: float = 1e7
    launches: float | None = 1.0
    how: dict[str, str] = field(default_factory=dict)
    found: dict[str, str] = field(default_factory=dict)
    resource: str = "flop/fp32"
    origins: dict[str, str] = field(default_factory=dict)
    contraction_flops: float | None = None


def study_report(
    truths: Sequence[Truth],
    *,
    seed: int = 0,
    noise: float = 0.02,
    samples: int = 12,
    machine: Machine | None = None,
) -> Report:
    """Judged rows: samples scatter around the true times, sometimes with an outlier."""
    draw = np.random.default_rng(seed)
    rows = [_row(truth, draw, noise, samples) for truth in truths]
    columns = {key for row in rows for key in row}
    flop_columns = {c for c in columns if c.startswith("flop/")}
    filled = [dict.fromkeys(columns) | dict.fromkeys(flop_columns, 0.0) | row for row in rows]
    table = pl.DataFrame(filled, infer_schema_length=None)
    profile = Profile.of(table, Source(tool="timeroof study"), device="Sample CPU")
    return analyze(profile, machine or study_machine(), findings=())


def study_rows(truths: Sequence[Truth], **options: Any) -> list[Row]:
    return declared(study_report(truths, **options).rows, truths)


def declared(rows: pl.DataFrame, truths: Sequence[Truth]) -> list[Row]:
    """Typed rows, with their parameters as a study declares those of its cases."""
    names: dict[str, set[str]] = {}
    for truth in truths:
        names.setdefault(truth.op, set()).update(truth.params)
    return typed_rows(rows, names)


def _row(truth: Truth, draw: np.random.Generator, noise: float, count: int) -> dict[str, Any]:
    scatter = np.exp(noise * draw.standard_normal(count))
    late = draw.random(count) < 0.04
    times = truth.time_s * np.where(late, scatter * 1.5, scatter)
    low, middle, high = np.quantile(times, (0.25, 0.5, 0.75))
    how = {
        "framework": "torch",
        "device": "cpu",
        "precision": "fp32",
        "pass": "forward",
        "cache": "warm",
        "threads": "2",
        "variant": "eager",
    } | truth.how
    case = " ".join(f"{k} {v}" for k, v in truth.params.items())
    return {
        "kind": "unit",
        "name": f"{truth.op} {case} {' '.join(how.values())}",
        "short_name": f"{truth.op} {case}",
        "op": truth.op,
        "phase": "forward" if how["pass"] == "forward" else "backward",
        "calls": 1.0,
        "launches": truth.launches,
        "time_s": float(middle),
        "time_spread": float((high - low) / middle),
        "samples": [float(t) for t in times],
        "contraction_flops": truth.contraction_flops,
        truth.resource: truth.flops,
        "byte/dram": truth.size_bytes,
        "origin.time": "measured",
        "origin.flops": truth.origins.get("flops", "counted"),
        "origin.bytes/dram": truth.origins.get("bytes", "counted"),
        **{f"label.{k}": v for k, v in how.items()},
        **{f"label.{k}": str(v) for k, v in truth.params.items()},
        **{f"label.{k}": v for k, v in truth.found.items()},
    }


def batch_sweep(op: str = "conv2d", **how: str) -> list[Truth]:
    """Work and time grow together: intensity stays, compute limits at half of the peak."""
    return [
        Truth(
            op,
            {"batch": n, "filters": 64},
            time_s=n * 1e-4,
            flops=n * 5e6,
            size_bytes=n * 1e5,
            how=how,
        )
        for n in (16, 32, 64)
    ]


def intensity_truths() -> list[Truth]:
    """Kernel size raises intensity from 1 to 9 FLOP/B under a balance of 5: memory lets go."""
    sweep = []
    for n in (1, 2, 3):
        flops, size = 1e8 * n * n, 1e8
        bound = max(flops / PEAK, size / DRAM)
        sweep.append(
            Truth("conv2d", {"batch": 16, "filters": 64, "kernel": n}, 1.3 * bound, flops, size)
        )
    widths = [
        Truth(
            "conv2d",
            {"batch": 16, "filters": f, "kernel": 1},
            1.3 * f / 64 * 1e8 / DRAM,
            f / 64 * 1e8,
            f / 64 * 1e8,
        )
        for f in (128, 256)
    ]
    return sweep + widths


def launch_truths(cost_s: float = 4e-6, work_s: float = 30e-6) -> list[Truth]:
    """One LSTM in three forms over three lengths: a fixed cost per launch, and little work."""
    truths = []
    for steps in (16, 32, 64):
        for variant, per_step, fixed in (("cell-loop", 8, 2), ("eager", 0, 3), ("compile", 1, 4)):
            launches = per_step * steps + fixed
            truths.append(
                Truth(
                    "lstm",
                    {"batch": 16, "time_steps": steps, "hidden": 16},
                    time_s=work_s * steps / 16 + cost_s * launches,
                    flops=1e5 * steps,
                    size_bytes=2e4 * steps,
                    launches=launches,
                    how={"variant": variant},
                )
            )
    return truths


def layout_truths(reorder_s: float = 4e-3) -> list[Truth]:
    """A contiguous convolution pays for two reorders that channels_last has not."""
    return [
        Truth(
            "conv2d",
            {"batch": b, "filters": 64, "layout": layout},
            time_s=6e-3 * b / 16 + (reorder_s * b / 16 if layout == "contiguous" else 0.0),
            flops=3e8 * b / 16,
            found={
                "reorders": "2" if layout == "contiguous" else "0",
                "reorder_s": str(reorder_s * b / 16 if layout == "contiguous" else 0.0),
            },
        )
        for b in (16, 32)
        for layout in ("contiguous", "channels_last")
    ]


def cache_truths(times: float = 2.0) -> list[Truth]:
    return [
        Truth(
            "layernorm",
            {"rows": 4096},
            1e-3 * (times if cache == "cold" else 1),
            how={"cache": cache},
        )
        for cache in ("warm", "cold")
    ]


def working_set_truths(rates: dict[str, float] | None = None) -> list[Truth]:
    """An element-wise kernel at 70 % of every level's ceiling."""
    rates = rates or {"l1": 280e9, "l2": 140e9, "l3": 56e9, "dram": 14e9}
    sizes = {
        "l1": (2**14, 2**15),
        "l2": (2**18, 2**20),
        "l3": (2**23, 2**24),
        "dram": (2**27, 2**28),
    }
    return [
        Truth(
            "elementwise",
            {"elements": size // 12},
            time_s=size / rates[level] + LAUNCH_S,
            flops=size / 12,
            size_bytes=float(size),
            found={"working_set_bytes": str(size)},
        )
        for level, held in sizes.items()
        for size in held
    ]


def algorithm_truths(times: float = 0.6) -> list[Truth]:
    """max-autotune finds a faster algorithm; switching oneDNN off changes nothing."""
    return [
        Truth(
            "conv2d",
            {"batch": 16, "stride": stride},
            time_s=1e-2 / stride * (times if variant == "max-autotune" else 1.0),
            flops=5e8 / stride,
            how={"variant": variant},
            found={"implementation": "winograd" if variant == "max-autotune" else "direct"},
        )
        for stride in (1, 2)
        for variant in ("eager", "no-onednn", "max-autotune")
    ]


def precision_truths(fit_rate: float = 900e9, odd_rate: float = 120e9) -> list[Truth]:
    """bf16 uses the matrix unit where the inner side fits it, and misses it where it is odd."""
    truths = []
    for k in (512, 509):
        flops = 2.0 * 512 * 512 * k
        truths.append(Truth("gemm", {"m": 512, "n": 512, "k": k}, flops / 80e9, flops, 3e6))
        truths.append(
            Truth(
                "gemm",
                {"m": 512, "n": 512, "k": k},
                flops / (fit_rate if k == 512 else odd_rate),
                flops,
                1.5e6,
                how={"precision": "bf16"},
                resource="flop/bf16-tensor",
            )
        )
    return truths
