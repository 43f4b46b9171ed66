"""Reports for the tests of views: a training step on an H100, many rows, hostile names."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import polars as pl

from timeroof.api.reports import analyze
from timeroof.core.profile import Profile, Source, SourceFile, Steps
from timeroof.core.report import Finding, Report

HOSTILE_NAMES = (
    "<script>window.hacked=1</script>",
    "</script><script>window.hacked=2</script>",
    "<img src=x onerror=window.hacked=3>",
    '"><svg onload=window.hacked=4>',
    "'; window.hacked=5; '",
    "javascript:window.hacked=6",
    "<a href='javascript:window.hacked=7'>click</a><b>bold</b>",
    "\x1b[31mred\x07 \x00nul \u2028line\u2029paragraph",
    "\u202eevil\u2066bidi\u2069 \u200bzero",
    "{{ 7*7 }} {% raw %} @@DATA@@ <!-- ]]>",
    "=cmd|'/c calc'!A1",
    "+1+cmd|' /C calc'!A0",
    "x" * 100_000,
    "<script>" * 12_500,
    "zälgo" + "\u0301" * 400,
)

HIDDEN, BATCH, SEQUENCE = 1024, 8, 2048


def _gemm(name: str, m: int, n: int, k: int, slow: float, **more: Any) -> dict[str, Any]:
    flops = 2.0 * m * n * k
    moved = 2.0 * (m * k + k * n + m * n)
    time_s = max(flops / 989e12, moved / 3.35e12) * slow
    full = f"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_32x3_{name}_align8>(T1::Params)"
    return {
        "name": full, "short_name": f"gemm {name} 256x128", "op": "aten::mm", "shape": f"[{m}, {k}] [{k}, {n}]",
        "dtype": "bf16", "time_s": time_s, "flop/bf16-tensor": flops, "flop/fp32": 0.0, "byte/dram": moved,
        "byte/l2": moved * 2.6, "contraction_flops": flops, **more,
    }  # fmt: skip


def _pointwise(
    name: str, op: str, elements: float, per: float, slow: float, **more: Any
) -> dict[str, Any]:
    moved = 4.0 * elements
    return {
        "name": f"void at::native::vectorized_elementwise_kernel<4, at::native::{name}_functor<c10::BFloat16>, std::array<char*, 3ul>>(int, T2, T3)",
        "short_name": f"elementwise {name}", "op": op, "shape": f"[{BATCH}, {SEQUENCE}, {HIDDEN}]", "dtype": "bf16",
        "time_s": moved / 3.35e12 * slow, "flop/bf16-tensor": 0.0, "flop/fp32": per * elements,
        "byte/dram": moved, "byte/l2": moved, **more,
    }  # fmt: skip


def step_rows(layers: int = 4) -> list[dict[str, Any]]:
    """The rows of one training step of a small transformer; about 15 a layer."""
    chance = random.Random(7)
    tokens = BATCH * SEQUENCE
    rows: list[dict[str, Any]] = []
    for layer in range(layers):
        for phase, times in (("forward", 1), ("backward", 2)):
            at = {"phase": phase, "calls": 1.0, "stream": "7", "device": "NVIDIA H100 80GB HBM3"}
            block = f"model.layers.{layer}"
            rows += [
                _gemm("qkv", tokens, 3 * HIDDEN, HIDDEN, chance.uniform(1.3, 1.7) * times, module=f"{block}.attn.qkv", **at),
                _gemm("out", tokens, HIDDEN, HIDDEN, chance.uniform(1.4, 2.2) * times, module=f"{block}.attn.out", **at),
                _gemm("up", tokens, 4 * HIDDEN, HIDDEN, chance.uniform(1.2, 1.5) * times, module=f"{block}.mlp.up", **at),
                _gemm("down", tokens, HIDDEN, 4 * HIDDEN, chance.uniform(1.2, 1.9) * times, module=f"{block}.mlp.down", **at),
                _pointwise("gelu", "aten::gelu", 4.0 * tokens * HIDDEN, 8, chance.uniform(1.1, 2.4), module=f"{block}.mlp.act", **at),
                _pointwise("layer_norm", "aten::native_layer_norm", 1.0 * tokens * HIDDEN, 6, chance.uniform(1.5, 3.5), module=f"{block}.norm", **at),
                _pointwise("add", "aten::add", 1.0 * tokens * HIDDEN, 1, chance.uniform(1.05, 1.6), module=f"{block}.residual", **at),
            ]  # fmt: skip
        rows.append({
            "name": "flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>", "short_name": "flash_fwd 128x64",
            "op": "aten::scaled_dot_product_attention", "phase": "forward", "module": f"model.layers.{layer}.attn.core",
            "shape": f"[{BATCH}, 32, {SEQUENCE}, 128]", "dtype": "bf16", "stream": "7", "calls": 1.0, "launches": 1.0,
            "flop/bf16-tensor": 2.2e11, "flop/fp32": 3e9, "byte/dram": 5.4e8, "byte/l2": 4e9, "time_s": 5.2e-4,
        })  # fmt: skip
    shared = {"flop/bf16-tensor": 0.0, "stream": "7", "dtype": "fp32"}
    rows += [
        {"name": "multi_tensor_apply_kernel<AdamFunctor>", "short_name": "adam multi_tensor", "op": "aten::_fused_adamw_", "phase": "optimizer", "calls": 48.0, "time_s": 1.9e-3, "flop/fp32": 2.2e9, "byte/dram": 4.1e9, "byte/l2": 4.1e9, **shared},
        {"name": "Memcpy HtoD (Pageable -> Device)", "kind": "copy", "short_name": "copy HtoD", "phase": "data", "time_s": 3.1e-4, "byte/dram": 1.3e5, "byte/l2": 1.3e5, "flop/bf16-tensor": 0.0, "flop/fp32": 0.0, "stream": "14"},
        {"name": "Memset (Device)", "kind": "memset", "short_name": "memset", "phase": "backward", "calls": 96.0, "time_s": 1.5e-4, "byte/dram": 2.4e8, "byte/l2": 2.4e8, "flop/bf16-tensor": 0.0, "flop/fp32": 0.0, "stream": "7"},
        {"name": "at::native::indexSelectLargeIndex<BFloat16, long>", "short_name": "indexSelect", "op": "aten::embedding", "module": "model.embed", "phase": "forward", "time_s": 9.0e-5, "flop/fp32": 0.0, "byte/dram": 1.34e8, "byte/l2": 1.34e8, **shared},
        {"name": "tiny_scalar_kernel", "short_name": "scalar div", "op": "aten::div", "phase": "backward", "calls": 210.0, "time_s": 4.8e-4, "flop/fp32": 210.0, "byte/dram": 2520.0, "byte/l2": 2520.0, **shared},
        {"name": "my_triton_kernel_0d1d2d3", "short_name": "triton custom", "op": "mylib::scan", "module": "model.head", "phase": "forward", "time_s": 6.6e-4, "flop/fp32": None, "byte/dram": None, "byte/l2": None, "flop/bf16-tensor": None, "stream": "7"},
        {"name": "cached_softmax", "short_name": "softmax (cached)", "op": "aten::_softmax", "module": "model.head", "phase": "forward", "time_s": 2.0e-5, "flop/fp32": 1e7, "byte/dram": 1.2e8, "byte/l2": 1.2e8, **shared},
    ]  # fmt: skip
    return rows


def _timeline(kernels: pl.DataFrame) -> pl.DataFrame:
    order = {"data": 0, "forward": 1, "backward": 2, "optimizer": 3}
    events: list[dict[str, Any]] = []
    now = 0.0
    rows = sorted(
        kernels.iter_rows(named=True), key=lambda r: (order.get(r["phase"], 9), r["module"] or "~")
    )
    for k, row in enumerate(rows):
        parts = min(int(row["calls"]), 12)
        for _ in range(parts):
            events.append(
                {
                    "start_s": now,
                    "duration_s": row["time_s"] / parts,
                    "stream": row["stream"],
                    "kernel": row["id"],
                    "idle_cause": None,
                }
            )
            now += row["time_s"] / parts
        if k % 6 == 5:
            events.append(
                {
                    "start_s": now,
                    "duration_s": 4e-5,
                    "stream": "7",
                    "kernel": None,
                    "idle_cause": "launch" if k % 12 else "data loader",
                }
            )
            now += 4e-5
    return pl.DataFrame(events, schema_overrides={"idle_cause": pl.String})


def step_report(layers: int = 4) -> Report:
    """About 60 rows of one training step on an H100, with timeline, findings and a full ladder."""
    rows = step_rows(layers)
    for index, row in enumerate(rows):
        row |= {
            "origin.time": "measured",
            "origin.flops": "counted",
            "origin.bytes/dram": "modelled",
            "time_spread": [0.01, 0.08, 0.3][index % 3],
        }
        if row.get("byte/dram") is None:
            row |= {"origin.flops": None, "origin.bytes/dram": None}
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = pl.DataFrame(
        [{c: row.get(c) for c in columns} for row in rows], infer_schema_length=None
    )
    source = Source(
        tool="torch.profiler",
        version="2.13.0",
        command="timeroof run train.py --batch 8",
        files=[SourceFile(name="traces/step.json.gz", sha256="ab" * 32)],
    )
    profile = Profile.of(
        table,
        source,
        device="NVIDIA H100 80GB HBM3",
        notes=("Bytes are modelled from shapes: caches may have kept some.",),
    )
    busy = float(profile.kernels["time_s"].sum())
    timeline = _timeline(profile.kernels)
    idle = timeline.filter(pl.col("kernel").is_null())
    causes = {
        row["idle_cause"]: row["duration_s"]
        for row in idle.group_by("idle_cause").agg(pl.col("duration_s").sum()).iter_rows(named=True)
    }
    wall = busy + float(idle["duration_s"].sum())
    flops, moved = (
        float(profile.kernels["flop/bf16-tensor"].sum()),
        float(profile.kernels["byte/dram"].sum()),
    )
    rungs = pl.DataFrame([
        {"name": "fused", "phase": "forward", "time_s": 0.0, "flop/bf16-tensor": flops / 3, "byte/dram": moved / 8, "launches": 1.0},
        {"name": "fused", "phase": "backward", "time_s": 0.0, "flop/bf16-tensor": 2 * flops / 3, "byte/dram": moved / 5, "launches": 1.0},
        {"name": "ideal", "phase": None, "time_s": 0.0, "flop/bf16-tensor": flops, "byte/dram": moved / 5, "launches": 1.0},
    ])  # fmt: skip
    profile = replace(
        profile,
        wall_s=wall,
        kernel_s=busy,
        idle_by_cause=causes,
        steps=Steps(count=20, unprofiled_s=wall, profiled_s=wall * 1.04),
        timeline=timeline,
        rungs=rungs,
    )
    report = analyze(profile, "h100-sxm")
    ids = report.profile.kernels["id"].to_list()
    findings = (
        Finding(code="fusion/elementwise", title="Elementwise chains reach memory between kernels", why="GELU, residual and norm read and write the same activations one after another; fused they would move a third of the bytes.", kernels=ids[10:26], gain_s=2.1e-3, action="Compile the block with torch.compile, or use a fused norm.", evidence={"rows": 16, "bytes": 9.1e9, "share": 0.112}),
        Finding(code="launch/small", title="210 launches of one scalar division", why="Each takes 2.3 µs and moves 12 bytes: launching is all it does.", kernels=[i for i, n in zip(ids, report.profile.kernels["name"], strict=True) if n == "tiny_scalar_kernel"], gain_s=4.8e-4, action="Divide once, on the sum.", evidence={"launches": 210}),
    )  # fmt: skip
    return replace(report, findings=findings)


def large_report(rows: int, seed: int = 3) -> Report:
    """Many rows with names, modules and shapes of realistic length, longest a few milliseconds."""
    chance = random.Random(seed)
    kinds = (
        "vectorized_elementwise_kernel",
        "cutlass_80_tensorop_bf16_s16816gemm",
        "reduce_kernel",
        "layer_norm_kernel",
        "CatArrayBatchedCopy",
    )
    ops = ("aten::add", "aten::mm", "aten::sum", "aten::native_layer_norm", "aten::cat")
    table = []
    for k in range(rows):
        which = chance.randrange(5)
        moved = 10 ** chance.uniform(3, 9)
        flops = 0.0 if which == 4 else moved * 10 ** chance.uniform(-1, 2.5)
        bound = max(moved / 3.35e12, flops / 989e12, 2e-6)
        shape = f"[{chance.randrange(1, 64)}, {chance.randrange(1, 4096)}, {chance.choice((64, 128, 1024, 4096))}]"
        table.append({
            "name": f"void at::native::{kinds[which]}<4, at::native::functor_{k % 700}<c10::BFloat16, float>, std::array<char*, {k % 97}ul>>(int, T2, OffsetCalculator<{k}>)",
            "short_name": f"{kinds[which][:18]} {k % 700}", "op": ops[which], "phase": chance.choice(("forward", "backward", "optimizer")),
            "module": f"model.layers.{k % 48}.{chance.choice(('attn', 'mlp', 'norm'))}.{chance.choice('abcd')}", "shape": shape, "dtype": "bf16",
            "calls": float(chance.randrange(1, 6)), "time_s": bound * 10 ** chance.uniform(0.05, 1.0),
            "flop/bf16-tensor": flops if which == 1 else 0.0, "flop/fp32": 0.0 if which == 1 else flops,
            "byte/dram": moved, "byte/l2": moved * chance.uniform(1, 4), "origin.time": "measured", "origin.flops": "counted",
        })  # fmt: skip
    return analyze(Profile.of(pl.DataFrame(table), Source(tool="synthetic")), "h100-sxm")


def huge_report(copies: int = 20) -> Report:
    """A hundred thousand rows."""
    kernels = large_report(5_000).profile.kernels.drop("id")
    table = pl.concat(
        kernels.with_columns(
            pl.col("time_s") * (1 + k / 50), pl.format("{} #{}", "name", pl.lit(k))
        )
        for k in range(copies)
    )
    return analyze(Profile.of(table, Source(tool="synthetic")), "h100-sxm")


def hostile_report() -> Report:
    """Names, modules, labels, notes and findings that try to break out of the page."""
    rows = [
        {"name": name, "short_name": name, "op": name, "module": name, "shape": name, "dtype": name, "stream": name,
         "device": name, "label.bad<b>": name, "origin.flops": name[:40], "time_s": 1e-3 / (k + 1), "flop/fp32": 1e9, "byte/dram": 1e8}
        for k, name in enumerate(HOSTILE_NAMES)
    ]  # fmt: skip
    timeline = pl.DataFrame([
        {"start_s": 1e-3 * k, "duration_s": 1e-3, "stream": name, "kernel": k if k % 2 else None, "idle_cause": None if k % 2 else name}
        for k, name in enumerate(HOSTILE_NAMES)
    ], schema_overrides={"idle_cause": pl.String})  # fmt: skip
    everything = "\n".join(HOSTILE_NAMES[:11])
    source = Source(
        tool=everything, command=everything, files=[SourceFile(name=everything, sha256=everything)]
    )
    profile = Profile.of(pl.DataFrame(rows), source, notes=HOSTILE_NAMES, timeline=timeline)
    report = analyze(profile, "h100-sxm")
    findings = tuple(
        Finding(code=n, title=n, why=n, action=n, kernels=[k], evidence={n: n, "k": [n, {n: n}]})
        for k, n in enumerate(HOSTILE_NAMES)
    )
    return replace(report, findings=findings)
