"""The paper's rows as a second source of the factors, and what the authors' numbers say.

Published passes have one time each and no samples: nothing can be tested, so the sentences give
ratios, from the same sweeps, groups and movements that a study's conclusions rest on.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

import polars as pl

from timeroof.core.machine import Machine
from timeroof.core.profile import LABEL
from timeroof.core.report import Finding, Report
from timeroof.core.units import format_amount, format_percent, format_seconds
from timeroof.paper.build import build_paper
from timeroof.paper.data import PARAMETERS, base_case, direct_flops, sweep
from timeroof.study.factors.cases import (
    Row,
    Sweep,
    flops,
    groups,
    intensity_at,
    label,
    sweeps,
    with_parameters,
)
from timeroof.study.factors.intensity import movement

# Below this share of FLOPs on tensor cores, a pass is said to miss them.
TENSOR_SHARE = 0.5


def paper_report() -> Report:
    """The published passes, judged, with what they say."""
    report = build_paper()
    assert report.machine is not None
    return replace(report, findings=tuple(paper_findings(report.rows, report.machine)))


def published_cases(rows: pl.DataFrame) -> pl.DataFrame:
    """The paper's judged rows as cases of a study: parameters, pass and precision in its words."""
    return with_parameters(rows, PARAMETERS).with_columns(
        pl.col(f"{LABEL}precision").str.to_lowercase(),
        pl.col("phase").alias(f"{LABEL}pass"),
    )


def paper_findings(rows: pl.DataFrame, machine: Machine) -> list[Finding]:
    """The five factors of the paper, each with its evidence."""
    cases = published_cases(rows)
    factors: list[Callable[[pl.DataFrame, Machine], Finding]] = [
        arithmetic_intensity,
        cache_locality,
        auto_tuning,
        launch_overhead,
        tensor_cores,
    ]
    return [factor(cases, machine) for factor in factors]


def arithmetic_intensity(rows: pl.DataFrame, machine: Machine) -> Finding:
    """How intensity, work and time move along each convolution sweep."""
    moves = {
        parameter: {key: _ratios(s) for key, s in _by_series(rows, "conv2d", parameter).items()}
        for parameter in PARAMETERS["conv2d"]
    }
    evidence = {
        f"{parameter} {key}": {k: round(v, 4) for k, v in move.items()}
        for parameter, by_series in moves.items()
        for key, move in by_series.items()
    }
    batch, kernel = moves["batch"], moves["kernel"]
    base = evidence["batch PT FP32"]
    wide = evidence["kernel PT FP32"]
    why = (
        f"Batch 16 to 64 changes intensity by {_span(batch, 'ai_ratio')} while work grows by"
        f" {_span(batch, 'flops_ratio')} and time by {_span(batch, 'time_ratio')}"
        f" (PyTorch FP32: {base['ai_first']:.0f} to {base['ai_last']:.0f} FLOP/B): one spot on the"
        " classic chart, a line on the combined one. A 9x9 kernel instead of 3x3 raises it by"
        f" {_span(kernel, 'ai_ratio')} (PyTorch FP32: {wide['ai_first']:.0f} to"
        f" {wide['ai_last']:.0f} FLOP/B), 512 filters instead of 64 by"
        f" {_span(moves['filters'], 'ai_ratio')}."
    )
    return Finding(
        code="paper/intensity",
        title="Arithmetic intensity: batch scales work and time, not intensity",
        why=why,
        kernels=_ids(sweep(rows, "conv2d", "forward", "batch")),
        evidence=evidence,
    )


def cache_locality(rows: pl.DataFrame, machine: Machine) -> Finding:
    """DRAM traffic of one and the same convolution in three frameworks."""
    base = base_case(rows, "conv2d", "forward").filter(pl.col(f"{LABEL}precision") == "fp32")
    by_name = {str(label(row, "framework")): row for row in base.iter_rows(named=True)}
    own = by_name["PT"]
    others = [by_name["TF1"], by_name["TF2"]]
    traffic = sorted(o["byte/dram"] / own["byte/dram"] for o in others)
    time = sorted(o["time_s"] / own["time_s"] for o in others)
    levels = {
        name: {level: intensity_at(row, level) or 0.0 for level in ("l1", "l2", "dram")}
        for name, row in by_name.items()
    }
    why = (
        "For the same FP32 base convolution TensorFlow moves"
        f" {traffic[0]:.1f} to {traffic[1]:.1f} times the DRAM bytes of PyTorch"
        f" ({', '.join(format_amount(o['byte/dram'], 'B') for o in others)} against"
        f" {format_amount(own['byte/dram'], 'B')}), launches"
        f" {' and '.join(str(int(o['launches'])) for o in others)} kernels instead of"
        f" {int(own['launches'])}, and takes {time[0]:.1f} to {time[1]:.1f} times as long."
        f" Intensity per level, TF2: L1 {levels['TF2']['l1']:.1f}, L2 {levels['TF2']['l2']:.1f},"
        f" DRAM {levels['TF2']['dram']:.1f} FLOP/B; PyTorch: L1 {levels['PT']['l1']:.1f},"
        f" L2 {levels['PT']['l2']:.1f}, DRAM {levels['PT']['dram']:.1f}."
    )
    return Finding(
        code="paper/locality",
        title="Cache locality: the same convolution, several times the traffic",
        why=why,
        kernels=_ids(base),
        evidence={"intensity_per_level": levels, "traffic_ratio": traffic, "time_ratio": time},
    )


def auto_tuning(rows: pl.DataFrame, machine: Machine) -> Finding:
    """Algorithm choice: tensor cores taken or missed, and convolutions that do less work."""
    stride_1 = sweep(rows, "conv2d", "forward", "stride").filter(pl.col("value") == 1)
    every = stride_1.to_dicts()
    half = sorted((r for r in every if label(r, "precision") == "fp16"), key=lambda r: r["time_s"])
    fast, slow = half[0], half[-1]
    work = {_series(row): round((flops(row) or 0.0) / direct_flops(row), 3) for row in every}
    reduced = [share for name, share in work.items() if name.endswith("FP32")]
    why = (
        f"FP16 at stride 1: {label(slow, 'framework')} needs {format_seconds(slow['time_s'])} with"
        f" {format_percent(_tensor_share(slow))} of its FLOPs on tensor cores,"
        f" {label(fast, 'framework')} {format_seconds(fast['time_s'])} with"
        f" {format_percent(_tensor_share(fast))}: the"
        f" library chose another algorithm for the same job, a factor of"
        f" {slow['time_s'] / fast['time_s']:.1f}. FP32 at stride 1 executes only"
        f" {min(reduced):.2f} to {max(reduced):.2f} of the FLOPs of a direct convolution: a"
        " reduced-work algorithm such as Winograd's, so fewer FLOP/s would not mean slower."
    )
    return Finding(
        code="paper/autotune",
        title="Auto-tuning: same job, another algorithm, another time",
        why=why,
        kernels=_ids(stride_1),
        evidence={
            "executed_over_direct_flops": work,
            "time_ratio": slow["time_s"] / fast["time_s"],
        },
    )


def launch_overhead(rows: pl.DataFrame, machine: Machine) -> Finding:
    """Launching as a share of the time, and how launches grow with time steps."""
    shares = (
        rows.filter(pl.col("phase") == "forward")
        .with_columns((pl.col("overhead_time_s") / pl.col("time_s")).alias("share"))
        .group_by("op", f"{LABEL}framework", maintain_order=True)
        .agg(pl.col("share").min().alias("low"), pl.col("share").max().alias("high"))
    )
    spans = {f"{op} {framework}": (low, high) for op, framework, low, high in shares.iter_rows()}
    conv = [v for k, v in spans.items() if k.startswith("conv2d")]
    steps = {key: _slope(s) for key, s in _by_series(rows, "lstm", "time_steps").items()}
    flat = _flatness(rows)
    lstm = ", ".join(
        f"{k.removeprefix('lstm ')} {format_percent(low)} to {format_percent(high)}"
        for k, (low, high) in spans.items()
        if k.startswith("lstm")
    )
    inside = rows.filter(pl.col("inside_overhead_box"))
    launch = rows.filter((pl.col("op") == "lstm") & (pl.col("limiter") == "launch"))
    t0 = format_seconds(machine.launch_overhead_s)
    why = (
        f"At {t0} per launch, launching is {format_percent(min(c[0] for c in conv))} to"
        f" {format_percent(max(c[1] for c in conv))} of a forward convolution, but of a forward"
        f" LSTM: {lstm}. It is the largest bound in {launch.height} of"
        f" {rows.filter(pl.col('op') == 'lstm').height} LSTM passes, and {inside.height} of"
        f" {rows.height} passes lie inside their overhead box. Hidden size 16 to 128 changes"
        f" forward LSTM time by only {flat[0]:.2f} to {flat[1]:.2f} times; launches grow per time"
        " step by:"
        f" {', '.join(f'{k} {v:.1f}' for k, v in steps.items())}."
    )
    return Finding(
        code="paper/launch",
        title="Launch overhead: small recurrent steps are bound by being launched",
        why=why,
        kernels=_ids(inside),
        evidence={
            "overhead_share": {k: [round(v, 4) for v in span] for k, span in spans.items()},
            "launches_per_time_step": {k: round(v, 3) for k, v in steps.items()},
            "inside_overhead_box": inside.height,
            "hidden_16_to_128_time_ratio": [round(v, 4) for v in flat],
        },
    )


def tensor_cores(rows: pl.DataFrame, machine: Machine) -> Finding:
    """What FP16 gains where tensor cores work, and where they are missed."""
    forward = rows.filter(pl.col("phase") == "forward")
    pairs = [_precision_pair(members) for members in groups(forward, "conv2d", ("precision",))]
    used = [gain for gain, share in pairs if share >= TENSOR_SHARE]
    missed = [gain for gain, share in pairs if share < TENSOR_SHARE]
    best = max(forward.filter(pl.col("op") == "conv2d").to_dicts(), key=_rate)
    peak = machine.rate("flop/fp16-tensor")
    rate = _rate(best)
    share = rate / peak if peak else None
    why = (
        f"The best forward convolution ({best['name']}) runs at"
        f" {format_amount(rate, 'FLOP/s')}, {format_percent(share)} of the tensor-core"
        f" peak. FP16 makes forward convolutions {min(used):.1f} to"
        f" {max(used):.1f} times as fast as FP32 where tensor cores do most FLOPs"
        f" ({len(used)} cases), {min(missed):.1f} to {max(missed):.1f} times where"
        f" they are missed ({len(missed)} cases)."
    )
    return Finding(
        code="paper/tensor-cores",
        title="Tensor cores: FP16 pays only where they are used",
        why=why,
        kernels=[best["id"]],
        evidence={
            "best_flop_per_s": rate,
            "share_of_peak": share,
            "gain_where_used": [min(used), max(used)],
            "gain_where_missed": [min(missed), max(missed)],
        },
    )


def _precision_pair(members: Sequence[Row]) -> tuple[float, float]:
    """How many times as fast FP16 is, and the share of its FLOPs on tensor cores."""
    by_type = {label(row, "precision"): row for row in members}
    half, single = by_type["fp16"], by_type["fp32"]
    return single["time_s"] / half["time_s"], _tensor_share(half)


def _by_series(rows: pl.DataFrame, op: str, parameter: str) -> dict[str, Sweep]:
    """The forward sweeps of a parameter, by framework and precision."""
    forward = rows.filter(pl.col("phase") == "forward")
    found = {_series(s.rows[0]): s for s in sweeps(forward, op) if s.parameter == parameter}
    return dict(sorted(found.items()))


def _series(row: Row) -> str:
    return f"{label(row, 'framework')} {str(label(row, 'precision')).upper()}"


def _ratios(swept: Sweep) -> dict[str, float]:
    """How far a sweep moves intensity, work and time, first value to last."""
    moved = movement(swept)
    assert moved is not None
    return {
        "ai_first": moved.ai[0],
        "ai_last": moved.ai[1],
        "ai_ratio": moved.ai_ratio,
        "flops_ratio": moved.flops_ratio,
        "time_ratio": _time_ratio(swept),
    }


def _time_ratio(swept: Sweep) -> float:
    return float(swept.rows[-1]["time_s"] / swept.rows[0]["time_s"])


def _tensor_share(row: Row) -> float:
    return float(row["flop/fp16-tensor"] / (flops(row) or 1.0))


def _rate(row: Row) -> float:
    return float((flops(row) or 0.0) / row["time_s"])


def _slope(swept: Sweep) -> float:
    """Least-squares slope of launches over the swept value."""
    values = [float(v) for v in swept.values]
    return statistics.linear_regression(values, [row["launches"] for row in swept.rows]).slope


def _flatness(rows: pl.DataFrame) -> tuple[float, float]:
    """Smallest and largest ratio of LSTM time between hidden sizes 16 and 128."""
    ratios = [_time_ratio(s) for s in _by_series(rows, "lstm", "hidden").values()]
    return min(ratios), max(ratios)


def _span(moves: dict[str, dict[str, float]], key: str) -> str:
    values = [move[key] for move in moves.values()]
    texts = list(dict.fromkeys((f"{min(values):.2g}", f"{max(values):.2g}")))
    return f"{' to '.join(texts)} times"


def _ids(rows: pl.DataFrame) -> list[int]:
    return [int(i) for i in rows["id"]]
