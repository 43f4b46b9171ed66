"""The paper's rows as a second source of the factors, and what the authors' numbers say.

Published passes have one time each and no samples: nothing can be tested, so the sentences give
ratios, from the same sweeps, groups and movements that a study's conclusions rest on.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from timeroof.core.machine import Machine
from timeroof.core.profile import LABEL
from timeroof.core.report import Finding, Report
from timeroof.core.units import format_amount, format_percent, format_seconds
from timeroof.paper import BASE_CASE, PARAMETERS, direct_flops
from timeroof.paper.build import build_paper
from timeroof.study.factors.conclusion import Facts
from timeroof.study.factors.intensity import movement
from timeroof.study.judged_cases import Row, Sweep, groups, in_order, sweeps, typed_rows

# Below this share of FLOPs on tensor cores, a pass is said to miss them.
TENSOR_SHARE = 0.5


def paper_report() -> Report:
    """The published passes, judged, with what they say."""
    report = build_paper()
    assert report.machine is not None
    return replace(report, findings=tuple(paper_findings(report.rows, report.machine)))


def published_cases(rows: pl.DataFrame) -> list[Row]:
    """The paper's judged rows as cases of a study: parameters, pass and precision in its words."""
    told = rows.with_columns(
        pl.col(f"{LABEL}precision").str.to_lowercase(), pl.col("phase").alias(f"{LABEL}pass")
    )
    return typed_rows(told, PARAMETERS)


def paper_findings(rows: pl.DataFrame, machine: Machine) -> list[Finding]:
    """The five factors of the paper, each with its evidence."""
    cases = published_cases(rows)
    forward = [row for row in cases if row.pass_name == "forward"]
    return [
        arithmetic_intensity(forward),
        cache_locality(forward),
        auto_tuning(forward),
        launch_overhead(cases, machine),
        tensor_cores(forward, machine),
    ]


def arithmetic_intensity(rows: Sequence[Row]) -> Finding:
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
    base, wide = evidence["batch PT FP32"], evidence["kernel PT FP32"]
    why = (
        f"Batch 16 to 64 changes intensity by {_span(batch, 'ai_ratio')} while work grows by"
        f" {_span(batch, 'flops_ratio')} and time by {_span(batch, 'time_ratio')}"
        f" (PyTorch FP32: {base['ai_first']:.0f} to {base['ai_last']:.0f} FLOP/B): one spot on the"
        " classic chart, a line on the combined one. A 9x9 kernel instead of 3x3 raises it by"
        f" {_span(kernel, 'ai_ratio')} (PyTorch FP32: {wide['ai_first']:.0f} to"
        f" {wide['ai_last']:.0f} FLOP/B), 512 filters instead of 64 by"
        f" {_span(moves['filters'], 'ai_ratio')}."
    )
    swept = in_order(_at(rows, "conv2d", but="batch"), "batch")
    grown = [move["time_ratio"] for move in batch.values()]
    title = (
        "Arithmetic intensity: Four times the batch is four times the work in"
        f" {min(grown):.1f}–{max(grown):.1f}× the time, at nearly the same intensity."
    )
    return _finding("intensity", title, why, [row.id for row in swept], evidence)


def cache_locality(rows: Sequence[Row]) -> Finding:
    """DRAM traffic of one and the same convolution in three frameworks."""
    base = [row for row in _at(rows, "conv2d") if row.precision == "fp32"]
    by_name = {row.framework: row for row in base}
    own, others = by_name["PT"], [by_name["TF1"], by_name["TF2"]]
    moved = {name: row.bytes_by["dram"] or 0.0 for name, row in by_name.items()}
    traffic = sorted(moved[o.framework] / moved["PT"] for o in others)
    time = sorted(o.time_s / own.time_s for o in others)
    levels = {
        name: {level: row.intensity_at(level) or 0.0 for level in ("l1", "l2", "dram")}
        for name, row in by_name.items()
    }
    why = (
        "For the same FP32 base convolution TensorFlow moves"
        f" {traffic[0]:.1f} to {traffic[1]:.1f} times the DRAM bytes of PyTorch"
        f" ({', '.join(format_amount(moved[o.framework], 'B') for o in others)} against"
        f" {format_amount(moved['PT'], 'B')}), launches"
        f" {' and '.join(f'{o.launches:.0f}' for o in others)} kernels instead of"
        f" {own.launches:.0f}, and takes {time[0]:.1f} to {time[1]:.1f} times as long."
        f" Intensity per level, TF2: L1 {levels['TF2']['l1']:.1f}, L2 {levels['TF2']['l2']:.1f},"
        f" DRAM {levels['TF2']['dram']:.1f} FLOP/B; PyTorch: L1 {levels['PT']['l1']:.1f},"
        f" L2 {levels['PT']['l2']:.1f}, DRAM {levels['PT']['dram']:.1f}."
    )
    title = (
        f"Cache locality: TensorFlow moves {traffic[0]:.1f}–{traffic[1]:.1f}× PyTorch's DRAM bytes"
        f" for the same convolution and takes {time[0]:.1f}–{time[1]:.1f}× as long."
    )
    evidence = {"intensity_per_level": levels, "traffic_ratio": traffic, "time_ratio": time}
    return _finding("locality", title, why, [row.id for row in base], evidence)


def auto_tuning(rows: Sequence[Row]) -> Finding:
    """Algorithm choice: tensor cores taken or missed, and convolutions that do less work."""
    every = _at(rows, "conv2d", stride=1)
    half = sorted((r for r in every if r.precision == "fp16"), key=lambda r: r.time_s)
    fast, slow = half[0], half[-1]
    work = {
        _series(r): round((r.flops or 0.0) / direct_flops(r.framework, r.params), 3) for r in every
    }
    reduced = [share for name, share in work.items() if name.endswith("FP32")]
    why = (
        f"FP16 at stride 1: {slow.framework} needs {format_seconds(slow.time_s)} with"
        f" {format_percent(_tensor_share(slow))} of its FLOPs on tensor cores,"
        f" {fast.framework} {format_seconds(fast.time_s)} with"
        f" {format_percent(_tensor_share(fast))}: the"
        f" library chose another algorithm for the same job, a factor of"
        f" {slow.time_s / fast.time_s:.1f}. FP32 at stride 1 executes only"
        f" {min(reduced):.2f} to {max(reduced):.2f} of the FLOPs of a direct convolution: a"
        " reduced-work algorithm such as Winograd's, so fewer FLOP/s would not mean slower."
    )
    title = (
        f"Auto-tuning: The same FP16 convolution takes {slow.time_s / fast.time_s:.1f}× as long"
        " where the library's algorithm misses the tensor cores."
    )
    evidence = {"executed_over_direct_flops": work, "time_ratio": slow.time_s / fast.time_s}
    return _finding("autotune", title, why, [row.id for row in every], evidence)


def launch_overhead(rows: Sequence[Row], machine: Machine) -> Finding:
    """Launching as a share of the time, and how launches grow with time steps."""
    forward = [row for row in rows if row.pass_name == "forward"]
    shares: dict[str, list[float]] = {}
    for row in forward:
        share = (row.overhead_time_s or 0.0) / row.time_s
        shares.setdefault(f"{row.op} {row.framework}", []).append(share)
    spans = {name: (min(own), max(own)) for name, own in shares.items()}
    conv = [v for k, v in spans.items() if k.startswith("conv2d")]
    # Launches over time steps, by least squares.
    steps = {
        key: statistics.linear_regression(
            [float(v) for v in s.values], [row.launches or 0.0 for row in s.rows]
        ).slope
        for key, s in _by_series(forward, "lstm", "time_steps").items()
    }
    flat = [s.time_ratio for s in _by_series(forward, "lstm", "hidden").values()]
    told = ", ".join(
        f"{k.removeprefix('lstm ')} {format_percent(low)} to {format_percent(high)}"
        for k, (low, high) in spans.items()
        if k.startswith("lstm")
    )
    inside = [row.id for row in rows if row.inside_overhead_box]
    lstm = [row.limiter for row in rows if row.op == "lstm"]
    t0 = format_seconds(machine.launch_overhead_s)
    why = (
        f"At {t0} per launch, launching is {format_percent(min(c[0] for c in conv))} to"
        f" {format_percent(max(c[1] for c in conv))} of a forward convolution, but of a forward"
        f" LSTM: {told}. It is the largest bound in {lstm.count('launch')} of"
        f" {len(lstm)} LSTM passes, and {len(inside)} of"
        f" {len(rows)} passes lie inside their overhead box. Hidden size 16 to 128 changes"
        f" forward LSTM time by only {min(flat):.2f} to {max(flat):.2f} times; launches grow per"
        f" time step by: {', '.join(f'{k} {v:.1f}' for k, v in steps.items())}."
    )
    recurrent = [v for k, v in spans.items() if k.startswith("lstm")]
    title = (
        f"Launch overhead: Launching takes {format_percent(min(r[0] for r in recurrent))} to"
        f" {format_percent(max(r[1] for r in recurrent))} of a forward LSTM, at most"
        f" {format_percent(max(c[1] for c in conv))} of a forward convolution."
    )
    evidence = {
        "overhead_share": {k: [round(v, 4) for v in span] for k, span in spans.items()},
        "launches_per_time_step": {k: round(v, 3) for k, v in steps.items()},
        "inside_overhead_box": len(inside),
        "hidden_16_to_128_time_ratio": [round(v, 4) for v in (min(flat), max(flat))],
    }
    return _finding("launch", title, why, inside, evidence)


def tensor_cores(rows: Sequence[Row], machine: Machine) -> Finding:
    """What FP16 gains where tensor cores work, and where they are missed."""
    pairs = [
        {row.precision: row for row in members} for members in groups(rows, "conv2d", "precision")
    ]
    gains = [(p["fp32"].time_s / p["fp16"].time_s, _tensor_share(p["fp16"])) for p in pairs]
    used = [gain for gain, share in gains if share >= TENSOR_SHARE]
    missed = [gain for gain, share in gains if share < TENSOR_SHARE]
    best = max((row for row in rows if row.op == "conv2d"), key=_rate)
    peak = machine.rate("flop/fp16-tensor")
    rate = _rate(best)
    share = rate / peak if peak else None
    why = (
        f"The best forward convolution ({best.name}) runs at"
        f" {format_amount(rate, 'FLOP/s')}, {format_percent(share)} of the tensor-core"
        f" peak. FP16 makes forward convolutions {min(used):.1f} to"
        f" {max(used):.1f} times as fast as FP32 where tensor cores do most FLOPs"
        f" ({len(used)} cases), {min(missed):.1f} to {max(missed):.1f} times where"
        f" they are missed ({len(missed)} cases)."
    )
    evidence = {
        "best_flop_per_s": rate,
        "share_of_peak": share,
        "gain_where_used": [min(used), max(used)],
        "gain_where_missed": [min(missed), max(missed)],
    }
    title = (
        f"Tensor cores: FP16 is {min(used):.1f}–{max(used):.1f}× as fast as FP32 where tensor cores"
        f" do most of the work, {min(missed):.1f}–{max(missed):.1f}× where they are missed."
    )
    return _finding("tensor-cores", title, why, [best.id], evidence)


def _finding(code: str, title: str, why: str, ids: list[int], evidence: Facts) -> Finding:
    return Finding(code=f"paper/{code}", title=title, why=why, kernels=ids, evidence=evidence)


def _at(rows: Sequence[Row], op: str, *, but: str = "", **changed: int) -> list[Row]:
    case = {name: v for name, v in (BASE_CASE[op] | changed).items() if name != but}
    return [row for row in rows if row.op == op and case.items() <= row.params.items()]


def _by_series(rows: Sequence[Row], op: str, parameter: str) -> dict[str, Sweep]:
    found = {_series(s.rows[0]): s for s in sweeps(rows, op) if s.parameter == parameter}
    return dict(sorted(found.items()))


def _series(row: Row) -> str:
    return f"{row.framework} {row.precision.upper()}"


def _ratios(swept: Sweep) -> dict[str, float]:
    moved = movement(swept)
    assert moved is not None
    return {
        "ai_first": moved.ai[0],
        "ai_last": moved.ai[1],
        "ai_ratio": moved.ai_ratio,
        "flops_ratio": moved.flops_ratio,
        "time_ratio": swept.time_ratio,
    }


def _tensor_share(row: Row) -> float:
    return (row.flops_by["fp16-tensor"] or 0.0) / (row.flops or 1.0)


def _rate(row: Row) -> float:
    return (row.flops or 0.0) / row.time_s


def _span(moves: dict[str, dict[str, float]], key: str) -> str:
    values = [move[key] for move in moves.values()]
    texts = dict.fromkeys(f"{v:.2g}" for v in (min(values), max(values)))
    return f"{' to '.join(texts)} times"
