"""What the paper's numbers say, factor by factor: every figure in a sentence is computed here."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import polars as pl

from timeroof.core.machine import Machine
from timeroof.core.profile import LABEL
from timeroof.core.report import Finding
from timeroof.core.units import format_amount, format_percent, format_seconds
from timeroof.paper.data import base_case, direct_flops, sweep, total_flops

FRAMEWORK = f"{LABEL}framework"
PRECISION = f"{LABEL}precision"

# Below this share of FLOPs on tensor cores, a pass is said to miss them.
TENSOR_SHARE = 0.5


def paper_findings(rows: pl.DataFrame, machine: Machine) -> list[Finding]:
    """The five factors of the paper, each with its evidence."""
    factors: list[Callable[[pl.DataFrame, Machine], Finding]] = [
        arithmetic_intensity,
        cache_locality,
        auto_tuning,
        launch_overhead,
        tensor_cores,
    ]
    return [factor(rows, machine) for factor in factors]


def arithmetic_intensity(rows: pl.DataFrame, machine: Machine) -> Finding:
    """How intensity, work and time move along each convolution sweep."""
    evidence: dict[str, Any] = {}
    moves: dict[str, list[dict[str, float]]] = {}
    for parameter in ("batch", "filters", "kernel", "stride"):
        for key, part in _by_series(sweep(rows, "conv2d", "forward", parameter)):
            first, last = part.row(0, named=True), part.row(-1, named=True)
            move = {
                "ai_first": first["ai"],
                "ai_last": last["ai"],
                "ai_ratio": last["ai"] / first["ai"],
                "flops_ratio": _flops(last) / _flops(first),
                "time_ratio": last["time_s"] / first["time_s"],
            }
            moves.setdefault(parameter, []).append(move)
            evidence[f"{parameter} {key}"] = {k: round(v, 4) for k, v in move.items()}
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
    base = base_case(rows, "conv2d", "forward").filter(pl.col(PRECISION) == "FP32")
    by_name = {row[FRAMEWORK]: row for row in base.iter_rows(named=True)}
    own = by_name["PT"]
    others = [by_name["TF1"], by_name["TF2"]]
    traffic = sorted(o["byte/dram"] / own["byte/dram"] for o in others)
    time = sorted(o["time_s"] / own["time_s"] for o in others)
    levels = {
        name: {level: _flops(row) / row[f"byte/{level}"] for level in ("l1", "l2", "dram")}
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
    half = stride_1.filter(pl.col(PRECISION) == "FP16").with_columns(
        (pl.col("flop/fp16-tensor") / total_flops(rows)).alias("tensor_share")
    )
    slow, fast = (half.sort("time_s").row(i, named=True) for i in (-1, 0))
    work = {
        f"{row[FRAMEWORK]} {row[PRECISION]}": round(_flops(row) / direct_flops(row), 3)
        for row in stride_1.iter_rows(named=True)
    }
    reduced = [share for name, share in work.items() if name.endswith("FP32")]
    why = (
        f"FP16 at stride 1: {slow[FRAMEWORK]} needs {format_seconds(slow['time_s'])} with"
        f" {format_percent(slow['tensor_share'])} of its FLOPs on tensor cores, {fast[FRAMEWORK]}"
        f" {format_seconds(fast['time_s'])} with {format_percent(fast['tensor_share'])}: the"
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
        .group_by("op", FRAMEWORK, maintain_order=True)
        .agg(pl.col("share").min().alias("low"), pl.col("share").max().alias("high"))
    )
    spans = {f"{op} {framework}": (low, high) for op, framework, low, high in shares.iter_rows()}
    conv = [v for k, v in spans.items() if k.startswith("conv2d")]
    steps = {
        key: _slope(part) for key, part in _by_series(sweep(rows, "lstm", "forward", "time_steps"))
    }
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
    pairs = _precision_pairs(rows)
    used: list[float] = pairs.filter(pl.col("tensor_share") >= TENSOR_SHARE)["gain"].to_list()
    missed: list[float] = pairs.filter(pl.col("tensor_share") < TENSOR_SHARE)["gain"].to_list()
    conv = rows.filter((pl.col("op") == "conv2d") & (pl.col("phase") == "forward"))
    best = (
        conv.with_columns((total_flops(rows) / pl.col("time_s")).alias("rate"))
        .sort("rate")
        .row(-1, named=True)
    )
    peak = machine.rate("flop/fp16-tensor")
    share = best["rate"] / peak if peak else None
    why = (
        f"The best forward convolution ({best['name']}) runs at"
        f" {format_amount(best['rate'], 'FLOP/s')}, {format_percent(share)} of the tensor-core"
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
            "best_flop_per_s": best["rate"],
            "share_of_peak": share,
            "gain_where_used": [min(used), max(used)],
            "gain_where_missed": [min(missed), max(missed)],
        },
    )


def _precision_pairs(rows: pl.DataFrame) -> pl.DataFrame:
    """Forward convolutions of both precisions side by side: the gain and the tensor share."""
    conv = rows.filter((pl.col("op") == "conv2d") & (pl.col("phase") == "forward"))
    keys = [FRAMEWORK, *(f"{LABEL}{p}" for p in ("batch", "filters", "kernel", "stride"))]
    half = conv.filter(pl.col(PRECISION) == "FP16").with_columns(
        (pl.col("flop/fp16-tensor") / total_flops(rows)).alias("tensor_share")
    )
    single = conv.filter(pl.col(PRECISION) == "FP32").select(
        *keys, pl.col("time_s").alias("single_s")
    )
    return half.join(single, on=keys).with_columns(
        (pl.col("single_s") / pl.col("time_s")).alias("gain")
    )


def _by_series(part: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    groups = part.group_by(FRAMEWORK, PRECISION, maintain_order=True)
    return sorted((f"{key[0]} {key[1]}", rows.sort("value")) for key, rows in groups)


def _flops(row: dict[str, Any]) -> float:
    return float(sum(v for k, v in row.items() if k.startswith("flop/")))


def _slope(part: pl.DataFrame) -> float:
    """Least-squares slope of launches over the swept value."""
    x, y = part["value"].cast(pl.Float64).to_list(), part["launches"].to_list()
    return statistics.linear_regression(x, y).slope


def _flatness(rows: pl.DataFrame) -> tuple[float, float]:
    """Smallest and largest ratio of LSTM time between hidden sizes 16 and 128."""
    series = _by_series(sweep(rows, "lstm", "forward", "hidden"))
    ratios = [float(part["time_s"][-1] / part["time_s"][0]) for _, part in series]
    return min(ratios), max(ratios)


def _span(moves: list[dict[str, float]], key: str) -> str:
    low, high = min(m[key] for m in moves), max(m[key] for m in moves)
    texts = list(dict.fromkeys((f"{low:.2g}", f"{high:.2g}")))
    return f"{' to '.join(texts)} times"


def _ids(rows: pl.DataFrame) -> list[int]:
    return [int(i) for i in rows["id"]]
