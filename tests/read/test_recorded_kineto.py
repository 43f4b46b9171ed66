"""Recorded Kineto traces and ExecutionTraces: known answers, and every file read or refused."""

from __future__ import annotations

import csv
import json
from functools import cache
from math import prod

import polars as pl
import pytest

import timeroof
from tests.recorded_data import DATA, LOOKED_AT, files, needs_recorded_data, place
from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.read.formats import ReadOptions, format_named
from timeroof.read.open import Input, open_input

pytestmark = needs_recorded_data

QWEN = "kineto/h100_qwen1.5_0.5b_chat.json.gz"
FILES = [place(p) for p in files("kineto/**/*.json*", "execution_trace/**/*.json*")]
# ExecutionTraces that were looked at; the other files there are Kineto traces.
EXECUTION_TRACES = [
    name for name in LOOKED_AT if name.startswith("execution_trace/") and "kineto" not in name
]
# Kernels, and their microseconds, as counted when the data was collected.
KERNELS = {
    "kineto/a100_2rank_nccl_metadata_rank0.json.gz": (2700, 162532.3),
    "kineto/a100_alexnet_no_shapes.json.gz": (79, 10692.0),
    "kineto/b200_eager_8gpu_rank0.json.gz": (768, 10862.9),
    "kineto/h100_bert_small_infer.json.gz": (60, 307.2),
    QWEN: (1465, 45432.7),
    "kineto/h800_deepseek_v3_train_dualpipe_rank0of64.json.gz": (963, 244041.0),
    "kineto/mi210_gpu_only_no_cpu_ops.json.gz": (562, 5343.4),
    "kineto/mi250_minitoy_train.json.gz": (14, 110.9),
    "kineto/mi300x_resnet_train_8gpu_rank0.json.gz": (2995, 97255.8),
    "kineto/mi300x_torch_compile_triton.json.gz": (12, 12549.0),
    "kineto/mi300x_vit_nsfw_infer.json.gz": (155, 1716.3),
    "kineto/mi300x_vllm_decode_hipgraph.json.gz": (425, 10674.5),
    "kineto/v100_recsys_train_rank1of2.json.gz": (9876, 801858.0),
    "execution_trace/linear_kineto_rtx2080ti.json.gz": (8716, 369343.0),
    "execution_trace/a100_simple_add_kineto.json.gz": (4, 16.0),
}


@cache
def read(name: str, companion: str | None = None) -> Profile:
    companions = (open_input(DATA / companion),) if companion else ()
    return format_named("kineto").read(open_input(DATA / name), ReadOptions(companions=companions))


def kernels(profile: Profile) -> pl.DataFrame:
    return profile.kernels.filter(pl.col("kind").is_in(["kernel", "collective"]))


def total(profile: Profile, column: str = "calls") -> float:
    return float(kernels(profile)[column].sum())


def opened(name: str) -> Input | None:
    """What a file of the folder holds; None where it cannot be opened as said."""
    try:
        return open_input(DATA / name)
    except InputError:
        return None


@pytest.mark.parametrize("name", FILES)
def test_a_trace_is_of_one_format(name: str) -> None:
    if (found := opened(name)) is not None:
        assert not (
            format_named("kineto").sniff(found) and format_named("execution-trace").sniff(found)
        )


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_kernels_and_their_time(name: str) -> None:
    count, time_us = KERNELS[name]
    assert total(read(name)) == count
    assert total(read(name), "time_s") * 1e6 == pytest.approx(time_us, abs=0.06)


@pytest.mark.parametrize("name", FILES)
def test_idle_and_busy_time_add_up(name: str) -> None:
    found = opened(name)
    if found is None or not format_named("kineto").sniff(found):
        return
    try:
        profile = read(name)
    except InputError:
        return  # refused with a reason: test_recorded_files.py
    if profile.wall_s is None or profile.kernel_s is None:
        return
    idle_s = profile.wall_s - profile.kernel_s
    assert sum(profile.idle_by_cause.values()) == pytest.approx(idle_s, abs=1e-9)
    if profile.timeline is not None:
        # Pauses outside of steps are in no row.
        pause_s = (profile.steps.pause_s or 0.0) if profile.steps is not None else 0.0
        before_s = profile.kernels["idle_before_s"].sum()
        assert before_s + pause_s == pytest.approx(idle_s, abs=1e-8)


def test_qwen_launches() -> None:
    profile = read(QWEN)
    linked = kernels(profile).filter(pl.col("label.link") == "launch")
    inferred = kernels(profile).filter(pl.col("label.inferred").is_not_null())
    assert (linked["calls"].sum(), inferred["calls"].sum()) == (1029, 436)
    assert profile.device == "NVIDIA H100 80GB HBM3"
    assert kernels(profile)["op"].null_count() == 0
    assert linked["module"].null_count() == 0


def gemm_flops(profile: Profile, link: str = "launch") -> float:
    """Multiply-adds of linked matrix products, 2 FLOPs each, without bias."""
    flops = 0.0
    rows = kernels(profile).filter(
        pl.col("op").is_in(["aten::mm", "aten::addmm", "aten::bmm"])
        & (pl.col("label.link") == link)
        & pl.col("shape").is_not_null()
    )
    for op, dims, calls in rows.select("op", "label.input_dims", "label.op_calls").iter_rows():
        shapes = json.loads(dims)
        left, right = shapes[1:3] if op == "aten::addmm" else shapes[:2]
        flops += 2 * prod(left) * right[-1] * float(calls)
    return flops


def test_qwen_gemm_flops_of_linked_kernels() -> None:
    assert gemm_flops(read(QWEN)) == pytest.approx(5514.537e9, rel=1e-6)


@pytest.mark.parametrize(
    "name", ["h100_qwen1.5_0.5b_chat", "h100_bert_small_infer", "mi300x_vit_nsfw_infer"]
)
def test_gemm_flops_agree_with_tracelens(name: str) -> None:
    folder = DATA / "kineto" / "tracelens_reference" / name
    theirs = 0.0
    with (folder / "GEMM.csv").open() as file:
        for row in csv.DictReader(file):
            sizes = [int(float(row[f"param: {k}"])) for k in "MN"]
            # They add one FLOP per element for a bias.
            bias = (
                prod(sizes) * (row["param: bias"] == "True") * max(int(float(row["param: B"])), 1)
            )
            theirs += (float(row["GFLOPS_first"]) * 1e9 - bias) * int(float(row["name_count"]))
    assert gemm_flops(read(f"kineto/{name}.json.gz")) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize(
    "name", ["h100_qwen1.5_0.5b_chat", "h100_bert_small_infer", "mi300x_vit_nsfw_infer"]
)
def test_kernels_agree_with_tracelens(name: str) -> None:
    """Their summary has a line per op and kernel; lines without an op have no launch."""
    profile = read(f"kineto/{name}.json.gz")
    theirs: dict[tuple[str | None, str], list[float]] = {}
    with (DATA / "kineto" / "tracelens_reference" / name / "kernel_summary.csv").open() as file:
        for row in csv.DictReader(file):
            key = (row["Parent cpu_op"] or None, row["Kernel name"])
            counts = theirs.setdefault(key, [0.0, 0.0])
            counts[0] += float(row["Kernel duration (µs)_count"])
            counts[1] += float(row["Kernel duration (µs)_sum"])
    linked = pl.col("label.link") == "launch"
    ours = (
        kernels(profile)
        .group_by(pl.when(linked).then(pl.col("op")).alias("op"), "name")
        .agg(pl.col("calls").sum(), pl.col("time_s").sum() * 1e6)
    )
    assert {
        (op, kernel): (calls, pytest.approx(us, rel=1e-6))
        for op, kernel, calls, us in ours.iter_rows()
    } == {k: (calls, us) for k, (calls, us) in theirs.items()}


@pytest.mark.parametrize("name", ["h100_bert_small_infer", "mi300x_vit_nsfw_infer"])
def test_busy_and_idle_agree_with_tracelens(name: str) -> None:
    profile = read(f"kineto/{name}.json.gz")
    with (DATA / "kineto" / "tracelens_reference" / name / "gpu_timeline.csv").open() as file:
        theirs = {row["type"]: float(row["time ms"]) / 1e3 for row in csv.DictReader(file)}
    assert profile.wall_s == pytest.approx(theirs["total_time"], rel=1e-6)
    assert profile.kernel_s == pytest.approx(theirs["busy_time"], rel=1e-6)


def test_hip_graph_kernels_keep_their_names() -> None:
    profile = read("kineto/mi300x_vllm_decode_hipgraph.json.gz")
    replayed = profile.kernels.filter(pl.col("label.link") == "graph")
    assert replayed["calls"].sum() == 421
    assert replayed["launches"].sum() == pytest.approx(1, abs=0.02)
    assert replayed["name"].n_unique() > 10
    assert profile.device == "AMD Instinct MI300X"  # by its properties


def test_collectives_and_ranks() -> None:
    profile = read("kineto/a100_2rank_nccl_metadata_rank0.json.gz")
    found = profile.kernels.filter(pl.col("kind") == "collective")
    assert found["calls"].sum() == 21
    assert set(found["label.collective"]) == {"allreduce", "broadcast"}
    assert set(found["label.group_size"]) == {"2"}
    assert found["link/nvlink"].null_count() == 0
    assert set(profile.kernels["rank"]) == {0}
    symmetric = read("kineto/b200_eager_8gpu_rank0.json.gz").kernels
    assert (
        symmetric.filter(
            (pl.col("kind") == "collective") & pl.col("name").str.contains("multimem")
        )["calls"].sum()
        > 0
    )
    deep_ep = read("kineto/h800_deepseek_v3_train_dualpipe_rank0of64.json.gz").kernels
    assert deep_ep.filter(pl.col("kind") == "collective")["calls"].sum() > 0


def test_training_has_phases_and_modules() -> None:
    profile = read("kineto/mi300x_resnet_train_8gpu_rank0.json.gz")
    assert profile.steps is not None
    assert profile.steps.count == 3
    linked = kernels(profile).filter(pl.col("label.link") == "launch")
    assert set(linked["phase"]) == {"forward", "backward", "optimizer", "other"}
    backward = linked.filter(pl.col("phase") == "backward")
    assert backward.filter(pl.col("module").is_not_null())["calls"].sum() > 1000


def test_a_trace_of_the_host_alone() -> None:
    profile = read("kineto/a100_cpu_ops_only_no_gpu.json.gz")
    assert set(profile.kernels["kind"]) == {"op"}
    assert profile.kernels["calls"].sum() == 2424
    assert profile.kernels["time_s"].sum() == pytest.approx(profile.kernel_s)


def test_the_host_of_a_gpu_program_does_not_do_its_work() -> None:
    """Its ops issue kernels that the file lacks: their time has no FLOPs and bytes."""
    report = timeroof.load(
        DATA / "kineto/a100_cpu_ops_only_no_gpu.json.gz", machine="a100-sxm4-40gb"
    )
    assert report.totals.known_time_share == 0
    assert set(report.rows["limiter"]) <= {"unknown", "launch"}
    assert report.totals.recoverable_s is None
    assert any("no kernels" in note for note in report.notes)


def test_counters_without_times() -> None:
    profile = read("kineto/a100_cupti_profiler_range_metrics.json.gz")
    assert profile.kernels["calls"].sum() == 77
    assert profile.kernels["time_s"].null_count() == len(profile)
    assert profile.kernels["flop/fp32"].sum() > 0


@pytest.mark.parametrize("name", EXECUTION_TRACES)
def test_execution_traces_are_read_or_refused_with_a_reason(name: str) -> None:
    found = open_input(DATA / name)
    assert format_named("execution-trace").sniff(found)
    assert not format_named("kineto").sniff(found)
    if "chakra_feeder" in name:
        assert (
            format_named("execution-trace").read(found, ReadOptions()).kernels["time_s"].sum() > 0
        )
    else:
        with pytest.raises(InputError, match="has no durations"):
            format_named("execution-trace").read(found, ReadOptions())


@pytest.mark.parametrize(
    ("trace", "lender", "share"),
    [
        (
            "execution_trace/linear_kineto_rtx2080ti.json.gz",
            "execution_trace/linear_et_schema1.0.1.json.gz",
            0.95,
        ),
        (
            "execution_trace/a100_simple_add_kineto.json.gz",
            "execution_trace/a100_simple_add_et.json.gz",
            1.0,
        ),
        (
            "kineto/v100_dlrm_8rank/worker0_step_12.1694128201545.pt.trace.json.gz",
            "execution_trace/v100_dlrm_8rank/dlrm_eg_0.json.gz",
            0.9,
        ),
    ],
)
def test_execution_traces_lend_shapes(trace: str, lender: str, share: float) -> None:
    rows = read(trace, lender).kernels
    shaped = rows.filter(pl.col("shape").is_not_null())["calls"].sum()
    assert shaped / rows["calls"].sum() >= share
    values = rows.filter(pl.col("label.concrete_inputs").is_not_null())["calls"].sum()
    assert values > 0


def test_lent_shapes_make_linear_countable() -> None:
    """A stack of 1024-wide layers at batch 512: every product has 2·512·1024·1024 FLOPs."""
    profile = read(
        "execution_trace/linear_kineto_rtx2080ti.json.gz",
        "execution_trace/linear_et_schema1.0.1.json.gz",
    )
    rows = kernels(profile).filter(
        pl.col("op").is_in(["aten::mm", "aten::addmm"]) & pl.col("shape").is_not_null()
    )
    calls = sum(float(c) for c in rows["label.op_calls"])
    assert gemm_flops(profile) == pytest.approx(calls * 2 * 512 * 1024 * 1024, rel=0.2)
